import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { handClock } from '../../../test/support/hand-clock.js'
import { keepTail, splitLines } from './capture.js'
import { commandEnvironment } from './environment.js'
import { processTree } from './process-tree.js'
import { openGuard } from './guard.js'
import type { Process } from './proc.js'
import { readToken, writeToken } from './token.js'

describe('a turn token', () => {
  const name = fc.stringMatching(/^[a-z0-9_-]{1,20}$/)
  it('a turn token can be parsed again, and other text is rejected', () => {
    const tokens = fc.record({
      installation: name,
      namespace: name,
      workerPid: fc.nat(),
      workerStart: name,
      projectId: name,
      agentId: name,
      agentTurnId: name,
      turnEpoch: fc.nat(),
    })
    fc.assert(
      fc.property(tokens, (token) => {
        expect(readToken(writeToken(token))).toEqual(token)
      }),
    )
    for (const text of ['', 'a.b', 'a.b.c.d.e.f.g.h', 'a.b.1.d.e.f..8', 'a.b.1.d.e.f.g/..8'])
      expect(readToken(text)).toBeUndefined()
  })
})

describe('the process tree of a turn', () => {
  const one = (pid: number, parent: number, session: number, more: Partial<Process> = {}): Process => ({
    pid,
    parent,
    group: more.group ?? session,
    session,
    start: String(pid),
    zombie: false,
    stopped: false,
    blocked: false,
    token: undefined,
    ...more,
  })
  const tree = (processes: Process[], more: object = {}) =>
    processTree(processes, { wanted: (token) => token === 'mine', self: 10, ...more }).map((process) => process.pid)
  const worker = one(10, 1, 10)

  it('contains processes with the token, in a session or group of a member, and children of members', () => {
    const processes = [
      worker,
      one(20, 10, 20, { token: 'mine' }),
      one(21, 20, 20),
      one(30, 1, 30, { token: 'mine' }),
      one(31, 1, 30),
      one(40, 31, 40),
      one(41, 1, 41, { group: 40 }),
      one(50, 10, 10),
      one(60, 1, 60, { token: 'other' }),
    ]
    expect(tree(processes)).toEqual([20, 21, 30, 31, 40, 41])
  })

  it('contains the session of a root that has ended and processes that were members before', () => {
    expect(tree([worker, one(21, 1, 20)], { root: 20 })).toEqual([21])
    expect(tree([worker, one(21, 1, 21)], { known: new Map([[21, '21']]) })).toEqual([21])
    expect(tree([worker, one(21, 1, 21)], { known: new Map([[21, 'another start']]) })).toEqual([])
  })

  it('never contains the caller, its session, the first process or zombies', () => {
    const processes = [one(1, 0, 1), worker, one(11, 10, 10, { token: 'mine' }), one(12, 11, 10, { zombie: true })]
    expect(tree([...processes, one(13, 10, 10)])).toEqual([11])
  })
})

describe('captured output', () => {
  it('captured output is the last bytes within the limit, in complete characters', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: 'grapheme' })), fc.integer({ min: 4, max: 40 }), (parts, max) => {
        const tail = keepTail(max)
        for (const part of parts) tail.add(Buffer.from(part))
        const all = parts.join('')
        expect(all.endsWith(tail.text())).toBe(true)
        expect(Buffer.byteLength(tail.text())).toBeLessThanOrEqual(max)
        expect(tail.bytes).toBe(Buffer.byteLength(all))
      }),
    )
  })

  it('captured output is split into lines however it is chunked, and only a line beyond the limit is skipped', () => {
    fc.assert(
      fc.property(fc.array(fc.stringMatching(/^[a-z]{1,12}$/)), fc.integer({ min: 1, max: 7 }), (lines, cut) => {
        const received: string[] = []
        const split = splitLines(8, (line) => received.push(line))
        const all = Buffer.from(lines.join('\n'))
        for (let at = 0; at < all.length; at += cut) split.add(all.subarray(at, at + cut))
        split.end()
        expect(received).toEqual(lines.filter((line) => line.length <= 8))
      }),
    )
  })
})

describe('the environment of a command', () => {
  it('the environment of a command has the allowed variables and those of the turn, and no setting of Bellwether', () => {
    const from = { PATH: '/bin', SECRET: 's', KEY: 'k', BELLWETHER__DATABASE__URL: 'postgres://' }
    expect(commandEnvironment(['KEY', 'ABSENT'], { FACT: 'f' }, 't', from)).toEqual({
      PATH: '/bin',
      KEY: 'k',
      FACT: 'f',
      BELLWETHER_TURN_TOKEN: 't',
    })
    for (const name of ['BELLWETHER__DATABASE__URL', 'bellwether_x'])
      expect(() => commandEnvironment([name], {}, 't', from)).toThrow('is a setting of the worker')
    for (const name of ['A=B', ''])
      expect(() => commandEnvironment([name], {}, 't', from)).toThrow('Invalid environment variable name')
  })
})

describe('a guard', () => {
  function scene() {
    const done: string[] = []
    let nowMs = 0
    const named = (wanted: (token: string) => boolean) => ['a', 'b'].filter(wanted).join()
    const guard = openGuard({
      clock: handClock(),
      nowMs: () => nowMs,
      onFrozen: (token) => done.push(`${token} frozen`),
      onExpired: (token) => done.push(`${token} expired`),
      end: async ({ wanted, graceMs }) => {
        done.push(`kill ${named(wanted)} after ${graceMs}`)
        return []
      },
      freeze: async ({ wanted }) => void done.push(`freeze ${named(wanted)}`),
      thaw: async ({ wanted }) => void done.push(`thaw ${named(wanted)}`),
    })
    for (const token of ['a', 'b']) guard.apply({ do: 'watch', token, until: 100, grace: 5 })
    const at = async (ms: number) => {
      nowMs = ms
      guard.check()
      await Promise.resolve()
      await Promise.resolve()
      return done.splice(0)
    }
    return { guard, done, at }
  }

  it('freezes a turn that is not renewed once, and continues it after a renewal that is not itself too old', async () => {
    const { guard, done, at } = scene()
    guard.apply({ do: 'renew', token: 'b', until: 300 })
    guard.apply({ do: 'renew', token: 'b', until: 200 })
    expect(await at(99)).toEqual([])
    expect(await at(100)).toEqual(['freeze a', 'a frozen'])
    expect(await at(150)).toEqual([])
    guard.apply({ do: 'renew', token: 'a', until: 149 })
    expect(done.splice(0)).toEqual([])
    guard.apply({ do: 'renew', token: 'a', until: 250 })
    expect(done.splice(0)).toEqual(['thaw a'])
    expect(await at(260)).toEqual(['freeze a', 'a frozen'])
  })

  it('freezes a turn again if its process was started after the freeze', async () => {
    const { guard, at } = scene()
    await at(100)
    guard.apply({ do: 'root', token: 'a', pid: 9 })
    expect(await at(101)).toEqual(['freeze a', 'a frozen'])
  })

  it('kills all turns when the worker ends: the frozen ones without a grace period, which could overlap a takeover', async () => {
    const { guard, done, at } = scene()
    guard.apply({ do: 'renew', token: 'b', until: 300 })
    await at(100)
    await guard.killAll()
    expect(done).toEqual(['kill a after 0', 'a expired', 'kill b after 5', 'b expired'])
    guard.apply({ do: 'renew', token: 'a', until: 900 })
    expect(done).toHaveLength(4)
  })

  it('kills a turn that was frozen for longer than any failover', async () => {
    const { at } = scene()
    await at(100)
    expect(await at(3_600_101)).toEqual(['kill a after 0', 'a expired', 'kill b after 0', 'b expired'])
  })

  it('continues a turn that an earlier guardian may have frozen', async () => {
    const { guard, at } = scene()
    guard.apply({ do: 'release', token: 'a' })
    guard.apply({ do: 'watch', token: 'a', until: 200, grace: 5, again: true })
    expect(await at(50)).toEqual(['thaw a'])
    expect(await at(60)).toEqual([])
  })

  it('forgets a released turn', async () => {
    const { guard, done } = scene()
    guard.apply({ do: 'release', token: 'a' })
    await guard.killAll()
    expect(done).toEqual(['kill b after 5', 'b expired'])
  })
})

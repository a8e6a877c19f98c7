import { Retryable } from '@bellwether/protocol'
import { describe, expect, it } from 'vitest'
import { negotiateTimeout, Sessions, type Session } from './sessions.js'

function make() {
  const led: string[] = []
  const sessions = new Sessions((session) => led.push(session.id))
  const create = (sessionId: string, sourceId = 's', nowMs = 0, timeoutMs = 30_000) =>
    sessions.create(
      {
        sessionId,
        taskId: sessionId,
        agentId: sessionId,
        sourceId,
        sourceUri: '',
        clientAddress: '',
        timeoutMs,
        createdAtMs: 0,
      },
      nowMs,
    )
  const end = (session: Session, nowMs = 0) => sessions.end(session, 'disconnected', nowMs, () => undefined)
  /** Sweeps as the loop does, up to `toMs`. */
  const watch = (fromMs: number, toMs: number) => {
    let expired: Session[] = []
    for (let at = fromMs; at <= toMs; at += 500) {
      expired = sessions.expired(at, 500)
      for (const session of expired) end(session, at)
      if (expired.length > 0) return { at, expired }
    }
    return { at: toMs, expired }
  }
  return { sessions, led, create, end, watch }
}

describe('leadership', () => {
  it('[V1.1] is the first session’s; later ones follow and never take it', () => {
    const { create, led, sessions } = make()
    const [one, two, three] = [create('1'), create('2'), create('3')]
    expect([one.role, two.role, three.role]).toEqual(['leader', 'follower', 'follower'])
    expect(sessions.leader('s')).toBe(one)
    expect(led).toEqual(['1'])
  })

  it('[V1.2] goes to the first follower in the same call that ends the leader', () => {
    const { create, end, sessions } = make()
    const [one, two, three] = [create('1'), create('2'), create('3')]
    end(one)
    expect([sessions.leader('s'), two.role, three.role]).toEqual([two, 'leader', 'follower'])
    end(three)
    expect(sessions.leader('s')).toBe(two)
    end(two)
    expect(sessions.leader('s')).toBeUndefined()
    expect(create('4').role).toBe('leader')
  })

  it('[V1.2] prefers a follower that was heard from lately', () => {
    const { create, end, sessions, watch } = make()
    const [one, quiet, lively] = [create('1'), create('2'), create('3')]
    watch(0, 20_000)
    sessions.hear(lively, 20_000)
    end(one, 20_000)
    expect([quiet.role, lively.role]).toEqual(['follower', 'leader'])
  })

  it('[V6.9] is one for each source', () => {
    const { create } = make()
    expect([create('1', 'x').role, create('2', 'y').role, create('3', 'x').role]).toEqual([
      'leader',
      'leader',
      'follower',
    ])
  })

  it('[V1.2] wakes the one who waits for news', async () => {
    const { create, end } = make()
    const [one, two] = [create('1'), create('2')]
    const news = two.somethingToTell()
    end(one)
    await news
    expect(two.role).toBe('leader')
  })
})

describe('timeouts', () => {
  it('[V1.5] are the longer of what the sensor asks for and what the server is set to', () => {
    expect([
      negotiateTimeout(10, 30),
      negotiateTimeout(60, 30),
      negotiateTimeout(undefined, 30),
      negotiateTimeout(null, 30),
    ]).toEqual([30, 60, 30, 30])
  })

  it('[V1.1] end a session that was silent for longer, while the judge was watching', () => {
    const { create, watch, sessions } = make()
    const one = create('1')
    create('2', 's', 0, 60_000)
    expect(watch(0, 30_000).expired).toEqual([])
    expect(watch(30_500, 31_000)).toEqual({ at: 30_500, expired: [one] })
    expect(sessions.leader('s')?.id).toBe('2')
  })

  it('[V1.1] do not count what nobody watched: a paused server ends nobody, and everybody has a full timeout again', () => {
    const { create, watch, sessions } = make()
    const one = create('1')
    watch(0, 5_000)
    // The server slept for an hour; the heartbeats of that hour are still in its sockets.
    expect(sessions.expired(3_605_000, 500)).toEqual([])
    expect(watch(3_605_500, 3_635_000).expired).toEqual([])
    expect(watch(3_635_500, 3_636_000).expired).toEqual([one])
  })

  it('[V1.1] are pushed on by each heartbeat', () => {
    const { create, watch, sessions } = make()
    const one = create('1')
    watch(0, 29_000)
    sessions.hear(one, 29_000)
    expect(watch(29_500, 59_000).expired).toEqual([])
    expect(watch(59_500, 60_000).expired).toEqual([one])
  })
})

describe('commands', () => {
  it('[V4.1] wait for the next heartbeat, in order, and are taken once', () => {
    const session = make().create('1')
    session.command({ type: 'audit' })
    session.command({ type: 'snapshot' })
    expect(session.takeCommands()).toEqual([{ type: 'audit' }, { type: 'snapshot' }])
    expect(session.takeCommands()).toEqual([])
  })

  it('[V4.1] are bounded: a sensor that never comes for them is not filled up', () => {
    const session = make().create('1')
    for (let i = 0; i < 256; i += 1) session.command({ type: 'audit' })
    expect(() => session.command({ type: 'audit' })).toThrow(Retryable)
  })
})

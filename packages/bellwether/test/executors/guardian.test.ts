import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { systemClock } from '@bellwether/base'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { killTree } from '../../src/ports/processes/kill-tree.js'
import { openGuardian } from '../../src/ports/processes/guardian.js'
import { readProcess, readSelf } from '../../src/ports/processes/proc.js'
import { sweepOlder, sweepOrphans } from '../../src/ports/processes/sweep.js'
import { tokenName, writeToken } from '../../src/ports/processes/token.js'
import { quietLog } from '../support/quiet-log.js'
import { until } from '../support/until.js'
import { carriers, guardianProgram, openBench, type Bench } from './bench.js'

const gone = (pid: number) =>
  until(`process ${pid} is gone`, async () => ((readProcess(pid)?.zombie ?? true) ? true : undefined), 10_000)

/** A process with this token that does not heed TERM. */
function sleeper(token: string): number {
  const child = spawn('/bin/sh', ['-c', 'trap "" TERM; while :; do sleep 1000; done'], {
    env: { PATH: process.env['PATH']!, [tokenName]: token },
    detached: true,
    stdio: 'ignore',
  })
  onTestFinished(async () => {
    await killTree({ clock: systemClock, graceMs: 0, wanted: (one) => one === token })
  })
  return child.pid!
}

describe('the guardian', () => {
  const options = { clock: systemClock, log: quietLog, graceMs: 50, program: guardianProgram }

  it('ends a turn that nobody renews, and spares the one that is renewed and the one that is over', async () => {
    const guardian = openGuardian({ ...options, ttlMs: 1_500 })
    onTestFinished(() => guardian.close())
    const tokens = ['silent', 'renewed', 'over'].map((name) => `guardian-test-${name}-${process.pid}`)
    const sinceMs = systemClock.monotonicMs()
    const [silent, renewed, over] = await Promise.all(tokens.map((token) => guardian.watch(token, sinceMs)))
    const [silentPid, renewedPid, overPid] = tokens.map(sleeper)
    silent!.root(silentPid!)
    over!.release()
    renewed!.renew(systemClock.monotonicMs() + 60_000)
    await gone(silentPid!)
    expect(silent!.lost.reason).toBe('expired')
    expect([readProcess(renewedPid!)?.zombie, readProcess(overPid!)?.zombie]).toEqual([false, false])
    expect(renewed!.lost.aborted).toBe(false)
    // The worker goes: everything that is still watched goes with it, and then the guardian itself.
    const pid = guardian.pid!
    guardian.close()
    await gone(renewedPid!)
    await gone(pid)
    expect(readProcess(overPid!)?.zombie).toBe(false)
  })

  it('is no younger for a renewal that came late: the time counts from when the beat was asked for', async () => {
    const guardian = openGuardian({ ...options, ttlMs: 60_000 })
    onTestFinished(() => guardian.close())
    const token = `guardian-test-late-${process.pid}`
    const watch = await guardian.watch(token, systemClock.monotonicMs() - 58_500)
    const pid = sleeper(token)
    watch.renew(systemClock.monotonicMs() - 58_900)
    await gone(pid)
    expect(watch.lost.reason).toBe('expired')
  })

  it('that does not answer is replaced', async () => {
    const guardian = openGuardian({ ...options, ttlMs: 60_000, answerMaxMs: 4_000 })
    onTestFinished(() => guardian.close())
    const token = `guardian-test-mute-${process.pid}`
    const watch = await guardian.watch(token, systemClock.monotonicMs())
    const first = guardian.pid!
    process.kill(first, 'SIGSTOP')
    watch.renew(systemClock.monotonicMs())
    await gone(first)
    await until('there is another', async () => ![undefined, first].includes(guardian.pid) || undefined)
    expect(watch.lost.aborted).toBe(false)
    const pid = sleeper(token)
    guardian.close()
    await gone(pid)
  })

  it('that cannot live costs its turns their processes, and no command is started without one', async () => {
    const mortal = openGuardian({ ...options, ttlMs: 60_000, program: ['-e', 'process.exit(1)'] })
    await expect(mortal.watch('guardian-test-mortal', systemClock.monotonicMs())).rejects.toThrow(
      'there is no guardian',
    )
  })
})

describe('a sweep', () => {
  const self = readSelf()
  const mine = {
    installation: `sweep-${process.pid}`,
    ...self,
    projectId: 'p',
    agentId: 'a',
    agentTurnId: 't',
    turnEpoch: 5,
  }
  const sweep = { clock: systemClock, graceMs: 0, installation: mine.installation }

  it('ends what dead workers left, and nothing of the living, of other installations or of other pid namespaces', async () => {
    const dead = sleeper(writeToken({ ...mine, workerStart: '1' }))
    const others = [
      mine,
      { ...mine, workerStart: '1', installation: 'another' },
      { ...mine, workerStart: '1', namespace: '1' },
    ].map((token) => sleeper(writeToken(token)))
    expect(await sweepOrphans(sweep, self)).toBeGreaterThan(0)
    await gone(dead)
    for (const pid of others) expect(readProcess(pid)?.zombie).toBe(false)
  })

  it("ends an agent's older attempts, and never a newer one: the sweeper may itself be outdated", async () => {
    const older = sleeper(writeToken({ ...mine, turnEpoch: 4 }))
    const others = [mine, { ...mine, turnEpoch: 6 }, { ...mine, turnEpoch: 4, agentId: 'b' }].map((token) =>
      sleeper(writeToken(token)),
    )
    expect(await sweepOlder(sweep, mine)).toBeGreaterThan(0)
    await gone(older)
    for (const pid of others) expect(readProcess(pid)?.zombie).toBe(false)
  })
})

describe('a turn whose worker does not beat', () => {
  let b: Bench
  beforeAll(async () => {
    b = await openBench({ ttlMs: 2_000 })
  })
  afterAll(() => b.close())

  it('[T1.6] loses its processes in time, and is delivered with what happened', async () => {
    const turn = await b.begin({ command: 'setsid sleep 1000 & sleep 1000' })
    const done = await b.ended(turn)
    expect(done).toMatchObject({ outcome: 'failed', error: 'guardian_expired', taskEvents: 1 })
    expect(done.text).toContain('its worker did not renew the guardian in time')
    expect(carriers(turn)).toEqual([])
  })

  it('goes on for as long as beats come', async () => {
    const turn = await b.begin({ command: 'until [ -e ../enough ]; do sleep 0.05; done; echo fine', cwd: 'work' })
    await until('its process runs', async () => (carriers(turn).length > 0 ? true : undefined))
    const untilMs = systemClock.monotonicMs() + 3_000
    await until('longer than one beat vouches for', async () => {
      await b.worker.beat()
      return systemClock.monotonicMs() > untilMs ? true : undefined
    })
    expect(carriers(turn)).not.toEqual([])
    await b.write('enough', '')
    expect(await b.ended(turn)).toMatchObject({ outcome: 'success', text: 'fine' })
  })

  it('[T1.2] starts nothing when its fence was lost before the start', async () => {
    const turn = await b.begin({ command: 'echo started >> started' }, {}, async (agentTurnId) => {
      const text = 'update state.agent_state_head set turn_epoch = turn_epoch + 1 where active_agent_turn_id = $1'
      await b.t.db.query({ text, values: [agentTurnId] })
    })
    expect(() => readFileSync(join(b.folder, 'started'))).toThrow('ENOENT')
    expect(carriers(turn)).toEqual([])
  })
})

it('[T1.6] a turn whose guardians die one after the other is given up, with its processes', async () => {
  const dying = `let heard = 0
    process.stdin.on('data', (data) => {
      for (const line of String(data).trim().split('\\n')) {
        console.log(JSON.stringify({ done: JSON.parse(line).seq }))
        heard += 1
      }
      if (heard >= 2) process.exit(1)
    })`
  const b = await openBench({ program: ['-e', dying] })
  onTestFinished(() => b.close())
  const done = await b.run({ command: 'setsid sleep 1000 & sleep 1000' })
  expect(done).toMatchObject({ outcome: 'failed', error: 'guardian_lost', taskEvents: 1 })
  expect(done.text).toContain('its guardian died and could not be replaced')
  expect(carriers(done.agent_turn_id!)).toEqual([])
  expect(await b.run({ command: 'echo never' })).toMatchObject({
    outcome: 'failed',
    error: 'guardian_lost',
    text: expect.stringContaining('commands are not started without one'),
  })
})

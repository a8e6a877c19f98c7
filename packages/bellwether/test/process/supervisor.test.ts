import { fileURLToPath } from 'node:url'
import { environment, systemClock } from '@bellwether/base'
import { expect, it, onTestFinished } from 'vitest'
import { startChild } from '../../src/runtime/supervise/child-process.js'
import { defaultRestartRules } from '../../src/runtime/supervise/restart-policy.js'
import { openSupervisor, type Part, type PartState } from '../../src/runtime/supervise/supervisor.js'
import { isAlive } from '../support/folder.js'
import { quietLog } from '../support/quiet-log.js'
import { testFolder } from '../support/postgres.js'
import { until } from '../support/until.js'

const program = [fileURLToPath(new URL('../support/processes/part.mjs', import.meta.url))]

async function open(rules = defaultRestartRules, stopMs = 5_000) {
  const folder = await testFolder()
  const changes: PartState[] = []
  const supervisor = openSupervisor({
    clock: systemClock,
    log: quietLog,
    rules,
    stopMs,
    onChange: (part) => changes.push(part),
  })
  onTestFinished(() => supervisor.stop())
  const part = (name: string, how: () => string = () => 'stay'): Part => ({
    name,
    start: () => startChild({ program, env: { PATH: environment()['PATH'] }, folder }, how(), []),
  })
  const state = (name: string) => supervisor.parts.find((one) => one.name === name)
  return { supervisor, part, state, changes }
}

it('restarts a killed part and leaves the others alone', async () => {
  const { supervisor, part, state } = await open()
  const one = await supervisor.keep(part('one'))
  const other = await supervisor.keep(part('other'))
  one.kill()
  const again = await until('the part is back', async () =>
    state('one')?.status === 'ready' && state('one')?.pid !== one.pid ? state('one') : undefined,
  )
  expect(again).toMatchObject({ restarts: 1, lastEnd: 'signal SIGKILL' })
  expect(state('other')).toMatchObject({ pid: other.pid, restarts: 0 })
})

it('quarantines a part in a crash loop, reports it, and retries later', async () => {
  let repaired = false
  const quick = {
    ...defaultRestartRules,
    backoff: { ...defaultRestartRules.backoff, baseMs: 1 },
    loopAfter: 3,
    quarantineMs: 300,
  }
  const { supervisor, part, state, changes } = await open(quick)
  await supervisor.keep(part('one', () => (repaired ? 'stay' : 'brief')))
  await until('it is in quarantine', async () => (state('one')?.status === 'quarantined' ? true : undefined))
  expect(state('one')?.lastEnd).toBe('exit code 4')
  repaired = true
  await until('it is back', async () => (state('one')?.status === 'ready' ? true : undefined))
  expect(changes.filter((one) => one.status === 'quarantined').length).toBeGreaterThan(0)
})

it('does not quarantine a part whose ends are excused', async () => {
  const { supervisor, part, state, changes } = await open({
    ...defaultRestartRules,
    backoff: { ...defaultRestartRules.backoff, baseMs: 1 },
    loopAfter: 2,
  })
  let lives = 0
  const brief = part('one', () => ((lives += 1) <= 5 ? 'brief' : 'stay'))
  await supervisor.keep({ ...brief, excuse: async () => true })
  await until('it stays', async () => (lives === 6 && state('one')?.status === 'ready' ? true : undefined))
  expect(changes.filter((one) => one.status === 'quarantined')).toEqual([])
  expect(state('one')).toMatchObject({ restarts: 5 })
})

it('keeps retrying when a restart fails', async () => {
  let how = 'stay'
  const { supervisor, part, state } = await open({
    ...defaultRestartRules,
    backoff: { ...defaultRestartRules.backoff, baseMs: 1 },
  })
  const one = await supervisor.keep(part('one', () => how))
  how = 'broken'
  one.kill()
  await until('two starts have failed', async () => ((state('one')?.restarts ?? 0) >= 2 ? true : undefined))
  how = 'stay'
  const back = await until('it is back', async () => (state('one')?.status === 'ready' ? state('one') : undefined))
  expect(back.restarts).toBeGreaterThan(2)
})

it('rejects when the first start fails, and keeps retrying', async () => {
  let how = 'broken'
  const { supervisor, part, state } = await open({
    ...defaultRestartRules,
    backoff: { ...defaultRestartRules.backoff, baseMs: 1 },
  })
  await expect(supervisor.keep(part('one', () => how))).rejects.toMatchObject({ code: 'child_failed' })
  how = 'stay'
  await until('it is ready', async () => (state('one')?.status === 'ready' ? true : undefined))
  expect(state('one')?.lastEnd).toMatch(/^failed to start: The broken process ended before/)
})

it('starts a quarantined part at once on retryNow', async () => {
  let how = 'brief'
  const slow = { ...defaultRestartRules, loopAfter: 1, quarantineMs: 600_000 }
  const { supervisor, part, state } = await open(slow)
  await supervisor.keep(part('one', () => how))
  const quarantined = await until('it is in quarantine', async () =>
    state('one')?.status === 'quarantined' ? state('one') : undefined,
  )
  expect((quarantined.nextStartMs ?? 0) - quarantined.sinceMs).toBeGreaterThan(599_000)
  how = 'stay'
  supervisor.retryNow('one')
  await until('it is back', async () => (state('one')?.status === 'ready' ? true : undefined))
  expect(state('one')).toMatchObject({ restarts: 1, nextStartMs: null })
})

it('stops the newest part first and kills a part that ignores SIGTERM', async () => {
  const { supervisor, part, changes } = await open(defaultRestartRules, 300)
  const first = await supervisor.keep(part('first', () => 'stubborn'))
  const second = await supervisor.keep(part('second'))
  await supervisor.stop()
  expect([isAlive(first.pid), isAlive(second.pid)]).toEqual([false, false])
  expect(changes.filter((one) => one.status === 'stopped').map((one) => one.name)).toEqual(['second', 'first'])
})

import { fileURLToPath } from 'node:url'
import { systemClock } from '@bellwether/base'
import { expect, it, onTestFinished } from 'vitest'
import { startMember } from '../../src/runtime/child-process.js'
import { usualRules } from '../../src/runtime/restart-policy.js'
import { openSupervisor, type Part, type PartState } from '../../src/runtime/supervisor.js'
import { quietLog } from '../support/quiet-log.js'
import { testFolder } from '../support/postgres.js'
import { until } from '../support/until.js'

const program = [fileURLToPath(new URL('../support/part.mjs', import.meta.url))]

async function open(rules = usualRules, stopMs = 5_000) {
  const folder = await testFolder()
  const told: PartState[] = []
  const supervisor = openSupervisor({
    clock: systemClock,
    log: quietLog,
    rules,
    stopMs,
    onChange: (part) => told.push(part),
  })
  onTestFinished(() => supervisor.stop())
  const part = (name: string, how: () => string = () => 'stay'): Part => ({
    name,
    start: () => startMember({ program, env: { PATH: process.env['PATH'] }, folder }, how(), []),
  })
  const state = (name: string) => supervisor.parts.find((one) => one.name === name)
  return { supervisor, part, state, told }
}

function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

it('starts a part again that was killed, and leaves the others alone', async () => {
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

it('puts a part in quarantine that ends again and again, says so, and tries again later', async () => {
  let mended = false
  const quick = { ...usualRules, backoff: { ...usualRules.backoff, baseMs: 1 }, loopAfter: 3, quarantineMs: 300 }
  const { supervisor, part, state, told } = await open(quick)
  await supervisor.keep(part('one', () => (mended ? 'stay' : 'brief')))
  await until('it is in quarantine', async () => (state('one')?.status === 'quarantined' ? true : undefined))
  expect(state('one')?.lastEnd).toBe('exit code 4')
  mended = true
  await until('it is back', async () => (state('one')?.status === 'ready' ? true : undefined))
  expect(told.filter((one) => one.status === 'quarantined').length).toBeGreaterThan(0)
})

it('goes on trying when a part cannot be started again', async () => {
  let how = 'stay'
  const { supervisor, part, state } = await open({ ...usualRules, backoff: { ...usualRules.backoff, baseMs: 1 } })
  const one = await supervisor.keep(part('one', () => how))
  how = 'broken'
  one.kill()
  await until('two starts have failed', async () => ((state('one')?.restarts ?? 0) >= 2 ? true : undefined))
  how = 'stay'
  const back = await until('it is back', async () => (state('one')?.status === 'ready' ? state('one') : undefined))
  expect(back.restarts).toBeGreaterThan(2)
})

it('says when the first start fails, and goes on trying', async () => {
  let how = 'broken'
  const { supervisor, part, state } = await open({ ...usualRules, backoff: { ...usualRules.backoff, baseMs: 1 } })
  await expect(supervisor.keep(part('one', () => how))).rejects.toMatchObject({ code: 'member_failed' })
  how = 'stay'
  await until('it is there', async () => (state('one')?.status === 'ready' ? true : undefined))
  expect(state('one')?.lastEnd).toMatch(/^could not be started: broken ended before/)
})

it('starts a part at once that waits in quarantine when its cause may have passed', async () => {
  let how = 'brief'
  const slow = { ...usualRules, loopAfter: 1, quarantineMs: 600_000 }
  const { supervisor, part, state } = await open(slow)
  await supervisor.keep(part('one', () => how))
  const kept = await until('it is in quarantine', async () =>
    state('one')?.status === 'quarantined' ? state('one') : undefined,
  )
  expect((kept.nextStartMs ?? 0) - kept.sinceMs).toBeGreaterThan(599_000)
  how = 'stay'
  supervisor.nudge('one')
  await until('it is back', async () => (state('one')?.status === 'ready' ? true : undefined))
  expect(state('one')).toMatchObject({ restarts: 1, nextStartMs: null })
})

it('leaves nothing behind, not even what ignores SIGTERM, and stops the newest first', async () => {
  const { supervisor, part, told } = await open(usualRules, 300)
  const first = await supervisor.keep(part('first', () => 'stubborn'))
  const second = await supervisor.keep(part('second'))
  await supervisor.stop()
  expect([isThere(first.pid), isThere(second.pid)]).toEqual([false, false])
  expect(told.filter((one) => one.status === 'stopped').map((one) => one.name)).toEqual(['second', 'first'])
})

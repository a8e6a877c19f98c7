/** Pauses of the database and of the worker, longer than every timeout: running commands wait and continue. */
import { systemClock } from '@bellwether/base'
import { expect, it } from 'vitest'
import { startOwnPostgres } from '../support/processes/own-postgres.js'
import { until } from '../support/until.js'
import { areStopped } from './command-setup.js'
import { openWorkerProcesses } from './worker-processes.js'

/** Another worker takes over after 5 s, and this worker gives up the turns of functions. */
const longerThanTimeoutMs = 7_000

it('[W2.10] a command survives a paused database and a frozen worker, each for longer than the processing timeout', async ({
  onTestFinished,
}) => {
  const server = await startOwnPostgres()
  onTestFinished(() => server.stop())
  const agent = `---
command: 'until [ -e ../go ]; do sleep 0.05; done; echo "taken over: $BELLWETHER_TAKEN_OVER"'
cwd: work
on_takeover: fail
---
`
  const processes = await openWorkerProcesses({ steady: agent }, server.url)
  onTestFinished(() => processes.stop())
  const worker = await processes.add('worker')
  const turn = await processes.begin('steady')
  const states = (stopped: boolean) =>
    until(
      `all processes of the turn are stopped: ${stopped}`,
      async () => areStopped(turn, stopped) || undefined,
      30_000,
    )
  const outlast = async () => {
    await states(true)
    const since = systemClock.monotonicMs()
    await until(
      'longer than the timeout',
      async () => systemClock.monotonicMs() - since > longerThanTimeoutMs || undefined,
      20_000,
    )
  }
  await states(false)

  await server.pause(true)
  await outlast()
  await server.pause(false)
  await states(false)

  worker.signal('SIGSTOP')
  await outlast()
  worker.signal('SIGCONT')
  await states(false)

  await processes.write('go', '')
  expect(await processes.ended(turn)).toMatchObject({
    outcome: 'success',
    text: 'taken over: false',
    turn_epoch: 1,
    task_events: 1,
  })
})

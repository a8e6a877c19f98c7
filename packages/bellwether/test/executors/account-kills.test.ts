/** A held account while workers and PMO are killed: real processes, one probe per window, and every turn succeeds once. */
import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Cli } from '../support/process.js'
import { until } from '../support/until.js'
import { openWorkerProcesses, type WorkerProcesses } from './worker-processes.js'

const agent = `---
command: |
  echo run >> runs
  while [ -e block ]; do sleep 0.1; done
  if [ -e limit ]; then echo "5-hour limit reached" >&2; exit 1; fi
  echo done
account: shared
---
Work.
`

let b: WorkerProcesses
beforeAll(async () => void (b = await openWorkerProcesses({ ann: agent, bob: agent })))
afterAll(() => b.stop())

async function killed(one: Cli): Promise<void> {
  one.signal('SIGKILL')
  await one.ended
}

const runs = () => (existsSync(join(b.folder, 'runs')) ? b.read('runs').trim().split('\n').length : 0)
const rows = <Row extends object>(text: string) => b.kernel.db.query<Row>({ text })
const hold = async () =>
  (await rows<{ window_no: number; probe_at: Date | null }>('select * from state.account_holds'))[0]
const parked = async () => (await rows('select from state.parked_turns')).length
const endWindow = () => rows("update state.account_holds set until = state.now() - interval '1 second'")
const keepHeld = () => rows("update state.account_holds set until = state.now() + interval '1 hour'")

it('[W2.1] kills of the worker while the account is held and while it is probed lose no turn and repeat no probe', async () => {
  await b.write('limit', '')
  const [pmo, worker] = [await b.add('pmo'), await b.add('worker')]
  const turns = [await b.begin('ann'), await b.begin('bob')]
  await until('both turns are parked', async () => (await parked()) === 2 || undefined)
  await keepHeld()
  const before = runs()

  // Everything is killed while the turns are parked.
  await Promise.all([killed(pmo), killed(worker)])
  const [nextPmo, prober] = [await b.add('pmo'), await b.add('worker')]
  await b.write('block', '')
  await endWindow()
  await until('a turn probes the account', async () => runs() === before + 1 || undefined)
  const probed = await hold()
  expect(probed?.probe_at).not.toBeNull()

  // The worker of the probe is killed; its successor must not call again in this window.
  await killed(prober)
  await b.add('worker')
  await until('the next window has begun', async () => (await hold())?.window_no === probed!.window_no + 1 || undefined)
  await keepHeld()
  await until('both turns are parked again', async () => (await parked()) === 2 || undefined)
  expect(runs()).toBe(before + 1)

  await killed(nextPmo)
  await b.add('pmo')
  await Promise.all(['block', 'limit'].map((name) => rm(join(b.folder, name))))
  await endWindow()
  for (const turn of turns) expect(await b.ended(turn)).toMatchObject({ outcome: 'success', task_events: 1 })
  expect(runs()).toBe(before + 3)
})

import { expect, it } from 'vitest'
import { readTranscript } from '../../src/kernel/reads/transcript.js'
import type { Cli } from '../support/process.js'
import { until } from '../support/until.js'
import { carriers } from './command-setup.js'
import { openWorkerProcesses, type WorkerProcesses } from './worker-processes.js'

/** The first run never ends, has hard children, and writes as long as it lives; a later one says so and ends. */
const hard = (more: string) => `---
command: [/bin/sh, ../hard.sh]
cwd: work
${more}
---
`

const script = `if [ "$BELLWETHER_TAKEN_OVER" = false ]; then
  echo 'first attempt'
  trap '' TERM HUP INT
  setsid sh -c 'trap "" TERM; while :; do echo 1 >> "$BELLWETHER_AGENT"; sleep 0.1; done' &
  (setsid sh -c 'setsid sleep 1000 & sleep 1000' &)
  while :; do echo 1 >> "$BELLWETHER_AGENT"; sleep 0.1; done
fi
echo "$BELLWETHER_TAKEN_OVER" >> "$BELLWETHER_AGENT"
grep -q "This turn was interrupted before" && echo "the takeover is noted"
`

/** A project of its own for each test, so that they can wait at the same time. No PMO is needed: workers take over from workers. */
async function openOwn(
  later: (tidyUp: () => Promise<void>) => void,
  agents: readonly string[],
): Promise<WorkerProcesses> {
  const files = agents.map((name) => [name, hard(name === 'careful' ? 'on_takeover: fail' : '')])
  const processes = await openWorkerProcesses(Object.fromEntries(files) as Record<string, string>)
  later(() => processes.stop())
  await processes.write('hard.sh', script)
  return processes
}

/** A turn of this agent with all of its processes, on this worker. */
async function thinking(processes: WorkerProcesses, agentId: string, worker: Cli): Promise<string> {
  const turn = await processes.begin(agentId)
  await until('its processes run', async () => (carriers(turn).length >= 6 ? true : undefined), 20_000)
  expect((await processes.turn(turn)).claimed_by).toBe((await worker.ready())['worker_id'])
  return turn
}

/** The takeover began after the last sign of the first run. */
function expectNoOverlap(processes: WorkerProcesses, agentId: string): void {
  const signs = processes.read(`work/${agentId}`).trim().split('\n')
  expect(signs[0]).toBe('1')
  expect(signs.indexOf('true')).toBe(signs.length - 1)
}

it.concurrent('[T1.6] [T9.2] [W2.1] a worker killed with SIGKILL leaves no process, and its turn ends once by another, which appends to the transcript', async ({
  onTestFinished,
}) => {
  const processes = await openOwn(onTestFinished, ['killed'])
  const worker = await processes.add('worker')
  const turn = await thinking(processes, 'killed', worker)
  const entries = async () => (await readTranscript(processes.kernel.db, turn, 0, 100)).entries
  await until('the output is stored while the program runs', async () => (await entries()).length > 0 || undefined)
  worker.signal('SIGKILL')
  await until('nothing is left', async () => (carriers(turn).length === 0 ? true : undefined), 5_000)
  await processes.add('worker').then(async (heir) => {
    expect(await processes.ended(turn)).toMatchObject({
      outcome: 'success',
      text: 'the takeover is noted',
      task_events: 1,
    })
    expectNoOverlap(processes, 'killed')
    const transcript = await entries()
    expect(transcript.map(({ seq, kind, content }) => [seq, kind, content])).toEqual([
      [1, 'stdout', 'first attempt\n'],
      [2, 'note', 'Another worker continues this turn.'],
      [3, 'stdout', 'the takeover is noted\n'],
    ])
    const [first, ...later] = transcript.map((entry) => entry.turn_epoch)
    expect(later.every((epoch) => epoch > first!)).toBe(true)
    heir.signal('SIGKILL')
    await heir.ended
  })
  expect(carriers(turn)).toEqual([])
})

it.concurrent('[T1.2] [T1.6] [W2.1] a worker that is frozen has lost its processes before another takes its turns', async ({
  onTestFinished,
}) => {
  const processes = await openOwn(onTestFinished, ['frozen', 'careful'])
  const frozen = await processes.add('worker')
  const turn = await thinking(processes, 'frozen', frozen)
  const careful = await thinking(processes, 'careful', frozen)
  const heir = await processes.add('worker')
  frozen.signal('SIGSTOP')
  expect(await processes.ended(turn)).toMatchObject({
    outcome: 'success',
    text: 'the takeover is noted',
    task_events: 1,
  })
  expectNoOverlap(processes, 'frozen')
  expect(await processes.ended(careful)).toMatchObject({
    outcome: 'failed',
    error: 'effects_unknown',
    text: expect.stringContaining('effects are unknown: check them'),
    task_events: 1,
  })
  frozen.signal('SIGCONT')
  frozen.signal('SIGTERM')
  expect(await frozen.ended).toBe(0)
  expect([...carriers(turn), ...carriers(careful)]).toEqual([])
  expect(await processes.turn(turn)).toMatchObject({ task_events: 1 })
  heir.signal('SIGTERM')
  expect(await heir.ended).toBe(0)
})

it.concurrent('a guardian killed with SIGKILL is replaced, and the new one guards the same turns', async ({
  onTestFinished,
}) => {
  const processes = await openOwn(onTestFinished, ['orphan'])
  const worker = await processes.add('worker')
  const turn = await thinking(processes, 'orphan', worker)
  const first = processes.guardianOf(worker)!
  process.kill(first, 'SIGKILL')
  const replaced = () => worker.stderr().includes('new guardian took over')
  await until('another guardian runs', async () => replaced() || undefined)
  expect(processes.guardianOf(worker)).not.toBe(first)
  expect(carriers(turn).length).toBeGreaterThanOrEqual(4)
  worker.signal('SIGKILL')
  await until('nothing is left', async () => (carriers(turn).length === 0 ? true : undefined), 5_000)
  const heir = await processes.add('worker')
  expect(await processes.ended(turn)).toMatchObject({
    outcome: 'success',
    text: 'the takeover is noted',
    task_events: 1,
  })
  heir.signal('SIGKILL')
  await heir.ended
})

it.concurrent('a worker and its guardian, killed together with SIGKILL, leave no process after 10 s, and its turn ends once by another', async ({
  onTestFinished,
}) => {
  const processes = await openOwn(onTestFinished, ['unguarded'])
  const worker = await processes.add('worker')
  const turn = await thinking(processes, 'unguarded', worker)
  worker.signal('SIGSTOP')
  process.kill(processes.guardianOf(worker)!, 'SIGKILL')
  worker.signal('SIGKILL')
  expect(carriers(turn).length).toBeGreaterThanOrEqual(4)
  await worker.ended
  // 10 s on an idle machine: the cleaner waits 4 s for the guardian.
  await until('nothing is left', async () => (carriers(turn).length === 0 ? true : undefined), 20_000)
  await processes.add('worker')
  expect(await processes.ended(turn)).toMatchObject({
    outcome: 'success',
    text: 'the takeover is noted',
    task_events: 1,
  })
  expectNoOverlap(processes, 'unguarded')
})

/** Function agents in threads and processes, real ones, beside a healthy neighbour in the same worker. Tests call the worker's steps and beats. */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL, fileURLToPath } from 'node:url'
import { systemClock } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Kernel } from '../../../src/kernel/kernel.js'
import type { NewTurn } from '../../../src/kernel/verbs/turn/enqueue.js'
import { openGuardian } from '../../../src/ports/processes/guardian.js'
import { readSelf } from '../../../src/ports/processes/proc.js'
import { openIsolationExecutor } from '../../../src/worker/isolation/executor.js'
import type { Worker } from '../../../src/worker/worker.js'
import { kernelPerFile, project } from '../../support/kernel.js'
import { turnRow, waitsOf } from '../../support/kernel-rows.js'
import { testFolder } from '../../support/postgres.js'
import { quietLog } from '../../support/quiet-log.js'
import { until } from '../../support/until.js'
import { testWorker } from '../../support/worker.js'
import { areStopped, carriers } from '../command-setup.js'
import { openWorkerProcesses } from '../worker-processes.js'

const module = pathToFileURL(fileURLToPath(new URL('./isolated-agents.mjs', import.meta.url))).href
const t = kernelPerFile({ time: 'real' })
let folder = ''
let files = 0
beforeAll(async () => void (folder = await testFolder()))
afterAll(() => rm(folder, { recursive: true, force: true }))

/** A worker whose agents are functions of isolated-agents.mjs, or functions in this process. */
function openSetup(isolation: 'thread' | 'process', ttlMs = 300_000, graceMs = 300) {
  const guardian = openGuardian({ clock: systemClock, log: quietLog, ttlMs, graceMs })
  const installation = `isolation-${isolation}`
  const options = {
    clock: systemClock,
    log: quietLog,
    guardian,
    installation,
    self: readSelf(),
    ttlMs,
    graceMs,
    folder,
  }
  const executor = openIsolationExecutor({ ...options, handBack: (turn) => t.kernel.handBack([turn], 'w') })
  let [isAway, aheadMs] = [false, 0]
  const kernel: Kernel = {
    ...t.kernel,
    beat: (...call) =>
      isAway
        ? Promise.reject(new Retryable('The database is away', { code: 'database_away' }))
        : t.kernel.beat(...call),
  }
  const worker: Worker = testWorker(
    { ...t, kernel },
    ({ agentId }) => {
      const name = agentId.replace(/-\d+$/, '')
      if (name === 'neighbour') return async () => ({ deliver: { text: 'healthy' } })
      return executor.agent({ module, name, takesInstruction: false, isolation, memoryMaxMb: 64 })
    },
    {
      onBeat: (turn, sentMs) => executor.renew(turn, sentMs),
      guarded: (turn) => executor.guards(turn),
      clock: { ...systemClock, monotonicMs: () => systemClock.monotonicMs() + aheadMs },
    },
  )
  async function begin(name: string, more: Partial<NewTurn> = {}) {
    files += 1
    const agentId = `${name}-${files}`
    const file = join(folder, agentId)
    await t.agents(agentId)
    const turn = { projectId: project, agentId, instruction: 'do it', payload: { file }, ...more }
    const { agentTurnId } = await t.kernel.enqueue(turn)
    await worker.step()
    return { agentTurnId, file }
  }
  const ended = (agentTurnId: string) =>
    until('the turn has ended', async () => {
      await worker.step()
      await worker.beat()
      const row = await turnRow(t, agentTurnId)
      if (row.ended_at === null) return undefined
      const { outcome, error, deaths } = row
      const card = row.deliverable_card_id === null ? undefined : await t.kernel.readCard(row.deliverable_card_id)
      return { outcome, error, deaths, text: (card?.content as { readonly text?: string } | undefined)?.text }
    })
  const writes = (file: string) =>
    until('the function runs', async () => (existsSync(file) && statSync(file).size > 0) || undefined)
  return {
    worker,
    begin,
    ended,
    writes,
    /** Sends a beat that fails, an hour after the last one. */
    async missBeat() {
      ;[isAway, aheadMs] = [true, 3_600_000]
      await expect(worker.beat()).rejects.toThrow('away')
      ;[isAway, aheadMs] = [false, 0]
    },
    run: async (name: string, more?: Partial<NewTurn>) => ended((await begin(name, more)).agentTurnId),
    async close() {
      for (const { cancellation } of worker.running.values()) cancellation.cancel('draining')
      await Promise.all([...worker.running.values()].map(({ done }) => done))
      await executor.close()
      guardian.close()
    },
  }
}

describe.each(['thread', 'process'] as const)('in a %s', (isolation) => {
  let s: ReturnType<typeof openSetup>
  beforeAll(() => void (s = openSetup(isolation)))
  afterAll(() => s.close())

  it(`a function in a ${isolation} reads, records, spends, waits for a tool and delivers its result`, async () => {
    const { agentTurnId } = await s.begin('tool', { budget: { tokens: 10 } })
    const [wait] = await until('the turn waits', async () => {
      const waits = await waitsOf(t, agentTurnId)
      return waits.length > 0 ? waits : undefined
    })
    await t.kernel.report([
      { projectId: project, toolCallId: wait!.tool_call_id, status: 'success', result: { sum: 4 } },
    ])
    expect(await s.ended(agentTurnId)).toMatchObject({ outcome: 'success', text: 'do it: 4; reserved, 7 left' })
  })

  it(`a function in a ${isolation} gets the messages to its turn, once and in order`, async () => {
    const { agentTurnId, file } = await s.begin('listener')
    await s.writes(file)
    for (const text of ['one', 'two'])
      await t.kernel.say({ projectId: project, agentTurnId, messageId: text, sender: 'rita', text })
    expect(await s.ended(agentTurnId)).toMatchObject({ outcome: 'success', text: '1 rita: one; 2 rita: two' })
  })

  it(`a function in a ${isolation} that sends its worker other values than messages does not end the worker`, async () => {
    expect(await s.run('chatters')).toMatchObject({ outcome: 'success', text: 'ready' })
    expect(await s.run('fails')).toMatchObject({ outcome: 'failed' })
  })

  it(`a function in a ${isolation} that loops without end harms no neighbour, and a stop ends it`, async () => {
    const { agentTurnId, file } = await s.begin('endless')
    await s.writes(file)
    expect(await s.run('neighbour')).toMatchObject({ outcome: 'success', text: 'healthy' })
    await t.kernel.stop({ projectId: project, agentTurnId })
    const scope = s.worker.running.get(agentTurnId)!
    await s.worker.beat()
    await scope.done
    const written = statSync(file).size
    for (let reads = 0; reads < 20; reads += 1) await turnRow(t, agentTurnId)
    expect(statSync(file).size).toBe(written)
    expect(carriers(agentTurnId)).toEqual([])
  })

  it(`a function in a ${isolation} gets the abort signal of its turn and may stop by itself`, async ({
    onTestFinished,
  }) => {
    const patient = openSetup(isolation, 300_000, 60_000)
    onTestFinished(() => patient.close())
    const { agentTurnId, file } = await patient.begin('polite')
    await patient.writes(file)
    await t.kernel.stop({ projectId: project, agentTurnId })
    const scope = patient.worker.running.get(agentTurnId)!
    await patient.worker.beat()
    await scope.done
    expect(readFileSync(file, 'utf8')).toBe('.aborted: fence_lost')
  })

  it(`a function in a ${isolation} that uses too much memory ends its own turn as agent_out_of_memory`, async () => {
    expect(await s.run('memory')).toEqual({
      outcome: 'failed',
      error: 'agent_out_of_memory',
      deaths: 0,
      text: 'The agent used more than 64 MB of memory. Raise its memory limit, or let it use less.',
    })
  })

  it(`a function in a ${isolation} has the heap of its memory limit`, async () => {
    const { text } = await s.run('limit')
    // The limit of 64 MiB, and up to 48 MiB for new objects; without a limit it is at least 512 MiB.
    expect(Number(text) / 1_048_576).toBeLessThan(200)
  })

  it(`a function in a ${isolation} that calls process.exit ends its own turn as agent_crashed`, async () => {
    expect(await s.run('exits')).toMatchObject({
      outcome: 'failed',
      error: 'agent_crashed',
      deaths: 0,
      text: expect.stringContaining(`The ${isolation} of the agent ended with exit code 3`),
    })
  })

  it(`a function in a ${isolation} that rejects without a handler, or returns a function, fails its own turn`, async () => {
    const ends = [await s.run('rejects'), await s.run('unclonable')]
    expect(ends).toMatchObject([
      { outcome: 'failed', error: 'agent_failed', text: 'rejected without a handler' },
      { outcome: 'failed', error: 'result_not_cloneable', text: expect.stringContaining('could not be cloned') },
    ])
  })
})

it('a segmentation fault of a function in a process ends its own turn as agent_crashed', async ({ onTestFinished }) => {
  const s = openSetup('process')
  onTestFinished(() => s.close())
  expect(await s.run('segfaults')).toMatchObject({
    outcome: 'failed',
    error: 'agent_crashed',
    text: expect.stringContaining('was ended by SIGSEGV'),
  })
})

it('[T1.2] a thread whose turn no beat confirms is ended before a takeover, and its turn runs again without a charge', async ({
  onTestFinished,
}) => {
  const s = openSetup('thread', 3_000)
  onTestFinished(() => s.close())
  const { agentTurnId, file } = await s.begin('twice')
  // No beats: the lease expires. The function never returns by itself.
  await s.worker.running.get(agentTurnId)!.done
  const written = existsSync(file) ? readFileSync(file, 'utf8') : ''
  for (let reads = 0; reads < 20; reads += 1) await turnRow(t, agentTurnId)
  expect(existsSync(file) ? readFileSync(file, 'utf8') : '').toBe(written)
  expect(await s.ended(agentTurnId)).toMatchObject({ outcome: 'success', deaths: 0, text: 'done' })
  // Later runs add only their epochs.
  expect(readFileSync(file, 'utf8').slice(written.length)).toMatch(/^(\d+\n)+$/)
})

it('[T1.2] [H7.6] a process whose turn no beat confirms is frozen, its frozen time is not working time, and it continues with the next beat', async ({
  onTestFinished,
}) => {
  const s = openSetup('process', 3_000)
  onTestFinished(() => s.close())
  const { agentTurnId } = await s.begin('endless', { budget: { wallMs: 600_000 } })
  await until('its processes are stopped', async () => areStopped(agentTurnId, true) || undefined)
  await until('its frozen time is recorded', async () => {
    const { paused_ms } = await t.one<{ paused_ms: number }>(
      'select paused_ms from state.budgets where agent_turn_id = $1',
      agentTurnId,
    )
    return paused_ms > 0 || undefined
  })
  // It does no harm while it is frozen: no need to end it, although no beat succeeds.
  await s.missBeat()
  await until('its processes run', async () => {
    await s.worker.beat()
    return areStopped(agentTurnId, false) || undefined
  })
  expect(await turnRow(t, agentTurnId)).toMatchObject({ turn_epoch: 1, ended_at: null })
})

it('agent files name modules that run in threads and processes, and a worker killed with SIGKILL leaves no process of them', async ({
  onTestFinished,
}) => {
  const processes = await openWorkerProcesses({
    quick: '---\nmodule: quick.mjs\n---\n',
    endless: '---\nmodule: work/endless.mjs\nisolation: process\nmemory_max_mb: 64\n---\n',
    missing: '---\nmodule: missing.mjs\n---\n',
  })
  onTestFinished(() => processes.stop())
  await processes.write('quick.mjs', 'export default (turn) => `${turn.instruction}: done`\n')
  const loop =
    'import { appendFileSync } from "node:fs"\nexport default () => { for (;;) appendFileSync("endless.txt", ".") }\n'
  await processes.write('work/endless.mjs', loop)
  const worker = await processes.add('worker')
  expect(await processes.ended(await processes.begin('quick'))).toMatchObject({
    outcome: 'success',
    text: 'do it: done',
  })
  expect(await processes.ended(await processes.begin('missing'))).toMatchObject({
    outcome: 'failed',
    error: 'agent_module_invalid',
    text: expect.stringContaining('Cannot load file://'),
  })
  const turn = await processes.begin('endless')
  await until('the function runs', async () => existsSync(join(processes.folder, 'endless.txt')) || undefined)
  expect(carriers(turn)).not.toEqual([])
  worker.signal('SIGKILL')
  await until('no process is left', async () => carriers(turn).length === 0 || undefined)
})

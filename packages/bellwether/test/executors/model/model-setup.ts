/**
 * Test set-up: a worker with a model executor in this process, on a real kernel, with tools that return at once. Tests call its
 * steps. By default there are no tools, no budget, and short timeouts.
 */
import { expect } from 'vitest'
import { type Clock, defined, systemClock } from '@bellwether/base'
import type { Memory } from '@bellwether/protocol'
import type { NewTurn } from '../../../src/kernel/verbs/turn/enqueue.js'
import type { Kernel } from '../../../src/kernel/kernel.js'
import { reclaim, requeueExpiredResumeLedgers } from '../../../src/kernel/verbs/watchdog/watchdog.js'
import type { ModelTimeouts } from '../../../src/ports/model/call-model.js'
import type { ModelRequest } from '../../../src/ports/model/model.js'
import { openModels } from '../../../src/ports/model/providers.js'
import type { Script } from '../../../src/ports/model/scripted.js'
import type { RetryPolicy } from '../../../src/ports/retry.js'
import { openModelExecutor, type ModelExecutorOptions } from '../../../src/worker/executors/model/executor.js'
import type { ModelSpec } from '../../../src/worker/executors/model/spec.js'
import type { WorkerOptions } from '../../../src/worker/scope.js'
import type { Toolbox } from '../../../src/worker/tools/tool.js'
import type { TranscriptWriter } from '../../../src/worker/transcript.js'
import { openWorker, type Worker } from '../../../src/worker/worker.js'
import { project, target, testKernel, type TestKernel } from '../../support/kernel.js'
import { eventsOf, type InboxRow, turnRow } from '../../support/kernel-rows.js'
import { fullWatchWindow } from '../../support/kernel-turns.js'
import { quietLog } from '../../support/quiet-log.js'
import { until } from '../../support/until.js'
import { differingReplays } from '../../support/replays.js'
import { turnsDone } from '../../support/worker.js'

type Tools = Readonly<Record<string, (args: Record<string, unknown>) => unknown>>

/** A small toolbox by hand: what is named is called, the rest is refused. */
export function toolboxOf(names: readonly string[]): Toolbox {
  return {
    offers: names.map((name) => ({
      name,
      description: `does ${name}`,
      parameters: { type: 'object', properties: {} },
    })),
    plan: ({ toolCallId, name, args }) =>
      names.includes(name)
        ? { call: { toolCallId, toolName: name, args } }
        : { refuse: { code: 'unknown_tool', message: `unknown tool ${name}` } },
  }
}

interface StepRow {
  readonly step_id: string
  readonly phase: string
  readonly status: string
  readonly error: string | null
  readonly tool_call_ids: readonly string[]
  readonly metadata: Record<string, unknown>
}

interface Ended extends InboxRow {
  readonly text: string
  readonly content: unknown
  readonly steps: readonly StepRow[]
  readonly taskEvents: number
}

/** What the turn is, and the memory of its agent. */
export type TurnOptions = Partial<NewTurn> & { readonly memory?: Memory }

export interface ModelSetup {
  readonly t: TestKernel
  readonly worker: Worker
  readonly chunks: { readonly kind: string; readonly text: string }[]
  /** How often each tool ran. */
  readonly ran: Record<string, number>
  /** Registers a script; answers the model's name. */
  script(script: Script): string
  begin(spec: Partial<ModelSpec>, more?: TurnOptions): Promise<string>
  /** Steps the worker and answers tools until the turn has ended. */
  ended(agentTurnId: string): Promise<Ended>
  run(spec: Partial<ModelSpec>, more?: TurnOptions): Promise<Ended>
  /** Answers every call that waits; how many there were. */
  answerTools(): Promise<number>
  /** A worker of its own, whose kernel is as given: to die at a place of one's choice. */
  mortal(kernel: Partial<Kernel>): Worker
  /** What a silent worker held is free for others. */
  reclaimed(): Promise<void>
  close(): Promise<void>
}

export interface ModelSetupOptions {
  /** A kernel that outlives the bench; absent: one of its own. */
  readonly t?: TestKernel
  readonly env?: Readonly<Record<string, string>>
  readonly tools?: Tools
  /** In place of the one made by hand from `tools`. */
  readonly toolbox?: Toolbox
  readonly times?: ModelTimeouts
  readonly clock?: Clock
  readonly retry?: RetryPolicy
  readonly requestsMax?: number
  readonly transcript?: TranscriptWriter
  readonly onChunk?: ModelExecutorOptions['onChunk']
}

/** Quick, and as many tries as in production. */
const quick: RetryPolicy = {
  maxAttempts: 5,
  backoff: { mode: 'exponential', baseMs: 10, multiplier: 2, maxMs: 5_000, jitterPct: 20 },
}

let benches = 0

export async function openModelSetup(options: ModelSetupOptions = {}): Promise<ModelSetup> {
  const { tools = {}, env = {} } = options
  const t = options.t ?? (await testKernel({ time: 'real', isReused: true }))
  const chunks: ModelSetup['chunks'] = []
  const ran: Record<string, number> = {}
  const scripts: Record<string, Script> = {}
  const specs = new Map<string, ModelSpec>()
  const executor = openModelExecutor({
    clock: options.clock ?? systemClock,
    log: quietLog,
    random: { next: () => 0.5 },
    models: openModels({ env, scripts }),
    toolbox: () => options.toolbox ?? toolboxOf(Object.keys(tools)),
    onChunk: options.onChunk ?? ((_turn, chunk) => void (chunks.length < 1_000 && chunks.push(chunk))),
    retry: options.retry ?? quick,
    times: options.times ?? { firstMs: 10_000, stallMs: 10_000, totalMs: 30_000 },
    ...defined({ requestsMax: options.requestsMax }),
  })
  const workerOptions: WorkerOptions = {
    kernel: t.kernel,
    clock: systemClock,
    log: quietLog,
    workerId: 'bench',
    workerTarget: target,
    settings: { concurrency: 64, suspendTimeoutSeconds: 30, resumeLeaseSeconds: 30, inboxProcessingTimeoutSeconds: 30 },
    agent: (turn) => {
      const spec = specs.get(turn.agentId) ?? specs.get('*')
      return spec === undefined ? undefined : executor.agent(spec)
    },
    ...defined({ transcript: options.transcript }),
  }
  const worker = openWorker(workerOptions)
  const workers = (benches += 1)
  let agents = 0

  async function begin(spec: Partial<ModelSpec>, { memory, ...more }: TurnOptions = {}): Promise<string> {
    agents += 1
    const agentId = more.agentId ?? `agent-${workers}-${agents}`
    specs.set(agentId, { model: 'openai/m', instructions: 'Be brief.', ...spec })
    await t.kernel.putAgents([{ projectId: project, agentId, workerTarget: target, ...defined({ memory }) }])
    const given = more.contextBoxId === undefined ? { instruction: 'do it' } : {}
    const { agentTurnId } = await t.kernel.enqueue({ projectId: project, agentId, ...given, ...more })
    return agentTurnId
  }

  async function answerTools(): Promise<number> {
    const waits = await t.all<{ tool_call_id: string; tool_name: string; arguments: Record<string, unknown> }>(
      `select w.tool_call_id, w.tool_name, c.content -> 'arguments' as arguments from state.turn_waiting_tools w
        join cards.cards c on c.card_id = w.tool_call_card_id
        where w.wait_status = 'waiting' and w.started_by is null and not exists (
          select from state.agent_inbox i where i.correlation_id = w.tool_call_id and i.message_type = 'tool_result')`,
    )
    for (const wait of waits) {
      const run = tools[wait.tool_name]
      if (run === undefined) continue
      ran[wait.tool_name] = (ran[wait.tool_name] ?? 0) + 1
      const result = run(wait.arguments)
      await t.kernel.report([{ projectId: project, toolCallId: wait.tool_call_id, status: 'success', result }])
    }
    return waits.length
  }

  async function ended(agentTurnId: string): Promise<Ended> {
    const row = await until(
      'the turn has ended',
      async () => {
        await worker.step()
        await answerTools()
        const now = await turnRow(t, agentTurnId)
        return now.ended_at === null ? undefined : now
      },
      30_000,
    )
    const card = row.deliverable_card_id === null ? undefined : await t.kernel.readCard(row.deliverable_card_id)
    return {
      ...row,
      text: (card?.content as { text?: string } | undefined)?.text ?? '',
      content: card?.content,
      steps: await t.all(
        'select * from state.agent_steps where agent_turn_id = $1 order by started_at, step_id',
        agentTurnId,
      ),
      taskEvents: (await eventsOf(t, agentTurnId, 'task')).length,
    }
  }

  return {
    t,
    worker,
    chunks,
    ran,
    script(script) {
      const name = `s${Object.keys(scripts).length}`
      scripts[name] = script
      return `scripted/${name}`
    },
    begin,
    ended,
    run: async (spec, more) => ended(await begin(spec, more)),
    answerTools,
    mortal: (kernel) => openWorker({ ...workerOptions, workerId: 'mortal', kernel: { ...t.kernel, ...kernel } }),
    async reclaimed() {
      await t.advance(31)
      await reclaim(t.db, target, 30, 5, fullWatchWindow)
      await requeueExpiredResumeLedgers(t.db)
      // Turns whose results are all there, and whose worker did not live to apply them.
      worker.start(
        await t.kernel.reconcile({ workerTarget: target, workerId: 'bench', max: 10, resumeLeaseSeconds: 30 }),
      )
    },
    async close() {
      for (const scope of worker.running.values()) scope.cancellation.cancel('draining')
      await turnsDone(worker)
      const differing = await differingReplays(t.db)
      if (options.t === undefined) await t.drop()
      expect(differing).toEqual([])
    },
  }
}

/** Never comes back: dead processes run no `finally`. */
export const never = (): Promise<never> => new Promise(() => undefined)

/** What a provider would refuse: each call has one result, right behind it and in order; roles alternate; nothing is empty. */
export function flawsIn({ messages }: ModelRequest): string[] {
  const flaws: string[] = []
  const ids = new Set<string>()
  const must = (holds: boolean, flaw: string) => void (holds || flaws.push(flaw))
  must(messages[0]?.role === 'system' && messages[1]?.role === 'user', 'it does not begin with system and user')
  must(messages.at(-1)?.role !== 'assistant', 'it ends with the assistant')
  for (const [index, message] of messages.entries()) {
    const before = messages[index - 1]
    const next = messages[index + 1]
    must(message.role !== before?.role, `message ${index} has the role of the one before it`)
    if (message.role === 'tool') {
      const asked = before?.role === 'assistant' ? before.calls.map((call) => call.id) : []
      must(String(asked) === String(message.outputs.map((output) => output.id)), `message ${index} answers other calls`)
      for (const { id, text } of message.outputs) {
        must(!ids.has(id) && text !== '', `result ${id} is empty, or there twice`)
        ids.add(id)
      }
    } else if (message.role === 'assistant') {
      must(message.calls.length > 0 || message.text.trim() !== '', `message ${index} is empty`)
      must(message.calls.length === 0 || next?.role === 'tool', `calls of message ${index} have no results`)
    } else must(message.text.trim() !== '', `message ${index} is empty`)
  }
  return flaws
}

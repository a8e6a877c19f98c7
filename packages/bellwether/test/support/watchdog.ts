/** The two watchdogs on a test kernel, and time that passes under their eyes: one interval a step, as their loops do. */
import { openGuard, type Guard, type GuardSettings } from '../../src/pmo/guard.js'
import type { AgentFunction } from '../../src/worker/agent.js'
import { openWatchdog, type Watchdog } from '../../src/worker/watchdog.js'
import { openWorker, type Worker } from '../../src/worker/worker.js'
import { project, target, type TestKernel } from './kernel.js'
import { quietLog } from './quiet-log.js'

export const guardSettings: GuardSettings = {
  watchdogIntervalSeconds: 5,
  dispatchedRetrySeconds: 10,
  dispatchedTimeoutSeconds: 30,
  pendingWakeupSeconds: 5,
  pendingWakeupSkipSeconds: 60,
  activeReapSeconds: 300,
  suspendedReapSeconds: 300,
  maxQueueSeconds: 3600,
  inboxProcessingTimeoutSeconds: 30,
  maxAttempts: 3,
}

export const intervalSeconds = guardSettings.watchdogIntervalSeconds
export const suspendSeconds = 30

export function guardOn(t: TestKernel, changes: Partial<GuardSettings> = {}): Guard {
  return openGuard({ kernel: t.kernel, clock: t.clock, settings: { ...guardSettings, ...changes } })
}

export interface WatchingWorker extends Watchdog {
  readonly worker: Worker
}

/** A worker that claims only when told, with its watchdog. Without an agent it has room for nothing: it only watches. */
export function workerOn(
  t: TestKernel,
  options: { workerId?: string; agent?: AgentFunction; workerTarget?: string } = {},
): WatchingWorker {
  const { workerId = 'watcher', agent, workerTarget = target } = options
  const common = { kernel: t.kernel, clock: t.clock, log: quietLog, workerId, workerTarget, agent: () => agent }
  const settings = {
    concurrency: agent === undefined ? 0 : 16,
    suspendTimeoutSeconds: suspendSeconds,
    resumeLeaseSeconds: 30,
    inboxProcessingTimeoutSeconds: 30,
  }
  const worker = openWorker({ ...common, settings })
  const watchdog = openWatchdog({
    ...common,
    settings,
    worker,
    watchdog: {
      watchdogIntervalSeconds: intervalSeconds,
      inboxProcessingTimeoutSeconds: 30,
      maxAttempts: 3,
      resumeLeaseSeconds: 30,
    },
  })
  return { worker, step: () => watchdog.step() }
}

/** Lets time pass, one interval a step; the watchers look first, so that they have been watching all the while. */
export async function pass(
  t: TestKernel,
  seconds: number,
  ...watchers: readonly { step(): Promise<unknown> }[]
): Promise<void> {
  for (const watcher of watchers) await watcher.step()
  for (let left = seconds; left > 0; left -= intervalSeconds) {
    await t.advance(Math.min(left, intervalSeconds))
    for (const watcher of watchers) await watcher.step()
  }
}

export interface Head {
  readonly status: string
  readonly active_agent_turn_id: string | null
  readonly active_channel_id: string | null
  readonly turn_epoch: number
  readonly waiting_tool_count: number
  readonly resume_deadline: Date | null
  readonly turn_deadline: Date | null
  readonly updated_at: Date
}

export const headOf = (t: TestKernel, agentId: string) =>
  t.one<Head>('select * from state.agent_state_head where project_id = $1 and agent_id = $2', project, agentId)

export interface InboxRow {
  readonly inbox_id: string
  readonly status: string
  readonly turn_epoch: number | null
  readonly attempts: number
  readonly outcome: string | null
  readonly error: string | null
  readonly deliverable_card_id: string | null
  readonly processed_at: Date | null
  readonly archived_at: Date | null
  readonly claimed_by: string | null
}

export const rowOf = (t: TestKernel, agentTurnId: string) =>
  t.one<InboxRow>(
    `select * from state.agent_inbox where agent_turn_id = $1 and message_type in ('turn', 'ui_action')`,
    agentTurnId,
  )

export interface SavedEvent {
  readonly kind: string
  readonly payload: Readonly<Record<string, unknown>>
}

export const eventsOf = (t: TestKernel, agentTurnId: string) =>
  t.all<SavedEvent>('select kind, payload from state.events where agent_turn_id = $1 order by event_id', agentTurnId)

export const tasksOf = async (t: TestKernel, agentTurnId: string) =>
  (await eventsOf(t, agentTurnId)).filter((event) => event.kind === 'task').map((event) => event.payload)

export interface Intervention {
  readonly kind: string
  readonly reason: string
  readonly turn_epoch: number
  readonly before: Readonly<Record<string, unknown>>
  readonly after: Readonly<Record<string, unknown>>
  readonly created_at: Date
}

export const interventionsOf = (t: TestKernel, agentTurnId: string) =>
  t.all<Intervention>(
    'select * from state.interventions where agent_turn_id = $1 order by intervention_id',
    agentTurnId,
  )

/** Puts a turn to sleep on tool calls with the given ids. */
export async function suspendOn(t: TestKernel, agentId: string, ...toolCallIds: string[]) {
  const turn = await t.running(agentId)
  const calls = toolCallIds.map((toolCallId) => ({ toolCallId, toolName: 'grep', args: {} }))
  await t.kernel.suspend({ ...turn, stepId: `step-${toolCallIds[0]}`, calls }, suspendSeconds)
  return turn
}

export const answer = (t: TestKernel, toolCallId: string, result: unknown = { ok: true }) =>
  t.kernel.report([{ projectId: project, toolCallId, status: 'success', result }])

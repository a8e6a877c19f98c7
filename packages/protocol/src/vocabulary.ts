/**
 * The closed vocabularies of the wire. Each list exists once; tests compare the SQL constraints with them. No imports, so that a browser loads only
 * the lists.
 */
export const inboxStatuses = ['queued', 'pending', 'processing', 'consumed', 'skipped', 'error', 'cancelled'] as const

export const messageTypes = ['turn', 'ui_action', 'tool_result', 'timeout', 'stop'] as const
export type MessageType = (typeof messageTypes)[number]

/** The most characters of a message to a turn. */
export const messageMaxChars = 8_000

/** How a turn ended, as its task event says it. */
export const outcomes = ['success', 'failed', 'timeout', 'canceled'] as const
export type Outcome = (typeof outcomes)[number]

/** The error of a turn that exceeded its budget. */
export const budgetExceeded = 'budget_exceeded'
/** The limits of a budget, as `exceeded_keys` names them. */
export const budgetKeys = ['tokens', 'cost_micros', 'wall_ms'] as const
export type BudgetKey = (typeof budgetKeys)[number]

/** What may be done when a budget is short or exceeded: change the next call or run, or end it. */
export const degradeActions = ['reduced_context', 'cheaper_model', 'fewer_tools', 'manual_handoff', 'stop_run'] as const
export type DegradeAction = (typeof degradeActions)[number]

/** What happens to a call that a spending limit does not cover. `hold`: the turn waits for the next period. */
export const spendingActions = ['hold', ...degradeActions] as const
export type SpendingAction = (typeof spendingActions)[number]

/** What a task waits for if a person has to act: the values of `waitCode`. */
export const personWaits = ['approval', 'review', 'merge', 'held', 'person'] as const

/** Kinds of deliverables: what the agent made, or what there is if the turn did not succeed. */
export const deliverableKinds = ['result', 'fallback'] as const

export const cardTypes = [
  'task.instruction',
  'agent.thought',
  'tool.call',
  'tool.result',
  'task.deliverable',
  'task.result_fields',
  'sys.profile',
  'sys.rendered_prompt',
  'meta.parent_pointer',
] as const
export type CardType = (typeof cardTypes)[number]

export const waitStatuses = ['waiting', 'received', 'applied', 'expired', 'dropped'] as const

export const resultStatuses = ['success', 'failed', 'canceled', 'timeout', 'partial'] as const
export type ResultStatus = (typeof resultStatuses)[number]

/** Kinds of entries of a transcript, as agents and workers write them. */
export const transcriptKinds = [
  'text',
  'thought',
  'tool_call',
  'tool_result',
  'stdout',
  'stderr',
  'question',
  'answer',
  'note',
] as const
export type TranscriptKind = (typeof transcriptKinds)[number]

/** What a turn does once a tool's result has been applied. */
export const afterExecutions = ['suspend', 'terminate'] as const
export type AfterExecution = (typeof afterExecutions)[number]

/** What a person allows: one call, equal calls of the turn, or equal calls of the agent. */
export const approvalScopes = ['once', 'turn', 'agent'] as const
export type ApprovalScope = (typeof approvalScopes)[number]

/** `expired`: denied, because no one decided before the deadline. `ended`: the turn ended first. */
export const approvalStatuses = ['waiting', 'allowed', 'denied', 'expired', 'ended'] as const

/** What an active turn is busy with: observation only, gates nothing. */
export const activities = ['thinking', 'executing_tool', 'awaiting_tool_result'] as const
export type Activity = (typeof activities)[number]

export const keyRoles = ['admin', 'operator', 'worker', 'sensor', 'reader', 'answerer'] as const
export type KeyRole = (typeof keyRoles)[number]

export const agentStatuses = ['active', 'retired'] as const

/** What a turn of an agent knows of earlier turns: nothing, those of its session, or all cards in the agent's box. */
export const memories = ['none', 'session', 'box'] as const
export type Memory = (typeof memories)[number]

const activeHeadStatuses = ['dispatched', 'running', 'suspended'] as const
/** Statuses of an agent's head. */
export const headStatuses = ['idle', ...activeHeadStatuses] as const
export type HeadStatus = (typeof headStatuses)[number]

/** What became of a suspend request; `already` means that it was repeated. */
export const suspendStatuses = ['suspended', 'already'] as const

/** Filters of the turn list: a queued turn, an active turn by its head's status, an ended turn by its outcome. */
export const turnStatuses = ['queued', ...activeHeadStatuses, ...outcomes] as const
export type TurnStatus = (typeof turnStatuses)[number]

/** Kinds of outbox rows. */
export const eventKinds = ['task', 'state', 'step', 'command'] as const

export const targetStrategies = ['new', 'reuse', 'clone'] as const

export const taskStatuses = ['pending', 'claimed', 'in_progress', 'review', 'done', 'blocked', 'failed'] as const
export type TaskStatus = (typeof taskStatuses)[number]

/** What an operator can do with a task, besides editing its fields. */
export const taskActions = [
  'claim',
  'done',
  'block',
  'escalate',
  'freeze',
  'unfreeze',
  'release',
  'approve',
  'reject',
  'require_approval',
  'abort',
  'retry',
  'merge',
  'send_back',
  'keep',
] as const
/** Where the run of a task works: in the project folder, or in a git worktree of its own. */
export const workspaceKinds = ['project', 'worktree'] as const
export type WorkspaceKind = (typeof workspaceKinds)[number]

/** The name of a branch, without characters that git gives a meaning. */
export const branchPattern = /^(?!.*(?:\.\.|\/\/|\.lock(?:\/|$)|\/\.|[./]$))[A-Za-z0-9][A-Za-z0-9._/+@-]{0,199}$/

/** What happens to the change in a worktree after acceptance. */
export const mergeModes = ['auto', 'review', 'never'] as const
export type MergeMode = (typeof mergeModes)[number]

export type TaskAction = (typeof taskActions)[number]
/** The actions that run on many tasks at once: `done` needs evidence, and a person claims one task at a time. */
export const bulkTaskActions = taskActions.filter(
  (action): action is Exclude<TaskAction, 'done' | 'claim'> => action !== 'done' && action !== 'claim',
)
export type BulkTaskAction = (typeof bulkTaskActions)[number]
export const bulkTurnActions = ['stop', 'retry'] as const
export type BulkTurnAction = (typeof bulkTurnActions)[number]
/** What a bulk action did, or would do, to a row. */
export const bulkResults = ['affected', 'unaffected', 'failed'] as const
export type BulkResult = (typeof bulkResults)[number]
/** The most turns or tasks that one request changes. */
export const bulkMax = 1_000

export function bulkCounts(rows: readonly { readonly result: BulkResult }[]): Record<BulkResult, number> {
  const counts = { affected: 0, unaffected: 0, failed: 0 }
  for (const { result } of rows) counts[result] += 1
  return counts
}

/** What a schedule does with instants that passed while no PMO ran. */
export const missedPolicies = ['skip', 'latest', 'all'] as const
/** What a schedule does when an instant comes while its earlier turn or task is still open. */
export const overlapPolicies = ['skip', 'queue', 'replace'] as const
export const scheduleSources = ['file', 'api'] as const
/** Who decided about a fire: the clock, or a person who asked for it. */
export const fireKinds = ['timer', 'manual'] as const
/** `waiting`: the board has not created the task yet. */
export const fireStatuses = ['started', 'waiting', 'skipped', 'failed'] as const

export const healthStates = ['ok', 'degraded', 'failed'] as const
export type HealthState = (typeof healthStates)[number]

/** What a check of an evaluation looks at. */
export const evalCheckKinds = [
  'contains',
  'not_contains',
  'equals',
  'matches',
  'fields',
  'json_schema',
  'max_cost_usd',
  'max_seconds',
  'max_tokens',
  'command',
  'judge',
] as const
export type EvalCheckKind = (typeof evalCheckKinds)[number]
export const evalRunStatuses = ['open', 'stopping', 'done', 'stopped'] as const
/** `judging`: the turn has ended, and a judge has not answered yet. `skipped`: the run was stopped first. */
export const evalResultStatuses = ['waiting', 'started', 'judging', 'done', 'skipped'] as const
/** Together they bound a run of a suite: its rows, its turns, and the size of its pages. */
export const evalLimits = {
  cases: 1_000,
  variants: 8,
  repeat: 20,
  results: 10_000,
  checks: 20,
  concurrency: 32,
  /** Regressions, improvements or missing cases that a comparison names. */
  changes: 1_000,
} as const

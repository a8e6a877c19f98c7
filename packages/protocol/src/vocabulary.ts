/** The closed vocabularies of the wire. Each list exists once; tests compare the SQL constraints with them. No imports, so that a browser loads only the lists. */
export const inboxStatuses = ['queued', 'pending', 'processing', 'consumed', 'skipped', 'error', 'cancelled'] as const
export type InboxStatus = (typeof inboxStatuses)[number]

export const messageTypes = ['turn', 'ui_action', 'tool_result', 'timeout', 'stop'] as const
export type MessageType = (typeof messageTypes)[number]

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

/** Kinds of deliverables: what the agent made, or what there is if the turn did not succeed. */
export const deliverableKinds = ['result', 'fallback'] as const
export type DeliverableKind = (typeof deliverableKinds)[number]

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
export type WaitStatus = (typeof waitStatuses)[number]

export const resultStatuses = ['success', 'failed', 'canceled', 'timeout', 'partial'] as const
export type ResultStatus = (typeof resultStatuses)[number]

/** What a turn does once a tool's result has been applied. */
export const afterExecutions = ['suspend', 'terminate'] as const
export type AfterExecution = (typeof afterExecutions)[number]

/** What an active turn is busy with: observation only, gates nothing. */
export const activities = ['thinking', 'executing_tool', 'awaiting_tool_result'] as const
export type Activity = (typeof activities)[number]

export const keyRoles = ['admin', 'operator', 'worker', 'sensor', 'reader'] as const
export type KeyRole = (typeof keyRoles)[number]

export const agentStatuses = ['active', 'retired'] as const

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
export type EventKind = (typeof eventKinds)[number]

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
] as const
export type TaskAction = (typeof taskActions)[number]

export const healthStates = ['ok', 'degraded', 'failed'] as const
export type HealthState = (typeof healthStates)[number]

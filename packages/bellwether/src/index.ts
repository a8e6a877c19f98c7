/**
 * Bellwether as a library: `open` a database, define agents, run turns and workers. `bellwether/client` reaches a running server
 * over HTTP instead. Everything else is internal.
 */
export { InvalidInput, Retryable, Terminal } from '@bellwether/protocol'
export type { AfterExecution, CardType, Outcome, ResultStatus } from '@bellwether/protocol'
export type { Log } from '@bellwether/base'
export type { Kernel } from './kernel/kernel.js'
export type {
  FireRow as ScheduleFire,
  QuestionRow as Question,
  ScheduleInput,
  ScheduleRow as Schedule,
  ToolResult,
} from '@bellwether/protocol/http'
export type { Limits, TurnBudget } from './kernel/verbs/budgets/budgets.js'
export type { NewBatch, NewTask } from './kernel/verbs/batches/fork.js'
export type { Card, FieldSpec, NewCard } from './kernel/verbs/cards.js'
export type { ToolCall } from './kernel/verbs/turn/suspend.js'
export type { AgentOptions, AgentRoster, ModuleAgent } from './library/agents.js'
export type { BellwetherEvent, EventOptions } from './library/events.js'
export {
  open,
  type ApprovalDecision,
  type Approvals,
  type Bellwether,
  type DatabaseChoice,
  type OpenOptions,
  type ToolCalls,
} from './library/open.js'
export type { Schedules } from './library/schedules.js'
export type { TranscriptEntry, TranscriptOptions } from './library/transcript.js'
export {
  TurnFailed,
  type Deliverable,
  type Message,
  type SayOptions,
  type StartOptions,
  type Turn,
  type Turns,
  type WaitOptions,
} from './library/turns.js'
export type { RunningWorker, WorkerOptions } from './library/worker.js'
export { ToolFailure } from './ports/tools/tool-failure.js'
export {
  FenceLost,
  type Agent,
  type AgentFunction,
  type AgentTurn,
  type TurnAction,
  type TurnContext,
} from './worker/agent.js'
export { defineAgents, type Agents } from './worker/agents.js'
export type { AgentDefinition, Isolation, IsolationOptions } from './worker/isolation/isolation.js'
export { defineTool } from './worker/tools/define-tool.js'
export type { CallContext, HostedTool, ToolDeclaration } from './worker/tools/tool.js'

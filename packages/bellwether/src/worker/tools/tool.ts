/**
 * The types of tools: a tool is declared once, a call is checked before it is sent, and a refused call becomes a result that the model
 * can read.
 */
import type { AfterExecution } from '@bellwether/protocol'
import type { ToolOffer } from '../../ports/model/model.js'
import type { ToolCall } from '../../kernel/verbs/turn/suspend.js'

export interface ToolDeclaration extends ToolOffer {
  readonly afterExecution?: AfterExecution
  readonly timeoutSeconds?: number
  /** The call may be repeated if it is unknown whether it took effect. */
  readonly idempotent?: boolean
  /** `ask`: a person allows or denies each call before it runs. */
  readonly approve?: 'ask'
  /** How long the person has; then the call is denied. Default: one hour. */
  readonly approveWithinSeconds?: number
}

/** A call as the model requested it, with unchecked arguments. */
export interface ToolRequest {
  readonly toolCallId: string
  readonly name: string
  readonly args: unknown
}

export type ToolPlan =
  | { readonly call: ToolCall }
  /** The model gets this refusal as the result; nothing is sent. */
  | { readonly refuse: { readonly code: string; readonly message: string } }

/** The tools of one agent, for one turn. */
export interface Toolbox {
  readonly offers: readonly ToolOffer[]
  /** Checks a request against its declaration and returns the call that the turn waits for. Pure. */
  plan(request: ToolRequest): ToolPlan
}

/** What a tool knows about its call. */
export interface CallContext {
  readonly projectId: string
  readonly agentId: string
  readonly agentTurnId: string
  readonly toolCallId: string
  readonly traceparent: string | null
  /** Aborts at the call's timeout, when no turn waits any more, and when the host shuts down. */
  readonly signal: AbortSignal
}

/** A tool that this process runs. Its return value is the result; an exception is a failed result. */
export interface HostedTool extends ToolDeclaration {
  /** The result may contain `__cg_control` (T3.3d). Without this flag the key is removed, because the result may come from outside. */
  readonly mayControl?: boolean
  /** The declaration comes from outside: its schema is checked, but its patterns are not executed. */
  readonly foreign?: boolean
  run(args: Readonly<Record<string, unknown>>, context: CallContext): Promise<unknown>
}

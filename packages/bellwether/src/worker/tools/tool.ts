/**
 * What a tool is, to a model that calls it and to the kernel that waits for it: words only. A tool is declared once; a call is
 * checked before anybody acts on it; what cannot be called is told to the model as a result it can read.
 */
import type { AfterExecution } from '@bellwether/protocol'
import type { ToolCall } from '../../kernel/verbs/turn/suspend.js'

/** What a model is told of a tool. */
export interface ToolOffer {
  /** As models accept names: letters, digits, _ and -. */
  readonly name: string
  readonly description: string
  /** A JSON schema of an object. */
  readonly parameters: Readonly<Record<string, unknown>>
}

export interface ToolDeclaration extends ToolOffer {
  readonly afterExecution?: AfterExecution
  readonly timeoutSeconds?: number
  /** May be run again when nobody knows whether it ran. */
  readonly idempotent?: boolean
}

/** A call as a model asked for it; its arguments are whatever it wrote. */
export interface ToolRequest {
  readonly toolCallId: string
  readonly name: string
  readonly args: unknown
}

export type ToolPlan =
  | { readonly call: ToolCall }
  /** Told to the model in place of a result; nothing is sent. */
  | { readonly refuse: { readonly code: string; readonly message: string } }

/** The tools of one agent, for one turn. */
export interface Toolbox {
  readonly offers: readonly ToolOffer[]
  /** Checks a request against its declaration, and says what the turn waits for. Pure. */
  plan(request: ToolRequest): ToolPlan
}

/** What a tool learns of the call that it answers. */
export interface CallContext {
  readonly projectId: string
  readonly agentId: string
  readonly agentTurnId: string
  readonly toolCallId: string
  readonly traceparent: string | null
  /** Fires at the call's timeout, and when its host goes down. */
  readonly signal: AbortSignal
}

/** A tool that this process runs itself. What it returns is the result; what it throws is a failed one. */
export interface HostedTool extends ToolDeclaration {
  /** Its result may say `__cg_control` (T3.3d). Absent: the words are taken out, because what it returns comes from others. */
  readonly mayControl?: boolean
  /** Its declaration is a stranger's: what the schema says is checked, but none of its patterns is run. */
  readonly foreign?: boolean
  run(args: Readonly<Record<string, unknown>>, context: CallContext): Promise<unknown>
}

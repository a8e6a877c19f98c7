/**
 * Responses about agents, turns and watchdogs, as far as the dashboard reads them. Times are ISO text. `test/real-server.test.ts`
 * checks the pages against the server's own routes.
 */
import type { Activity, Outcome, ResultStatus, WaitStatus } from '@bellwether/protocol'

export interface Me {
  readonly key_id?: string
  readonly name?: string | null
  readonly role: string
  readonly project?: string | null
  readonly view?: string | null
}

export interface Head {
  readonly status: string
  readonly active_agent_turn_id: string | null
  readonly turn_epoch: number
  readonly activity: Activity | null
  readonly current_tool: string | null
  readonly waiting_tool_count: number
  readonly resume_deadline: string | null
  readonly turn_deadline: string | null
  readonly leased_at: string | null
  readonly updated_at: string
}

export interface LastTurn {
  readonly agent_turn_id: string
  readonly outcome: Outcome
  readonly ended_at: string
}

export interface Agent {
  readonly agent_id: string
  readonly profile_id: string | null
  readonly worker_target: string
  readonly status: 'active' | 'retired'
  readonly metadata: Readonly<Record<string, unknown>>
  readonly state: Head | null
  readonly queued: number
  readonly last_turn: LastTurn | null
}

export interface Agents {
  readonly agents: readonly Agent[]
  /** There are more than the dashboard reads. */
  readonly cut: boolean
  readonly readAtMs: number
}

export interface Worker {
  readonly worker_id: string
  readonly worker_target: string
  readonly seen_at: string
  readonly started_at: string
  readonly last_claim_at: string | null
  readonly concurrency: number | null
  /** How many more turns it would take now. */
  readonly free: number | null
}

export interface Turn {
  readonly agent_turn_id: string
  readonly agent_id: string
  readonly status: string
  readonly turn_epoch: number | null
  readonly attempts?: number
  readonly claimed_by?: string | null
  readonly correlation_id?: string | null
  readonly channel_id?: string | null
  readonly message_type?: string
  readonly traceparent?: string | null
  readonly source_agent_id?: string | null
  readonly recursion_depth?: number
  readonly activity?: Activity | null
  readonly current_tool?: string | null
  readonly waiting_tool_count?: number | null
  readonly turn_deadline?: string | null
  readonly resume_deadline?: string | null
  readonly created_at: string
  readonly started_at: string | null
  readonly ended_at: string | null
  readonly outcome: Outcome | null
  readonly deliverable_card_id: string | null
  readonly error: string | null
}

export interface Card {
  readonly card_id: string
  readonly type: string
  readonly role?: string | null
  readonly content: unknown
  readonly metadata?: Readonly<Record<string, unknown>>
  readonly created_at: string
}

export interface Step {
  readonly step_id: string
  readonly phase: string
  readonly status: string
  readonly tool_call_ids: readonly string[]
  readonly metadata: Readonly<Record<string, unknown>>
  readonly error: string | null
  readonly started_at: string
  readonly ended_at: string | null
}

export interface Wait {
  readonly tool_call_id: string
  readonly tool_name: string
  readonly step_id: string
  readonly turn_epoch: number
  readonly wait_status: WaitStatus
  readonly tool_call_card_id: string | null
  readonly tool_result_card_id: string | null
  readonly started_by?: string | null
  readonly created_at: string
  readonly idempotent?: boolean
}

/** A turn of the same family: who did it, how it stands. */
export interface Kin {
  readonly agent_turn_id: string
  readonly agent_id: string
  /** Null: nothing is kept of it any more. */
  readonly status: string | null
  readonly error?: string | null
  readonly started_at?: string | null
  readonly ended_at?: string | null
  readonly children?: readonly Kin[]
}

export interface TurnFile {
  readonly path: string
  /** `claimed`: the deliverable names the file. Otherwise it changed during the turn, perhaps by another agent. */
  readonly how: 'claimed' | 'changed_meanwhile'
  /** Null: no view could be asked. */
  readonly found: boolean | null
  readonly size: number | null
  readonly integrity_suspect: boolean | null
}

export interface TurnUsage {
  readonly total_tokens: number
  /** Null if no step reported a cost. */
  readonly cost_micros: number | null
}

export interface Spent {
  readonly used: number
  readonly limit: number | null
}

export interface TurnBudget {
  readonly tokens: Spent
  readonly cost_micros: Spent
  readonly wall_ms: Spent
}

export interface TurnDetail extends Turn {
  readonly deliverable: { readonly card_id: string; readonly content: unknown; readonly created_at: string } | null
  readonly steps: readonly Step[]
  readonly waits: readonly Wait[]
  readonly interventions: readonly Intervention[]
  readonly parent: Kin | null
  readonly children: readonly Kin[]
  readonly children_truncated: boolean
  /** What it was given. */
  readonly context_cards: readonly Card[]
  /** What it wrote. */
  readonly cards: readonly Card[]
  readonly cards_truncated: boolean
  readonly files: readonly TurnFile[]
  readonly files_truncated: boolean
  readonly usage: TurnUsage
  readonly budget: TurnBudget | null
  readonly trace_id: string | null
}

export interface FieldSpec {
  readonly name: string
  readonly description?: string
  readonly required?: boolean
  readonly type?: string
}

export interface Question {
  readonly tool_call_id: string
  readonly agent_id: string
  readonly agent_turn_id: string
  readonly arguments: unknown
  readonly asked_at: string
  readonly deadline: string | null
}

export interface Answer {
  readonly status: ResultStatus
  readonly result?: unknown
  readonly error?: { readonly code: string; readonly message?: string }
}

export interface Intervention {
  readonly intervention_id: number
  readonly kind: string
  readonly reason: string
  readonly project_id?: string | null
  readonly agent_id?: string | null
  readonly agent_turn_id?: string | null
  readonly turn_epoch?: number | null
  readonly before?: unknown
  readonly after?: unknown
  readonly created_at: string
}

/** One event of a project's stream. */
export interface LiveEvent {
  readonly kind: string
  readonly agent_turn_id: string | null
  readonly payload: Readonly<Record<string, unknown>>
  readonly created_at: string
}

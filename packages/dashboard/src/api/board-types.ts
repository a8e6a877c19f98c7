/** What the server answers about the board, the workspace and health. Field names are the wire's own. */
import type { HealthState } from '@bellwether/protocol'

export interface Budget {
  /** Whose limits these are. */
  readonly agent: string
  readonly tokenUsage: number
  readonly elapsedMs: number
  readonly retryCount: number
  /** The limit that is nearest; null: none is set. */
  readonly nearest: {
    readonly unit: 'tokens' | 'ms' | 'runs'
    readonly used: number
    readonly limit: number
    readonly fraction: number
  } | null
}

export interface Recovery {
  readonly reasonCode: string
  readonly attempt: number
  readonly maxAttempts: number
  readonly nextAssignee: string
  readonly action: string
  readonly recoveryState: string
  /** Seconds since 1970; 0: none. */
  readonly cooldownUntilTs: number
  readonly deadlineTs: number
}

/** Of a task that is ready: its place in the line, and why it has that place. */
export interface Place {
  readonly place: number
  readonly of: number
  readonly assignee: string
  readonly why: string
}

export interface Task {
  readonly taskId: string
  readonly title: string
  readonly status: string
  readonly priority: number
  readonly impact: number
  readonly assignee: string | null
  readonly reason: string | null
  readonly dependencies: readonly string[]
  readonly createdAt: string
  readonly updatedAt: string
  /** Null: nothing; it is ready or done. */
  readonly waitsFor: string | null
  /** Why it waits, as a word that programs read. */
  readonly waitCode: string | null
  readonly waitUntil: string | null
  readonly recovery: Recovery | null
  readonly budget: Budget | null
  /** Null if no turn reported a cost. */
  readonly costMicros: number | null
  readonly next: Place | null
}

export interface Run {
  readonly runId: string
  readonly agent: string
  readonly startedAt: string
  readonly agentTurnId?: string
  readonly endedAt?: string
  readonly outcome?: string
  readonly reasonCode?: string
  readonly tokenUsage?: number
  readonly elapsedMs?: number
  readonly costMicros?: number | null
  /** How its turn stands, by the kernel's word. */
  readonly turnStatus?: string | null
}

export interface TaskDetail extends Task {
  readonly runs: readonly Run[]
  readonly fields: Readonly<Record<string, unknown>>
}

export interface Choice {
  readonly taskId: string | null
  readonly assignee: string | null
  readonly because: string
  readonly others?: readonly { readonly taskId: string; readonly code: string; readonly why: string }[]
  readonly ready?: number
}

export interface Tasks {
  readonly tasks: readonly Task[]
  readonly total: number
  readonly cursor: number | null
  readonly choice?: Choice | null
  readonly paused?: unknown
}

export interface Component {
  readonly kind: string
  readonly name: string
  readonly state: HealthState
  readonly own_state?: HealthState
  readonly because: string | null
  readonly restarts: number
  readonly error: string | null
  readonly depends_on: readonly string[]
  /** Of a supervised process, a component of kind `part`. */
  readonly pid?: number | null
  readonly status?: string
  /** How it ended the last time. */
  readonly last_end?: string | null
  readonly since?: string | null
  readonly next_start_at?: string | null
}

export interface Components {
  readonly summary: {
    readonly status: HealthState
    readonly units: number
    readonly restarts: number
    readonly changes: number
  }
  readonly components: readonly Component[]
}

export interface FileNode {
  readonly name: string
  readonly content_type: 'file' | 'directory'
  readonly path: string
  readonly size?: number
  /** Seconds since 1970. */
  readonly modified_time?: number
  readonly integrity_suspect?: boolean
  readonly audit_skipped?: boolean
  readonly agent_missing?: boolean
  readonly last_agent_id?: string | null
  readonly source_uri?: string | null
  readonly source_id?: string
  readonly children?: readonly FileNode[]
}

export interface Folder {
  readonly path: string
  readonly children: readonly FileNode[]
}

export interface SourceStats {
  readonly item_count: number
  readonly total_files: number
  readonly total_directories: number
  readonly total_size: number
  readonly staleness_seconds: number | null
  readonly has_blind_spot: boolean
  readonly suspect_file_count: number
  readonly tombstone_count?: number
  readonly logical_now?: number
  readonly last_audit_start?: number | null
  readonly last_audit_finished_at: number | null
  readonly audit_cycle_count: number
  readonly is_auditing: boolean
  readonly ready?: boolean
  readonly full?: boolean
}

export interface ViewStats extends SourceStats {
  readonly sources?: Readonly<Record<string, SourceStats>>
  readonly sessions?: number
}

/** One of the views that this key reaches. */
export interface ViewLine {
  readonly view_id: string
  readonly ready: boolean
  readonly total_files: number
}

export interface BlindSpots {
  readonly additions_count: number
  readonly additions: readonly string[]
  readonly deletion_count: number
  readonly deletions: readonly string[]
}

export interface SensorSession {
  readonly session_id: string
  readonly agent_id?: string
  readonly source_id?: string
  readonly source_uri?: string | null
  readonly role: string
  readonly can_realtime: boolean
  readonly silent_seconds: number
}

export interface Found {
  readonly results: readonly FileNode[]
  readonly count: number
  readonly truncated: boolean
}

/** What a worker is made of and what it holds of each turn it runs: words only, shared by the worker and the run of a turn. */
import type { Clock, Log } from '@bellwether/base'
import type { ClaimedTurn } from '../kernel/verbs/turn/claim.js'
import type { Kernel } from '../kernel/kernel.js'
import type { AgentFunction } from './agent.js'
import type { Halt } from './cancellation.js'

export interface WorkerSettings {
  readonly concurrency: number
  readonly suspendTimeoutSeconds: number
  readonly resumeLeaseSeconds: number
  readonly inboxProcessingTimeoutSeconds: number
}

export interface WorkerOptions {
  readonly kernel: Kernel
  readonly clock: Clock
  readonly log: Log
  readonly workerId: string
  readonly workerTarget: string
  readonly settings: WorkerSettings
  /** The function that does an agent's turns. */
  readonly agent: (turn: ClaimedTurn) => AgentFunction | undefined
  /** A beat, asked for at `askedMs` of the clock, found the fence held: what a guardian may trust in. */
  readonly onBeat?: (turn: ClaimedTurn, askedMs: number) => void
}

/** One running turn. `held`: the head is running under its fence, so that a beat which does not name it has lost it. */
export interface Scope {
  readonly turn: ClaimedTurn
  readonly halt: Halt
  held: boolean
  done: Promise<void>
}

/**
 * What a dispatcher works with: the board, the outside, the policies, and its own memory of what it has been watching.
 * Always: the memory is only about time and about work in hand, so a process that lost it decides later, never otherwise.
 */
import type { Clock, Log, Random } from '@bellwether/base'
import type { Ids } from '../../ports/ids.js'
import type { CallPolicy } from '../../ports/retry.js'
import type { CommandResult } from '../../ports/processes/run-command.js'
import type { Alerts } from './alerts.js'
import type { Evidence, Spawner } from '../ports.js'
import type { AcceptancePolicy, VerifyCommand } from '../policies/acceptance.js'
import type { BudgetPolicy } from '../policies/budget.js'
import type { RecoveryPolicy } from '../policies/recovery.js'
import type { Backfill, KnowledgeOutcome, LessonSource } from '../policies/knowledge.js'
import type { Board, Task } from '../log/task.js'

export interface DispatchPolicies {
  readonly recovery: RecoveryPolicy
  readonly budget: BudgetPolicy
  readonly acceptance: AcceptancePolicy
  readonly calls: CallPolicy
  /** config/runtime-policy.json, where it speaks of room: it counts before the setting. */
  readonly runtime?: { readonly explicit: { readonly maxConcurrentSpawns: number | null } }
}

export interface DispatchSettings {
  readonly firstAgent: string
  readonly maxConcurrentSpawns: number
  readonly claimLeaseMs: number
  readonly spawnGraceMs: number
  readonly intervalMs: number
}

/** What was learned before, for the prompt; and what a failure teaches. Neither ever throws. */
export interface Knowledge {
  hints(task: Task): Promise<{ readonly section: string; readonly outcome: KnowledgeOutcome }>
  backfill(lesson: LessonSource): Promise<Backfill>
}

export interface DispatcherOptions {
  readonly board: Board
  readonly spawner: Spawner
  readonly evidence: Evidence
  /** Read afresh for each step: a policy file that was mended counts at once. */
  readonly policies: () => Promise<DispatchPolicies>
  readonly knowledge: Knowledge
  readonly verify: (command: VerifyCommand, policy: AcceptancePolicy) => Promise<CommandResult>
  readonly alerts: Alerts
  readonly clock: Clock
  readonly ids: Ids
  readonly random: Pick<Random, 'next'>
  readonly log: Log
  /** Who signs the lines. */
  readonly actor: string
  readonly settings: DispatchSettings
}

export interface Dispatcher extends DispatcherOptions {
  /** Runs that this process is spawning or settling at this moment: nobody else here touches them. */
  readonly busyRuns: Set<string>
  /** When this process first saw a run in a way that must not last, by `runId:what`, on the monotonic scale. */
  readonly seenSince: Map<string, number>
}

/** How many turns may be under way at once. */
export function concurrencyLimit(dispatcher: Dispatcher, policies: DispatchPolicies): number {
  return policies.runtime?.explicit.maxConcurrentSpawns ?? dispatcher.settings.maxConcurrentSpawns
}

export function createDispatcher(options: DispatcherOptions): Dispatcher {
  return { ...options, busyRuns: new Set(), seenSince: new Map() }
}

/** For how long this process has been watching something last, itself: a jump of the wall clock ends nobody's time. */
export function watchedMs(
  dispatcher: Dispatcher,
  runId: string,
  what: 'unknown' | 'active' | 'stopping' | 'evidence',
): number {
  const key = `${runId}:${what}`
  const nowMs = dispatcher.clock.monotonicMs()
  const since = dispatcher.seenSince.get(key)
  if (since === undefined) dispatcher.seenSince.set(key, nowMs)
  return nowMs - (since ?? nowMs)
}

export function forgetRun(dispatcher: Dispatcher, runId: string): void {
  for (const what of ['unknown', 'active', 'stopping', 'evidence']) dispatcher.seenSince.delete(`${runId}:${what}`)
}

/** Runs `work` unless this process already has the run in hand; then answers null. */
export async function withRun<T>(dispatcher: Dispatcher, runId: string, work: () => Promise<T>): Promise<T | null> {
  if (dispatcher.busyRuns.has(runId)) return null
  dispatcher.busyRuns.add(runId)
  try {
    return await work()
  } finally {
    dispatcher.busyRuns.delete(runId)
  }
}

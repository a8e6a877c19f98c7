/**
 * A dispatcher: the board, its ports and policies, and two in-memory tables: the runs that this process is working on, and
 * how long it has observed a condition. A process that lost the tables decides later, never differently.
 */
import { defined, type Clock, type Log, type Random } from '@bellwether/base'
import type { Ids } from '../../ports/ids.js'
import type { GitHistory } from '../../ports/git.js'
import type { Worktrees } from '../../ports/git/worktrees.js'
import { retryCall } from '../../ports/retry.js'
import type { CommandResult } from '../../ports/processes/run-command.js'
import type { Alerts } from './alerts.js'
import { openStartStates, type StartStates } from './evidence/start-files.js'
import type { Evidence, Spawner } from '../ports.js'
import type { AcceptancePolicy, VerifyCommand } from '../policies/acceptance-policy.js'
import type { BoardPolicies } from '../policies/load.js'
import { human } from '../policies/recovery.js'
import type { WorkspacePolicy } from '../policies/workspace.js'
import type { RuntimeAgent } from '../policies/runtime.js'
import type { ReadyRules } from '../tasks/ready.js'
import type { KnowledgeOutcome } from '@bellwether/protocol/http'
import type { Backfill, LessonSource } from '../policies/knowledge.js'
import type { Board, Task } from '../log/task.js'

/** The policies that decide about tasks and runs; hints have a port of their own. */
export interface DispatchPolicies extends Omit<
  BoardPolicies,
  'knowledge' | 'knowledgeError' | 'runtime' | 'workspace'
> {
  /** Default: tasks run in the project folder. */
  readonly workspace?: WorkspacePolicy
  /** From config/runtime-policy.json; takes precedence over the setting. */
  readonly runtime?: {
    readonly agents?: readonly RuntimeAgent[]
    readonly explicit: { readonly maxConcurrentSpawns: number | null }
  }
}

interface DispatchSettings {
  readonly firstAgent: string
  readonly maxConcurrentSpawns: number
  readonly claimLeaseMs: number
  readonly spawnGraceMs: number
  readonly intervalMs: number
}

/** Hints for the prompt from earlier runs, and lessons from failures. */
export interface Knowledge {
  hints(task: Task): Promise<{ readonly section: string; readonly outcome: KnowledgeOutcome }>
  backfill(lesson: LessonSource): Promise<Backfill>
}

export interface DispatcherOptions {
  readonly board: Board
  readonly spawner: Spawner
  readonly evidence: Evidence
  /** The repository of the task root; absent: runs are closed without a diff. */
  readonly git?: GitHistory
  /** Read for each step: a corrected policy file takes effect at once. */
  readonly policies: () => Promise<DispatchPolicies>
  readonly knowledge: Knowledge
  /** Runs a command for a task, in `root`: its worktree, else the task root. */
  readonly verify: (
    command: VerifyCommand,
    policy: AcceptancePolicy,
    task: Task,
    root?: string,
  ) => Promise<CommandResult>
  /** The git worktrees of the task root. Absent: every task runs in the project folder. */
  readonly worktrees?: (timeoutMs: number) => Worktrees
  readonly alerts: Alerts
  readonly clock: Clock
  readonly ids: Ids
  readonly random: Pick<Random, 'next'>
  readonly log: Log
  /** The actor of the lines. */
  readonly actor: string
  readonly settings: DispatchSettings
}

export interface Dispatcher extends DispatcherOptions {
  /** Runs that this process is spawning or closing now: nothing else in this process touches them. */
  readonly busyRuns: Set<string>
  /** When this process first observed a temporary condition of a run, by `runId:what`, in monotonic time. */
  readonly seenSince: Map<string, number>
  /** Names that were logged as missing: each is logged once. */
  readonly loggedMissing: Set<string>
  /** Of a project without git: its files when runs started. */
  readonly startStates: StartStates
}

/** How many turns may run at once. */
export function concurrencyLimit(dispatcher: Dispatcher, policies: DispatchPolicies): number {
  return policies.runtime?.explicit.maxConcurrentSpawns ?? dispatcher.settings.maxConcurrentSpawns
}

export function readyRules(
  { settings }: Pick<Dispatcher, 'settings'>,
  { recovery, runtime, problem }: Pick<DispatchPolicies, 'recovery' | 'runtime'> & Pick<ReadyRules, 'problem'>,
): ReadyRules {
  return { firstAgent: settings.firstAgent, recovery, agents: runtime?.agents ?? [], ...defined({ problem }) }
}

export function createDispatcher(options: DispatcherOptions): Dispatcher {
  return {
    ...options,
    busyRuns: new Set(),
    seenSince: new Map(),
    loggedMissing: new Set(),
    startStates: openStartStates(),
  }
}

// Hints of tasks may name any number of agents; after this many names, each may be logged once more.
const loggedMissingMax = 1_000

/** Which of these names are not agents of the project. Empty if the kernel is unreachable. */
export async function findMissing(
  dispatcher: Dispatcher,
  { calls }: Pick<DispatchPolicies, 'calls'>,
  names: readonly string[],
): Promise<ReadonlySet<string>> {
  if (names.length === 0) return new Set()
  try {
    const call = { kind: 'command_routing', name: 'reading the agents of the project' } as const
    const missing = await retryCall(calls, call, () => dispatcher.spawner.missingAgents(names), dispatcher)
    const fresh = missing.filter((name) => !dispatcher.loggedMissing.has(name))
    if (dispatcher.loggedMissing.size + fresh.length > loggedMissingMax) dispatcher.loggedMissing.clear()
    for (const name of fresh) dispatcher.loggedMissing.add(name)
    if (fresh.length > 0) dispatcher.log.warn({ agents: fresh }, 'not agents of the project; the board skips them')
    return new Set(missing)
  } catch (error) {
    dispatcher.log.warn({ err: error }, 'cannot read the agents of the project')
    return new Set()
  }
}

/** Dispatchers that have seen an agent, and those that have logged that there is none. */
const sawAgents = new WeakSet<Dispatcher>()
const loggedNoAgents = new WeakSet<Dispatcher>()

/**
 * Whether the project has agents. After the first start of an installation its workers have not registered them yet, and a task that
 * is dispatched would fail. True if the kernel is unreachable: then the spawn reports it.
 */
export async function agentsRegistered(
  dispatcher: Dispatcher,
  { calls }: Pick<DispatchPolicies, 'calls'>,
): Promise<boolean> {
  if (sawAgents.has(dispatcher)) return true
  try {
    const call = { kind: 'command_routing', name: 'reading whether the project has agents' } as const
    const found = await retryCall(calls, call, () => dispatcher.spawner.hasAgents(), dispatcher)
    if (found) sawAgents.add(dispatcher)
    else if (!loggedNoAgents.has(dispatcher)) {
      loggedNoAgents.add(dispatcher)
      dispatcher.log.info({}, 'no agent is registered yet; ready tasks wait')
    }
    return found
  } catch (error) {
    dispatcher.log.warn({ err: error }, 'cannot read whether the project has agents')
    return true
  }
}

/** Recovery without agents that are not agents of the project (H6.6): members of the chain, and the one that failed. */
export async function withExistingAgents(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
  failed: string | null,
): Promise<DispatchPolicies> {
  const { recovery } = policies
  const names = [...recovery.recoveryChain, ...(failed === null ? [] : [failed])].filter((name) => name !== human)
  const missing = await findMissing(dispatcher, policies, [...new Set(names)])
  if (missing.size === 0) return policies
  const recoveryChain = recovery.recoveryChain.filter((name) => !missing.has(name))
  const sameAgentFirst = recovery.sameAgentFirst && !(failed !== null && missing.has(failed))
  return { ...policies, recovery: { ...recovery, recoveryChain, sameAgentFirst } }
}

const watched = ['unknown', 'active', 'stopping', 'evidence', 'merge'] as const

/** How long this process has observed a condition. Monotonic: a jump of the wall clock expires nothing. */
export function watchedMs(dispatcher: Dispatcher, runId: string, what: (typeof watched)[number]): number {
  const key = `${runId}:${what}`
  const nowMs = dispatcher.clock.monotonicMs()
  const since = dispatcher.seenSince.get(key)
  if (since === undefined) dispatcher.seenSince.set(key, nowMs)
  return nowMs - (since ?? nowMs)
}

export function forgetRun(dispatcher: Dispatcher, runId: string): void {
  for (const what of watched) dispatcher.seenSince.delete(`${runId}:${what}`)
}

/** Runs `work`, or returns null if this process is already working on the run. */
export async function withRun<T>(dispatcher: Dispatcher, runId: string, work: () => Promise<T>): Promise<T | null> {
  if (dispatcher.busyRuns.has(runId)) return null
  dispatcher.busyRuns.add(runId)
  try {
    return await work()
  } finally {
    dispatcher.busyRuns.delete(runId)
  }
}

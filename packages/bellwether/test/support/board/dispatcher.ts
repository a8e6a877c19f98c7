/** A dispatcher on a board in memory, with a fake kernel, disk and people. */
import type { DispatchReport } from '@bellwether/protocol/http'
import { makeAlerts, type Alert } from '../../../src/board/dispatch/alerts.js'
import { dispatch } from '../../../src/board/dispatch/dispatch.js'
import {
  createDispatcher,
  type Dispatcher,
  type DispatcherOptions,
  type DispatchPolicies,
} from '../../../src/board/dispatch/dispatcher.js'
import type { FileEvidence } from '../../../src/board/ports.js'
import { defaultAcceptance } from '../../../src/board/policies/acceptance-policy.js'
import { defaultBudget, referenceLimits, type BudgetPolicy } from '../../../src/board/policies/budget.js'
import { defaultRecovery } from '../../../src/board/policies/recovery.js'
import type { Board, Draft } from '../../../src/board/log/task.js'
import type { Ids } from '../../../src/ports/ids.js'
import { defaultCallPolicy } from '../../../src/ports/retry.js'
import type { CommandResult } from '../../../src/ports/processes/run-command.js'
import { fakeKernel, type FakeKernel } from './fake-kernel.js'
import { handClock, type HandClock } from '../hand-clock.js'
import { memoryRoot, openMemoryBoard, type MemoryRoot } from './memory-board.js'
import { quietLog } from '../quiet-log.js'

/** The limits of the reference's own file. */
export const referenceBudget: BudgetPolicy = {
  ...defaultBudget,
  global: { ...defaultBudget.global, ...referenceLimits },
}

/** The signal of a process that is not stopped. */
export const never = new AbortController().signal

/** What survives a crash: the log, the kernel, the disk, the clock. */
export interface World {
  readonly root: MemoryRoot
  readonly kernel: FakeKernel
  readonly clock: HandClock
  readonly ids: Ids
  /** What `inspect` returns per path; absent: missing. */
  readonly files: Map<string, FileEvidence['found'] | Partial<FileEvidence>>
  readonly verified: string[]
  readonly lessons: string[]
  readonly alerts: Alert[]
  policies: DispatchPolicies
  verify: (command: string) => Partial<CommandResult>
}

export const policies: DispatchPolicies = {
  recovery: defaultRecovery,
  budget: referenceBudget,
  acceptance: { ...defaultAcceptance, default: { ...defaultAcceptance.default, minEvidence: 0 } },
  calls: defaultCallPolicy,
}

export function makeWorld(change: Partial<DispatchPolicies> = {}): World {
  let count = 0
  const clock = handClock()
  return {
    root: memoryRoot(),
    kernel: fakeKernel(() => clock.monotonicMs()),
    clock,
    ids: { next: () => `id-${String((count += 1)).padStart(6, '0')}` },
    files: new Map(),
    verified: [],
    lessons: [],
    alerts: [],
    policies: { ...policies, ...change },
    verify: () => ({}),
  }
}

export function boardOf(world: World): Board {
  return openMemoryBoard(world.root, world)
}

export function dispatcherOf(world: World, change: Partial<DispatcherOptions> = {}): Dispatcher {
  const alerts = makeAlerts({
    root: '/memory',
    clock: world.clock,
    random: half,
    log: quietLog,
    calls: defaultCallPolicy,
  })
  return createDispatcher({
    board: boardOf(world),
    spawner: world.kernel,
    evidence: {
      changeToken: async () => 'token-1',
      changedFiles: async () => null,
      inspect: async (paths) =>
        paths.map((path) => {
          const file = world.files.get(path)
          return { path, changedSince: true, found: 'missing', ...(typeof file === 'string' ? { found: file } : file) }
        }),
    },
    policies: async () => world.policies,
    knowledge: {
      hints: async () => ({
        section: '',
        outcome: { degraded: false, degradeReason: null, knowledgeTags: [], backfill: null },
      }),
      backfill: async (lesson) => {
        world.lessons.push(`${lesson.taskId} ${lesson.reasonCode}`)
        return { written: true, mistakes: 1, patterns: 1, tags: ['dispatch_failure'] }
      },
    },
    verify: async ({ command }) => {
      const line = typeof command === 'string' ? command : command.join(' ')
      world.verified.push(line)
      return { exitCode: 0, signal: null, timedOut: false, durationMs: 1, output: '', ...world.verify(line) }
    },
    alerts: {
      ...alerts,
      raise: (alert) => {
        // A raised key is raised once, in a test that starts the dispatcher again too.
        if (alert.key !== undefined && world.alerts.some(({ key }) => key === alert.key)) return
        world.alerts.push(alert)
        alerts.raise(alert)
      },
    },
    clock: world.clock,
    ids: world.ids,
    random: half,
    log: quietLog,
    actor: 'autopilot',
    settings: {
      firstAgent: 'coder',
      maxConcurrentSpawns: 4,
      claimLeaseMs: 60_000,
      spawnGraceMs: 60_000,
      intervalMs: 5_000,
    },
    ...change,
  })
}

const half = { next: () => 0.5 }

/** These tests have no disk, so caches are not written. */
export const noCaches = {
  disk: {
    read: async () => ({ found: 'missing' as const }),
    stat: async () => 'missing' as const,
    writeDraft: async () => {},
    replace: async () => {},
    remove: async () => 'missing' as const,
  },
  ids: { next: () => 'draft' },
  log: quietLog,
}

export async function put(world: World, ...drafts: readonly Draft[]): Promise<void> {
  await boardOf(world).write(() => drafts)
}

/** What the commands of people and operators need. */
export const operator = (world: World) => ({ board: boardOf(world), nowMs: () => world.clock.wallMs() })

export const stateOf = (world: World) => boardOf(world).sync()

export const taskOf = async (world: World, taskId = 'T-1') => (await stateOf(world)).tasks.get(taskId)!

/** Which tasks were given to which agents, in order. */
export const spawns = (world: World) =>
  [...world.kernel.turns.values()].map(({ request }) => `${request.taskId} ${request.agent}`)

export const created = (taskId: string, payload: Readonly<Record<string, unknown>> = {}): Draft => ({
  taskId,
  type: 'task_created',
  actor: 'ann',
  payload: { title: `Do ${taskId}`, ...payload },
})

/** Dispatches the task, and returns the report. */
export async function dispatched(world: World, taskId = 'T-1', script?: FakeKernel['script']): Promise<DispatchReport> {
  if (script !== undefined) world.kernel.script = script
  return dispatch(dispatcherOf(world), taskId, never)
}

/**
 * Composes a dispatcher for one task root: the board with its ports, the policies as its files say, and whoever spawns turns
 * and looks at files. Always: policies are read afresh for every step; what cannot be composed is told before anything is
 * written. The loops around it are the autopilot's and the chores'.
 */
import { InvalidInput } from '@bellwether/protocol'
import { join } from 'node:path'
import { type Log, systemClock, systemRandom } from '@bellwether/base'
import { makeAlerts, type Alerts } from '../../board/dispatch/alerts.js'
import { openBoard } from '../../board/log/board.js'
import type { CachePorts } from '../../board/dispatch/caches.js'
import { createMaintenance, type Maintenance } from '../../board/repair/maintenance.js'
import { runsFolder } from '../../board/dispatch/command-spawner.js'
import { countingContention, type Contention } from '../../board/dispatch/contention.js'
import { createDispatcher, type Dispatcher } from '../../board/dispatch/dispatcher.js'
import { importStateFiles } from '../../board/repair/import-state.js'
import type { Evidence, Spawner } from '../../board/ports.js'
import { backfillKnowledge, fetchKnowledge } from '../../board/policies/knowledge-files.js'
import { loadPolicies, type BoardPolicies } from '../../board/policies/load.js'
import type { Board } from '../../board/log/task.js'
import { openRuns } from '../../board/tasks/open-runs.js'
import { systemDisk } from '../../ports/disk/disk.js'
import { systemMachine } from '../../ports/disk/machine.js'
import { uuidv7, type Ids } from '../../ports/ids.js'
import { removeOldFolders } from '../../ports/disk/remove-old-folders.js'
import { defaultCallPolicy, type CallPolicy } from '../../ports/retry.js'
import { runCommand } from '../../ports/processes/run-command.js'
import { postJson, webhookUrl } from '../../ports/webhook.js'
import type { Settings } from '../../settings/schema.js'
import type { PartContext } from '../process.js'
import { openEvidence } from './remote-evidence.js'
import { kernelSpawner } from './spawner.js'

const dayMs = 86_400_000

export interface OpenRoot {
  readonly board: Board
  readonly alerts: Alerts
  readonly contention: Contention
  readonly ids: Ids
  readonly log: Log
  readonly settings: Settings['board']
  readonly caches: CachePorts
  readonly policies: () => Promise<BoardPolicies>
}

export interface RootOptions {
  readonly root: string
  /** Whose name the locks bear. */
  readonly owner: string
  readonly settings: Settings['board']
  readonly log: Log
  readonly signal?: AbortSignal
  /** Nothing is written by opening it: for those who only look. */
  readonly look?: boolean
}

export async function openTaskRoot({ root, owner, settings, log, signal, look }: RootOptions): Promise<OpenRoot> {
  const ids = uuidv7(systemClock, systemRandom)
  const url = settings.alert_webhook_url === undefined ? undefined : webhookUrl(settings.alert_webhook_url)
  const calls = await callPolicyOf(root, log)
  const alerts = makeAlerts({
    root,
    clock: systemClock,
    random: systemRandom,
    log,
    calls,
    ...(signal === undefined ? {} : { signal }),
    ...(url === undefined ? {} : { webhook: { url, post: postJson } }),
  })
  const lockWaitMs = calls.timeoutMs.local_state
  const opened = await openBoard({ root, owner, clock: systemClock, ids, log, lockWaitMs })
  const { board, contention } = countingContention(opened, {
    clock: systemClock,
    random: systemRandom,
    alerts,
    retry: calls.retry,
  })
  try {
    if (look !== true) await importStateFiles(board, { disk: systemDisk, ids, log })
  } catch (error) {
    await board.close()
    throw error
  }
  const policies = () => loadPolicies(board.root)
  return { board, alerts, contention, ids, log, settings, policies, caches: { disk: systemDisk, ids, log } }
}

/** A policy file with a mistake stops dispatches, not people who want to look at their tasks. */
async function callPolicyOf(root: string, log: Log): Promise<CallPolicy> {
  try {
    return (await loadPolicies(root)).calls
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error
    log.warn({ err: error }, 'the policies cannot be used; timeouts and retries are the shipped ones')
    return defaultCallPolicy
  }
}

export interface DispatcherOptions {
  readonly spawner: Spawner
  readonly evidence: Evidence
  /** Who signs the lines. */
  readonly actor: string
}

export function openDispatcher(opened: OpenRoot, { spawner, evidence, actor }: DispatcherOptions): Dispatcher {
  const { board, ids, settings } = opened
  return createDispatcher({
    board,
    spawner,
    evidence,
    policies: opened.policies,
    knowledge: {
      async hints() {
        const { knowledge, knowledgeError } = await opened.policies()
        const found = await fetchKnowledge(board.root, knowledge, systemClock, knowledgeError)
        const { section, degraded, degradeReason, knowledgeTags } = found
        return { section, outcome: { degraded, degradeReason, knowledgeTags, backfill: null } }
      },
      async backfill(lesson) {
        const { knowledge } = await opened.policies()
        return backfillKnowledge(board.root, knowledge, lesson, { disk: systemDisk, clock: systemClock, ids })
      },
    },
    verify: ({ command, timeoutSec, cwd }, { environment }) =>
      runCommand(
        {
          command,
          root: board.root,
          timeoutMs: timeoutSec * 1_000,
          environment,
          ...(cwd === undefined ? {} : { cwd }),
        },
        { clock: systemClock, ids },
      ),
    alerts: opened.alerts,
    clock: systemClock,
    ids,
    random: systemRandom,
    log: opened.log,
    actor,
    settings: {
      firstAgent: settings.first_agent,
      maxConcurrentSpawns: settings.max_concurrent_spawns,
      claimLeaseMs: settings.claim_lease_seconds * 1_000,
      spawnGraceMs: settings.spawn_grace_seconds * 1_000,
      intervalMs: settings.autopilot_interval_seconds * 1_000,
    },
  })
}

export interface KernelDispatcherOptions {
  readonly projectId: string
  readonly actor: string
}

/** A dispatcher whose runs are turns of the kernel. */
export function openKernelDispatcher(
  opened: OpenRoot,
  { runtime, settings, log }: Pick<PartContext, 'runtime' | 'settings' | 'log'>,
  { projectId, actor }: KernelDispatcherOptions,
): Dispatcher {
  const keepsMs = settings.pmo.retention_days * dayMs
  return openDispatcher(opened, {
    spawner: kernelSpawner({ kernel: runtime.kernel, projectId, clock: systemClock, log, keepsMs }),
    evidence: openEvidence(settings.board, opened.board.root, opened.ids),
    actor,
  })
}

/** The chores of an open root: dry runs of its tools, and retention. */
export function openMaintenance({ board, alerts, ids, log, settings }: OpenRoot): Maintenance {
  const keepMs = settings.runs_retention_days * dayMs
  return createMaintenance({
    root: board.root,
    ports: { disk: systemDisk, machine: systemMachine, clock: systemClock, ids, log },
    clock: systemClock,
    log,
    alerts,
    lockCheckMs: settings.lock_check_seconds * 1_000,
    snapshotCheckMs: settings.snapshot_check_seconds * 1_000,
    async removeOldRuns() {
      const open = new Set(openRuns(board.state).map(({ runId }) => runId))
      const before = systemClock.wallMs() - keepMs
      return (await removeOldFolders(join(board.root, runsFolder), before, (name) => open.has(name))).length
    },
  })
}

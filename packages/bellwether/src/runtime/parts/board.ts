/**
 * Opens a task root and creates its dispatcher and its maintenance from the board, its ports and its policy files. The dispatcher
 * reads the policies again at every step. A root that cannot be opened fails before anything is written.
 */
import { InvalidInput } from '@bellwether/protocol'
import { join } from 'node:path'
import { defined, type Log, systemClock, systemRandom } from '@bellwether/base'
import { makeAlerts, type Alerts } from '../../board/dispatch/alerts.js'
import { openBoard } from '../../board/log/board.js'
import type { CachePorts } from '../../board/dispatch/caches.js'
import { createMaintenance, type Maintenance } from '../../board/repair/maintenance.js'
import { runsFolder } from '../../board/dispatch/command-spawner.js'
import { countingContention, type Contention } from '../../board/dispatch/contention.js'
import { createDispatcher, type Dispatcher } from '../../board/dispatch/dispatcher.js'
import { importReference } from '../../board/repair/import-reference.js'
import type { Evidence, Spawner } from '../../board/ports.js'
import { backfillKnowledge, fetchKnowledge } from '../../board/policies/knowledge-files.js'
import { loadPolicies, type BoardPolicies } from '../../board/policies/load.js'
import type { Board } from '../../board/log/task.js'
import { openRuns } from '../../board/tasks/open-runs.js'
import { boundedDisk } from '../../ports/disk/bounded-disk.js'
import { systemDisk, type Disk } from '../../ports/disk/disk.js'
import { systemMachine } from '../../ports/disk/machine.js'
import { uuidv7, type Ids } from '../../ports/ids.js'
import { removeOldFolders } from '../../ports/disk/remove-old-folders.js'
import { defaultCallPolicy, retryCall, type CallPolicy } from '../../ports/retry.js'
import { runCommand } from '../../ports/processes/run-command.js'
import { postJson, webhookUrl } from '../../ports/webhook.js'
import type { Tail } from '../../http/tail.js'
import type { Settings } from '../../settings/schema.js'
import type { PartContext } from '../process.js'
import { kernelSpawner } from './spawner.js'

const dayMs = 86_400_000

export interface OpenRoot {
  readonly board: Board
  /** Every call ends within the timeout of local state. */
  readonly disk: Disk
  readonly alerts: Alerts
  readonly contention: Contention
  readonly ids: Ids
  readonly log: Log
  readonly settings: Settings['board']
  readonly caches: CachePorts
  readonly policies: () => Promise<BoardPolicies>
  /** The timeouts and retries when the root was opened. */
  readonly calls: CallPolicy
}

export interface RootOptions {
  readonly root: string
  /** The owner that locks name. */
  readonly owner: string
  readonly settings: Settings['board']
  readonly log: Log
  readonly signal?: AbortSignal
  /** Needs no write permission; the board cannot write. */
  readonly readOnly?: boolean
}

export async function openTaskRoot({ root, owner, settings, log, signal, readOnly }: RootOptions): Promise<OpenRoot> {
  const ids = uuidv7(systemClock, systemRandom)
  const calls = await readCallPolicy(root, log)
  const alerts = openAlerts({ root, settings, log, calls, signal })
  const lockWaitMs = calls.timeoutMs.local_state
  const disk = boundedDisk(systemDisk, { clock: systemClock, timeoutMs: calls.timeoutMs.local_state })
  const access = readOnly === true ? 'read' : 'write'
  const opened = await openBoard({ root, owner, access, disk, clock: systemClock, ids, log, lockWaitMs })
  const { board, contention } = countingContention(opened, {
    clock: systemClock,
    random: systemRandom,
    alerts,
    retry: calls.retry,
  })
  try {
    if (readOnly !== true) await importReference(board, { disk, clock: systemClock, ids, log })
  } catch (error) {
    await board.close()
    throw error
  }
  const ports = { clock: systemClock, random: systemRandom, log, ...defined({ signal }) }
  const read = { kind: 'local_state', name: 'reading the policies' } as const
  const policies = () => retryCall(calls, read, () => loadPolicies(board.root), ports)
  return { board, disk, alerts, contention, ids, log, settings, policies, calls, caches: { disk, ids, log } }
}

/** The alerts of this installation, with the webhook of its settings. */
export function openAlerts({
  root,
  settings,
  log,
  calls = defaultCallPolicy,
  signal,
}: Pick<RootOptions, 'settings' | 'log'> & {
  readonly root?: string
  readonly calls?: CallPolicy
  readonly signal: AbortSignal | undefined
}): Alerts {
  const url = settings.alert_webhook_url === undefined ? undefined : webhookUrl(settings.alert_webhook_url)
  const webhook = url === undefined ? undefined : { url, post: postJson }
  return makeAlerts({ clock: systemClock, random: systemRandom, calls, log, ...defined({ root, signal, webhook }) })
}

/** An invalid policy file stops dispatches, but not commands that only read the board. */
async function readCallPolicy(root: string, log: Log): Promise<CallPolicy> {
  try {
    const read = { kind: 'local_state', name: 'reading the policies' } as const
    const ports = { clock: systemClock, random: systemRandom, log }
    return (await retryCall(defaultCallPolicy, read, () => loadPolicies(root), ports)).calls
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error
    log.warn({ err: error }, 'invalid policies; using the default timeouts and retries')
    return defaultCallPolicy
  }
}

export interface DispatcherOptions {
  readonly spawner: Spawner
  readonly evidence: Evidence
  /** The actor that the log lines name. */
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
        return backfillKnowledge(board.root, knowledge, lesson, { disk: opened.disk, clock: systemClock, ids })
      },
    },
    verify: ({ command, timeoutSec, cwd }, { environment }) =>
      runCommand(
        {
          command,
          root: board.root,
          timeoutMs: timeoutSec * 1_000,
          environment,
          endsWithProcess: true,
          ...defined({ cwd }),
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
  /** The events that announce the ends of turns. */
  readonly tail: Tail
  readonly evidence: Evidence
}

/** A dispatcher whose runs are turns of the kernel. */
export function openKernelDispatcher(
  opened: OpenRoot,
  { runtime, settings, log }: Pick<PartContext, 'runtime' | 'settings' | 'log'>,
  { projectId, tail, evidence }: KernelDispatcherOptions,
): Dispatcher {
  const retentionMs = settings.pmo.retention_days * dayMs
  return openDispatcher(opened, {
    spawner: kernelSpawner({ kernel: runtime.kernel, projectId, tail, clock: systemClock, log, retentionMs }),
    evidence,
    actor: 'board',
  })
}

/** The maintenance of an open root: dry runs of the repair commands, and retention. */
export function openMaintenance({
  board,
  disk,
  alerts,
  ids,
  log,
  settings,
}: Pick<OpenRoot, 'board' | 'disk' | 'alerts' | 'ids' | 'log' | 'settings'>): Maintenance {
  const keepMs = settings.runs_retention_days * dayMs
  return createMaintenance({
    root: board.root,
    ports: { disk, machine: systemMachine, clock: systemClock, ids, log },
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

/**
 * Creates the dispatcher and the maintenance of an open task root from the board, its ports and its policy files. The dispatcher reads
 * the policies again at every step.
 */
import { join } from 'node:path'
import { defined, systemClock, systemRandom } from '@bellwether/base'
import { createMaintenance, type Maintenance } from '../../board/repair/maintenance.js'
import { runsFolder } from '../../board/dispatch/command-spawner.js'
import { createDispatcher, type Dispatcher } from '../../board/dispatch/dispatcher.js'
import type { Evidence, Spawner } from '../../board/ports.js'
import { backfillKnowledge, fetchKnowledge } from '../../board/policies/knowledge-files.js'
import { openRuns } from '../../board/tasks/open-runs.js'
import { systemMachine } from '../../ports/disk/machine.js'
import { removeOldFolders } from '../../ports/disk/remove-old-folders.js'
import { runCommand } from '../../ports/processes/run-command.js'
import type { Tail } from '../../http/tail.js'
import type { PartContext } from '../process.js'
import { kernelSpawner } from './spawner.js'
import type { OpenRoot } from './task-root.js'

const dayMs = 86_400_000

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

/**
 * Creates the dispatcher and the maintenance of an open task root from the board, its ports and its policy files. The dispatcher reads
 * the policies again at every step.
 */
import { join } from 'node:path'
import { defined, systemClock, systemRandom, type Log } from '@bellwether/base'
import { createMaintenance, type Maintenance } from '../../../board/repair/maintenance.js'
import { runsFolder } from '../../../board/dispatch/command-spawner.js'
import { createDispatcher, type Dispatcher } from '../../../board/dispatch/dispatcher.js'
import { sweepWorktrees } from '../../../board/dispatch/workspace.js'
import { openWorktrees } from '../../../ports/git/worktrees.js'
import { type VerifyCommand } from '../../../board/policies/acceptance-policy.js'
import { commandText } from '../../../board/policies/acceptance.js'
import { writeAudit, type AuditEntry } from '../../../kernel/access/audit-log.js'
import type { Queryable } from '../../../ports/database/database.js'
import type { Evidence, Spawner } from '../../../board/ports.js'
import { backfillKnowledge, fetchKnowledge } from '../../../board/policies/knowledge-files.js'
import { openRuns } from '../../../board/tasks/open-runs.js'
import { systemMachine } from '../../../ports/disk/machine.js'
import { removeOldFolders } from '../../../ports/disk/remove-old-folders.js'
import { gitHistory } from '../../../ports/git.js'
import { runCommand, type CommandResult } from '../../../ports/processes/run-command.js'
import type { Tail } from '../../../http/tail.js'
import { dataFolderOf } from '../../data-folder.js'
import { worktreesFolder } from '../../paths.js'
import type { PartContext } from '../../process.js'
import { openCheckSandbox, type CheckSandbox } from './check-sandbox.js'
import { kernelSpawner } from './spawner.js'
import type { OpenRoot } from './task-root.js'

const dayMs = 86_400_000

export interface DispatcherOptions {
  readonly spawner: Spawner
  readonly evidence: Evidence
  /** The actor that the log lines name. */
  readonly actor: string
  /** The folder of run-time files, in which worktrees are made. Default: that of the task root. */
  readonly dataDir?: string | undefined
  /** Where verify commands run. Default: as they are. */
  readonly sandbox?: CheckSandbox | undefined
  /** Called after each verify command, before its result counts. */
  readonly onCommand?: (taskId: string, command: VerifyCommand, ran: CommandResult) => Promise<void>
}

export function openDispatcher(
  opened: OpenRoot,
  { spawner, evidence, actor, onCommand, dataDir, sandbox }: DispatcherOptions,
): Dispatcher {
  const { board, ids, settings } = opened
  const folder = join(dataDir ?? dataFolderOf(board.root), worktreesFolder)
  return createDispatcher({
    board,
    spawner,
    evidence,
    git: gitHistory(board.root),
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
    worktrees: (timeoutMs) => openWorktrees({ root: board.root, folder, timeoutMs }),
    async verify(wanted, { environment }, { taskId }, root = board.root) {
      const { command, timeoutSec, cwd, sandbox: wantsSandbox } = wanted
      const enter = sandbox?.(defined({ sandbox: wantsSandbox }), root)
      const ran = await runCommand(
        {
          ...{ command, root, timeoutMs: timeoutSec * 1_000, environment, endsWithProcess: true },
          ...defined({ cwd, enter }),
        },
        { clock: systemClock, ids },
      )
      await onCommand?.(taskId, wanted, ran)
      return ran
    },
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
  readonly dataDir?: string | undefined
}

/** A dispatcher whose runs are turns of the kernel. */
export function openKernelDispatcher(
  opened: OpenRoot,
  { runtime, settings, log }: Pick<PartContext, 'runtime' | 'settings' | 'log'>,
  { projectId, tail, evidence, dataDir }: KernelDispatcherOptions,
): Dispatcher {
  const retentionMs = settings.pmo.retention_days * dayMs
  return openDispatcher(opened, {
    spawner: kernelSpawner({ kernel: runtime.kernel, projectId, tail, clock: systemClock, log, retentionMs }),
    evidence,
    actor: 'board',
    dataDir,
    sandbox: openCheckSandbox({
      log,
      settings,
      root: opened.board.root,
      dataDir: dataDir ?? dataFolderOf(opened.board.root),
    }),
    onCommand: auditCommands(runtime.kernel.db, log),
  })
}

const failedStatus = -1 // the command has no exit code

/** Writes each command that the board ran to the audit log. The command has ended: a failure to write is logged. */
export function auditCommands(db: Queryable, log: Log): NonNullable<DispatcherOptions['onCommand']> {
  return async (taskId, { check, command }, { exitCode, timedOut, failure }) => {
    const entry: AuditEntry = {
      actor: 'board',
      role: null,
      address: null,
      method: 'RUN',
      path: `${taskId}: ${check === undefined ? '' : `check "${check}": `}${commandText(command)}`,
      status: exitCode ?? failedStatus,
      code: timedOut ? 'timeout' : failure === undefined ? null : 'not_started',
    }
    await writeAudit(db, [entry]).catch((error: unknown) =>
      log.error({ err: error, entry }, 'cannot write the audit log'),
    )
  }
}

/** The maintenance of an open root: dry runs of the repair commands, retention, and the worktrees of finished tasks. */
export function openMaintenance(
  { board, disk, alerts, ids, log, settings }: Pick<OpenRoot, 'board' | 'disk' | 'alerts' | 'ids' | 'log' | 'settings'>,
  dispatcher?: Dispatcher,
): Maintenance {
  const keepMs = settings.runs_retention_days * dayMs
  return createMaintenance({
    root: board.root,
    ports: { disk, machine: systemMachine, clock: systemClock, ids, log },
    clock: systemClock,
    log,
    alerts,
    lockCheckMs: settings.lock_check_seconds * 1_000,
    snapshotCheckMs: settings.snapshot_check_seconds * 1_000,
    removeWorktrees: async () => (dispatcher === undefined ? 0 : sweepWorktrees(dispatcher)),
    async removeOldRuns() {
      const open = new Set(openRuns(board.state).map(({ runId }) => runId))
      const before = systemClock.wallMs() - keepMs
      return (await removeOldFolders(join(board.root, runsFolder), before, (name) => open.has(name))).length
    },
  })
}

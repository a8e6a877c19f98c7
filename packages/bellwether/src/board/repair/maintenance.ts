/**
 * Periodic maintenance of a board: checks its locks, verifies its snapshot in a dry run, and removes the folders of old runs and the worktrees of
 * finished tasks. The log is never changed. Each job is due at the start and then per monotonic interval; a job that fails raises an alert and
 * does not affect the others.
 */
import { plural } from '@bellwether/protocol'
import { join } from 'node:path'
import { type Clock, errorMessage, type Log } from '@bellwether/base'
import { loop } from '../../ports/loop.js'
import type { Alerts } from '../dispatch/alerts.js'
import { snapshotStatus, type SnapshotStatus } from './snapshot-check.js'
import type { LockPorts } from '../log/locks/locks.js'
import { rebuildSnapshot } from './rebuild.js'
import { recoverStaleLocks } from './recover-locks.js'

export interface MaintenanceOptions {
  readonly root: string
  readonly ports: LockPorts
  readonly clock: Clock
  readonly log: Log
  readonly alerts: Pick<Alerts, 'raise'>
  readonly lockCheckMs: number
  readonly snapshotCheckMs: number
  /** Removes the folders of old runs; returns how many. */
  readonly removeOldRuns: () => Promise<number>
  /** Removes the git worktrees of finished tasks; returns how many. */
  readonly removeWorktrees: () => Promise<number>
}

interface MaintenanceStep {
  /** The jobs that were due. */
  readonly ran: readonly MaintenanceJob[]
  readonly staleLocks?: number
  readonly snapshot?: SnapshotStatus
  readonly removedRuns?: number
  readonly removedWorktrees?: number
}

type MaintenanceJob = 'locks' | 'snapshot' | 'retention' | 'worktrees'

export interface Maintenance {
  step(): Promise<MaintenanceStep>
}

// The shortest interval is a few minutes; being one minute late does no harm.
const wakeMs = 60_000

export function createMaintenance(options: MaintenanceOptions): Maintenance {
  const { root, ports, clock, log, alerts } = options
  const dueMs: Record<MaintenanceJob, number> = { locks: 0, snapshot: 0, retention: 0, worktrees: 0 }
  const everyMs: Record<MaintenanceJob, number> = {
    locks: options.lockCheckMs,
    snapshot: options.snapshotCheckMs,
    retention: options.snapshotCheckMs,
    worktrees: options.lockCheckMs,
  }

  async function locks(): Promise<Partial<MaintenanceStep>> {
    const { candidates } = await recoverStaleLocks({ root, apply: false, force: false, yes: false }, ports)
    if (candidates.length > 0) {
      const details = { locks: candidates.slice(0, 10).map(({ path, owner, reason }) => ({ path, owner, reason })) }
      const text = `${plural(candidates.length, 'stale lock')}; run bellwether recover-stale-locks for details`
      alerts.raise({ kind: 'stale_locks', text, details })
    }
    return { staleLocks: candidates.length }
  }

  async function snapshot(): Promise<Partial<MaintenanceStep>> {
    const report = await rebuildSnapshot({ root, apply: false }, ports)
    const status = await snapshotStatus(report, join(report.root, 'state', 'tasks.jsonl'), ports.disk)
    if (report.errors.total > 0) log.warn({ problems: report.errors.counts }, 'log has lines that do not count')
    if (status === 'mismatch') {
      const { diff, rebuiltHash, liveHash, live } = report
      const text = 'the snapshot differs from the log; run bellwether rebuild-snapshot for details'
      alerts.raise({ kind: 'replay_mismatch', text, details: { diff, rebuiltHash, liveHash, live } })
    }
    return { snapshot: status }
  }

  const work: Readonly<Record<MaintenanceJob, () => Promise<Partial<MaintenanceStep>>>> = {
    locks,
    snapshot,
    retention: async () => ({ removedRuns: await options.removeOldRuns() }),
    worktrees: async () => ({ removedWorktrees: await options.removeWorktrees() }),
  }

  return {
    async step() {
      const did: MaintenanceJob[] = []
      let results: Partial<MaintenanceStep> = {}
      for (const name of ['locks', 'snapshot', 'retention', 'worktrees'] as const) {
        if (clock.monotonicMs() < dueMs[name]) continue
        dueMs[name] = clock.monotonicMs() + everyMs[name]
        did.push(name)
        try {
          results = { ...results, ...(await work[name]()) }
        } catch (error) {
          log.error({ err: error, job: name }, 'maintenance job failed')
          const why = errorMessage(error)
          alerts.raise({
            kind: 'maintenance_failed',
            text: `maintenance job "${name}" failed: ${why}`,
            details: { job: name },
          })
        }
      }
      return { ...results, ran: did }
    },
  }
}

/** Runs due jobs until the signal fires. */
export function runMaintenance(
  maintenance: Maintenance,
  { clock, log }: Pick<MaintenanceOptions, 'clock' | 'log'>,
  signal: AbortSignal,
): Promise<void> {
  return loop({ name: 'board maintenance', intervalMs: wakeMs, clock, log, signal, steady: true }, () =>
    maintenance.step(),
  )
}

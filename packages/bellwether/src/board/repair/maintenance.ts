/**
 * What a board needs now and then: a look at its locks, a rebuild of its snapshot in a dry run, and the removal of what nobody
 * asks for any more. Always: nothing of the board is changed here; each chore comes due on the monotonic scale and once at the
 * start; one that fails is an alert and does not keep the others from their turn.
 */
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
  /** Removes old runs; answers how many. */
  readonly removeOldRuns: () => Promise<number>
}

export interface MaintenanceStep {
  /** Which came due. */
  readonly ran: readonly MaintenanceJob[]
  readonly staleLocks?: number
  readonly snapshot?: SnapshotStatus
  readonly removedRuns?: number
}

export type MaintenanceJob = 'locks' | 'snapshot' | 'retention'

export interface Maintenance {
  step(): Promise<MaintenanceStep>
}

// A clock to wake by: the shortest chore is due every few minutes, and being a minute late does no harm.
const wakeMs = 60_000

export function createMaintenance(options: MaintenanceOptions): Maintenance {
  const { root, ports: world, clock, log, alerts } = options
  const dueMs: Record<MaintenanceJob, number> = { locks: 0, snapshot: 0, retention: 0 }
  const everyMs: Record<MaintenanceJob, number> = {
    locks: options.lockCheckMs,
    snapshot: options.snapshotCheckMs,
    retention: options.snapshotCheckMs,
  }

  async function locks(): Promise<Partial<MaintenanceStep>> {
    const { candidates } = await recoverStaleLocks({ root, apply: false, force: false, yes: false }, world)
    if (candidates.length > 0) {
      const facts = { locks: candidates.slice(0, 10).map(({ path, owner, reason }) => ({ path, owner, reason })) }
      const text = `${candidates.length} stale lock(s): bellwether recover-stale-locks tells more`
      alerts.raise({ kind: 'stale_locks', text, details: facts })
    }
    return { staleLocks: candidates.length }
  }

  async function snapshot(): Promise<Partial<MaintenanceStep>> {
    const report = await rebuildSnapshot({ root, apply: false }, world)
    const status = await snapshotStatus(report, join(report.root, 'state', 'tasks.jsonl'), world.disk)
    if (report.errors.total > 0) log.warn({ problems: report.errors.counts }, 'the log has lines that do not count')
    if (status === 'mismatch') {
      const { diff, rebuiltHash, liveHash, live } = report
      const text = 'the snapshot does not say what the log says: bellwether rebuild-snapshot tells more'
      alerts.raise({ kind: 'replay_mismatch', text, details: { diff, rebuiltHash, liveHash, live } })
    }
    return { snapshot: status }
  }

  const work: Readonly<Record<MaintenanceJob, () => Promise<Partial<MaintenanceStep>>>> = {
    locks,
    snapshot,
    retention: async () => ({ removedRuns: await options.removeOldRuns() }),
  }

  return {
    async step() {
      const did: MaintenanceJob[] = []
      let told: Partial<MaintenanceStep> = {}
      for (const name of ['locks', 'snapshot', 'retention'] as const) {
        if (clock.monotonicMs() < dueMs[name]) continue
        dueMs[name] = clock.monotonicMs() + everyMs[name]
        did.push(name)
        try {
          told = { ...told, ...(await work[name]()) }
        } catch (error) {
          log.error({ err: error, chore: name }, 'a chore failed')
          const why = errorMessage(error)
          alerts.raise({
            kind: 'maintenance_failed',
            text: `maintenance job "${name}" failed: ${why}`,
            details: { job: name },
          })
        }
      }
      return { ...told, ran: did }
    },
  }
}

/** Until the signal fires. */
export function runMaintenance(
  chores: Maintenance,
  { clock, log }: Pick<MaintenanceOptions, 'clock' | 'log'>,
  signal: AbortSignal,
): Promise<void> {
  return loop({ name: 'board chores', intervalMs: wakeMs, clock, log, signal, steady: true }, () => chores.step())
}

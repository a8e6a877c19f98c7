/**
 * Measures what a contender spends per job: CPU of PostgreSQL and of the contender's own processes, WAL bytes and row
 * versions. These figures hold on a busy machine, where rates do not. Linux only, because CPU times come from /proc.
 */
import { readdirSync, readFileSync } from 'node:fs'
import pg from 'pg'

/** Metric → value; rates per second, times in milliseconds, `n` the jobs that the figures rest on. */
export type Figures = Readonly<Record<string, number>>

// USER_HZ, the unit of CPU times in /proc: 100 on every Linux that Node.js supports.
const microsPerTick = 10_000
const otherSessions = `select count(*) from pg_stat_activity
  where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()`

export interface CostMeter {
  /** Measures CPU and WAL from now on; the returned function ends the measurement and divides by the number of jobs. */
  start(): Promise<(jobs: number) => Promise<Figures>>
  /**
   * Row versions written since the meter was opened, per job, the share of HOT updates, and an upper bound of index entries (a row may be outside a
   * partial index). Waits until every other session of the database is closed.
   */
  rowVersions(jobs: number): Promise<Figures>
  close(): Promise<void>
}

export async function openCostMeter(databaseUrl: string): Promise<CostMeter> {
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  const numbers = async (text: string): Promise<Figures> => {
    const { rows } = await client.query<Record<string, string>>(text)
    return Object.fromEntries(Object.entries(rows[0] ?? {}).map(([key, value]) => [key, Number(value)]))
  }
  const { pid } = await numbers('select pg_backend_pid() as pid')
  const postmaster = parentOf(pid!)
  const spent = async (): Promise<Figures> => {
    const wal = await numbers("select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0') as wal_bytes")
    const processes = readProcesses()
    return {
      pg_cpu_us: ticksOfTree(processes, postmaster) * microsPerTick,
      own_cpu_us: ticksOfTree(processes, process.pid, postmaster) * microsPerTick,
      ...wal,
    }
  }
  const written = () =>
    numbers(`select sum(n_tup_ins) as rows_inserted, sum(n_tup_upd) as rows_updated,
      sum(n_tup_hot_upd) as rows_updated_hot, sum(n_tup_del) as rows_deleted,
      sum(n_tup_ins + n_tup_upd) as row_versions, sum((n_tup_ins + n_tup_upd - n_tup_hot_upd) * i.indexes) as index_inserts_max
      from pg_stat_user_tables t cross join lateral (select count(*) as indexes from pg_index x where x.indrelid = t.relid) i`)
  const writtenBefore = await written()
  return {
    async start() {
      const before = await spent()
      return async (jobs) => perJob(before, await spent(), jobs)
    },
    async rowVersions(jobs) {
      // A session adds its counts to the statistics when it ends.
      while ((await numbers(otherSessions))['count']! > 0) await new Promise((resolve) => setTimeout(resolve, 20))
      const rows = perJob(writtenBefore, await written(), jobs)
      const { rows_updated: updated = 0, rows_updated_hot: hot = 0 } = rows
      return { ...rows, hot_share: updated === 0 ? 1 : Math.round((hot / updated) * 100) / 100 }
    },
    close: () => client.end(),
  }
}

function perJob(before: Figures, after: Figures, jobs: number): Figures {
  return Object.fromEntries(
    Object.entries(after).map(([key, value]) => [key, Math.round(((value - (before[key] ?? 0)) / jobs) * 100) / 100]),
  )
}

interface Process {
  readonly pid: number
  readonly parent: number
  /** CPU of the process and of its children that have ended. */
  readonly ticks: number
}

function readProcesses(): Process[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => readProcess(Number(name)) ?? [])
}

function readProcess(pid: number): Process | undefined {
  let stat: string
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
  } catch (error) {
    // The process has ended since the folder was listed.
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined
    throw error
  }
  // After the name in brackets: state, parent, …; the CPU times are fields 14 to 17 of the line.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0)
  return { pid, parent: Number(fields[1]), ticks }
}

function parentOf(pid: number): number {
  const found = readProcess(pid)
  if (found === undefined) throw new Error(`The server process ${pid} does not run on this machine`)
  return found.parent
}

/** The CPU of a process and its descendants, without the tree of `except` (the bench starts its own PostgreSQL). */
function ticksOfTree(processes: readonly Process[], root: number, except?: number): number {
  return processes
    .filter((one) => one.pid !== except && (one.pid === root || one.parent === root))
    .reduce((sum, one) => sum + (one.pid === root ? one.ticks : ticksOfTree(processes, one.pid, except)), 0)
}

/**
 * Reads the current state of the database for gauges: how much waits, for how long, and which workers are there. Every query uses an index
 * and a limit, so that counting one million queued rows costs no more than counting 100,000.
 */
import type { Queryable } from '../../ports/database/database.js'

export interface Gauges {
  /** Rows by inbox status; each stops at `depthMax`. */
  readonly inbox: readonly { readonly status: string; readonly rows: number; readonly age_seconds: number }[]
  readonly heads: readonly { readonly status: string; readonly agents: number }[]
  readonly workers: readonly {
    readonly worker_target: string
    readonly workers: number
    readonly slots: number
    readonly free: number
  }[]
  readonly withoutWorkers: readonly TargetWithoutWorkers[]
  /** How long the first event that readers cannot read yet has waited. */
  readonly horizonAgeSeconds: number
  readonly openBatches: number
  /** Accounts that reached a limit of their provider, and the turns that wait for them. */
  readonly heldAccounts: number
  readonly parkedTurns: number
  readonly schedules: readonly { readonly state: 'active' | 'paused' | 'invalid'; readonly schedules: number }[]
  /** For how long the oldest due instant of a schedule has waited. */
  readonly scheduleDelaySeconds: number
  readonly vacuum: VacuumHorizon
}

/** Transaction ids: rows that were replaced or deleted after `horizon` stay, because a transaction may still read them. */
export interface VacuumHorizon {
  readonly horizon: bigint
  readonly next: bigint
}

/** A worker target with turns to run and no live worker. The PMO keeps these turns up to `pmo.max_queue_seconds`. */
export interface TargetWithoutWorkers {
  readonly worker_target: string
  readonly turns: number
  /** How long the first of them has waited. */
  readonly waiting_seconds: number
}

// An operator would do nothing different for a longer queue.
export const depthMax = 100_000
// A worker signs in with every step of its watchdog (5 s by default); one that missed several is gone.
export const workerGoneSeconds = 60
const targetsMax = 50

/** The turn of head `h` waits for a worker: no live worker serves its target, and it was silent for longer than a worker may be. */
export const waitsForWorker = `h.status in ('dispatched', 'running')
  and h.updated_at < state.now() - make_interval(secs => ${workerGoneSeconds})
  and not exists (select from state.workers w where w.worker_target = h.worker_target
    and w.seen_at > state.now() - make_interval(secs => ${workerGoneSeconds}))`

type RestRow = Readonly<
  Record<'horizon' | 'batches' | 'held' | 'parked' | 'active' | 'paused' | 'invalid' | 'delay', number>
>

export async function readGauges(db: Queryable): Promise<Gauges> {
  const [inbox, heads, workers, withoutWorkers, [rest], vacuum] = await Promise.all([
    db.query<Gauges['inbox'][number]>({
      name: 'bw_gauge_inbox',
      // The queue lists the rows that wait; the heads list the turns that were claimed.
      text: Object.entries({
        queued: "select created_at from state.queue where status = 'queued'",
        pending: "select created_at from state.queue where status = 'pending'",
        processing: `select i.created_at from state.agent_state_head h
          cross join lateral state.turn_row(h.active_agent_turn_id) i
          where h.awake and h.status in ('running', 'suspended') and i.status = 'processing'`,
      })
        .map(
          ([status, rows]) => `select '${status}' as status, count(*)::int as rows,
            coalesce(extract(epoch from state.now() - min(created_at)), 0)::double precision as age_seconds
            from (${rows} limit ${depthMax}) i`,
        )
        .join(' union all '),
    }),
    db.query<Gauges['heads'][number]>({
      name: 'bw_gauge_heads',
      text: `select status, count(*)::int as agents from (
          select status from state.agent_state_head where awake and active_agent_turn_id is not null limit ${depthMax}) h
            group by 1`,
    }),
    db.query<Gauges['workers'][number]>({
      name: 'bw_gauge_workers',
      text: `select worker_target, count(*)::int as workers, coalesce(sum(concurrency), 0)::int as slots,
          coalesce(sum(free), 0)::int as free
        from state.workers where seen_at > state.now() - make_interval(secs => $1) group by 1
        order by 2 desc, 1 limit ${targetsMax}`,
      values: [workerGoneSeconds],
    }),
    targetsWithoutWorkers(db),
    db.query<RestRow>({
      name: 'bw_gauge_rest',
      text: `select state.horizon_age() as horizon,
        (select count(*)::int from (select from state.batches
          where settled_at is null limit ${depthMax}) b) as batches,
        (select count(*)::int from state.account_holds where ended_at is null) as held,
        (select count(*)::int from (select from state.parked_turns limit ${depthMax}) p) as parked,
        (select count(*)::int from state.schedules s where s.paused_at is null and s.problem is null) as active,
        (select count(*)::int from state.schedules s where s.paused_at is not null) as paused,
        (select count(*)::int from state.schedules s where s.paused_at is null and s.problem is not null) as invalid,
        (select coalesce(greatest(0, extract(epoch from state.now() - min(s.next_fire_at))), 0)::float
          from state.schedules s) as delay`,
    }),
    vacuumHorizon(db),
  ])
  return {
    inbox,
    heads,
    workers,
    withoutWorkers,
    horizonAgeSeconds: rest?.horizon ?? 0,
    openBatches: rest?.batches ?? 0,
    heldAccounts: rest?.held ?? 0,
    parkedTurns: rest?.parked ?? 0,
    schedules: (['active', 'paused', 'invalid'] as const).map((state) => ({ state, schedules: rest?.[state] ?? 0 })),
    scheduleDelaySeconds: rest?.delay ?? 0,
    vacuum,
  }
}

/** Reads only what every role may see: pg_stat_activity hides the start of other roles' transactions, but not their ids. */
export async function vacuumHorizon(db: Queryable): Promise<VacuumHorizon> {
  const [row] = await db.query<{ readonly next: string; readonly running: string; readonly holding: string[] }>({
    name: 'bw_vacuum_horizon',
    // Writing transactions of all databases, prepared ones too; snapshots of this database and of standbys; replication slots.
    text: `select pg_snapshot_xmax(s)::text as next, pg_snapshot_xmin(s)::text as running, array(
        select a.backend_xmin::text from pg_stat_activity a
        where a.backend_xmin is not null and (a.datname is null or a.datname = current_database())
        union all select r.xmin::text from pg_replication_slots r where r.xmin is not null) as holding
      from pg_current_snapshot() s`,
  })
  const next = BigInt(row?.next ?? 0)
  let horizon = BigInt(row?.running ?? 0)
  // These have 32 bits and are less than 2^31 behind.
  for (const xid of row?.holding ?? []) {
    const oldest = next - BigInt.asIntN(32, next - BigInt(xid))
    if (oldest < horizon) horizon = oldest
  }
  return { next, horizon }
}

/** The same sentence in alerts and on the Health page. */
export const noWorkerText = (target: string, turns: number) =>
  `no worker for target "${target}": ${turns === 1 ? '1 turn waits' : `${turns} turns wait`}`

/** Targets whose turns have waited for a worker for longer than a worker may be silent. */
export async function targetsWithoutWorkers(db: Queryable): Promise<TargetWithoutWorkers[]> {
  return db.query<TargetWithoutWorkers>({
    name: 'bw_targets_without_workers',
    text: `select h.worker_target, count(*)::int as turns,
        extract(epoch from state.now() - min(h.updated_at))::double precision as waiting_seconds
      from (select worker_target, updated_at from state.agent_state_head h
        where awake and active_agent_turn_id is not null and ${waitsForWorker} limit ${depthMax}) h
      group by 1 order by 1 limit ${targetsMax}`,
  })
}

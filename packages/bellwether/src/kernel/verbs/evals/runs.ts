/**
 * Moves of evaluation runs and their results. A write names the status that it leaves; zero rows mean that another process was first, and the
 * caller stops.
 */
import type { EvalChecked, EvalDefinition } from '@bellwether/protocol/http'
import type { Queryable } from '../../../ports/database/database.js'
import type { SuiteName } from './suites.js'

export interface NewRun extends SuiteName {
  readonly runId: string
  readonly origin: string
  /** With the chosen cases and variants only. */
  readonly definition: EvalDefinition
  readonly request: object
  readonly requestedBy: string
}

/** Stores the run with all its results. False: the suite has an open run. */
export async function insertRun(tx: Queryable, run: NewRun): Promise<boolean> {
  const { definition } = run
  const rows = await tx.query({
    name: 'bw_insert_eval_run',
    text: `with run as (
        insert into state.eval_runs (run_id, project_id, suite_id, origin, definition, request, status, requested_by,
          created_at)
        values ($1, $2, $3, $4, $5::jsonb, $6::jsonb, 'open', $7, state.now())
        on conflict (project_id, suite_id) where ended_at is null do nothing
        returning run_id
      ), results as (
        insert into state.eval_results (run_id, place, case_no, variant_no, repeat_no, status)
        select run.run_id, (c * $9::int + v) * $10::int + r, c, v, r, 'waiting' from run,
          generate_series(0, $8::int - 1) c, generate_series(0, $9::int - 1) v, generate_series(0, $10::int - 1) r
      )
      select run_id from run`,
    values: [
      run.runId,
      run.projectId,
      run.suite,
      run.origin,
      JSON.stringify(definition),
      JSON.stringify(run.request),
      run.requestedBy,
      definition.cases.length,
      definition.variants.length,
      definition.repeat,
    ],
  })
  return rows.length > 0
}

/**
 * Takes a waiting result, before its turn exists: a run that is stopped at the same time either skips the result or knows its batch. False: the
 * run was stopped.
 */
export async function markStarted(
  db: Queryable,
  runId: string,
  {
    place,
    batchId,
    shareMicros,
  }: { readonly place: number; readonly batchId: string; readonly shareMicros: number | null },
): Promise<boolean> {
  const rows = await db.query({
    name: 'bw_start_eval_result',
    text: `update state.eval_results set status = 'started', batch_id = $3, share_micros = $4
      where run_id = $1 and place = $2 and status = 'waiting' returning place`,
    values: [runId, place, batchId, shareMicros],
  })
  return rows.length > 0
}

/** The run was stopped before the turn of the result existed. */
export async function skipStarted(db: Queryable, runId: string, place: number): Promise<void> {
  await db.query({
    name: 'bw_skip_eval_result',
    text: `update state.eval_results set status = 'skipped', batch_id = null, share_micros = null
      where run_id = $1 and place = $2 and status = 'started'`,
    values: [runId, place],
  })
}

export interface StoredCheck extends EvalChecked {
  /** The batch of the judge, until its turn has ended. */
  readonly batch_id?: string | undefined
}

export interface Finding {
  readonly place: number
  readonly from: 'started' | 'judging'
  readonly checks: readonly StoredCheck[]
  readonly judgeCostMicros: number
  /** What the turn left; absent: it is stored already. */
  readonly turn?: {
    readonly agentTurnId: string | null
    readonly outcome: string
    readonly error: string | null
    readonly output: string | null
    readonly outputTruncated: boolean
    readonly tokens: number
    readonly costMicros: number
    readonly durationMs: number | null
  }
}

/** Returns whether the result is done: no check waits for its judge. */
export async function storeFinding(db: Queryable, runId: string, finding: Finding): Promise<boolean> {
  const { place, from, checks, judgeCostMicros, turn } = finding
  const isOpen = checks.some(({ passed }) => passed === null)
  await db.query({
    name: 'bw_store_eval_finding',
    text: `update state.eval_results r set status = $4, passed = $5, checks = $6::jsonb, judge_cost_micros = $7,
        agent_turn_id = coalesce(t.agent_turn_id, r.agent_turn_id), outcome = coalesce(t.outcome, r.outcome),
        error = coalesce(t.error, r.error), output = coalesce(t.output, r.output),
        output_truncated = coalesce(t.output_truncated, r.output_truncated), tokens = coalesce(t.tokens, r.tokens),
        cost_micros = coalesce(t.cost_micros, r.cost_micros), duration_ms = coalesce(t.duration_ms, r.duration_ms)
      from jsonb_to_record($8::jsonb) as t (agent_turn_id text, outcome text, error text, output text,
        output_truncated boolean, tokens bigint, cost_micros bigint, duration_ms bigint)
      where r.run_id = $1 and r.place = $2 and r.status = $3`,
    values: [
      runId,
      place,
      from,
      isOpen ? 'judging' : 'done',
      isOpen ? null : checks.every(({ passed }) => passed === true),
      JSON.stringify(checks),
      judgeCostMicros,
      JSON.stringify(
        turn === undefined
          ? {}
          : {
              agent_turn_id: turn.agentTurnId,
              outcome: turn.outcome,
              error: turn.error,
              output: turn.output,
              output_truncated: turn.outputTruncated,
              tokens: turn.tokens,
              cost_micros: turn.costMicros,
              duration_ms: turn.durationMs,
            },
      ),
    ],
  })
  return !isOpen
}

/** The results that have not started never will. */
export async function askToStop(db: Queryable, runId: string, reason: string): Promise<void> {
  await db.query({
    name: 'bw_stop_eval_run',
    text: `with run as (
        update state.eval_runs set status = 'stopping', reason = $2 where run_id = $1 and status = 'open'
        returning run_id
      ), skipped as (
        update state.eval_results r set status = 'skipped' from run where r.run_id = run.run_id and r.status = 'waiting'
      )
      select from run`,
    values: [runId, reason],
  })
}

/** Ends a run of which no result is open. False: one is. */
export async function endRun(db: Queryable, runId: string): Promise<boolean> {
  const rows = await db.query({
    name: 'bw_end_eval_run',
    text: `update state.eval_runs r set ended_at = state.now(),
        status = case r.status when 'stopping' then 'stopped' else 'done' end
      where r.run_id = $1 and r.ended_at is null and not exists (select from state.eval_results o
        where o.run_id = $1 and o.status in ('waiting', 'started', 'judging'))
      returning r.run_id`,
    values: [runId],
  })
  return rows.length > 0
}

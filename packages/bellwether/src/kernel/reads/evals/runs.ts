/** Reads evaluation suites and their runs, bounded. */
import type { EvalDefinition, EvalRunLine, EvalRunRow } from '@bellwether/protocol/http'
import type { Queryable } from '../../../ports/database/database.js'

const lineColumns = `r.run_id, r.suite_id as suite, r.status, r.reason, r.requested_by, r.created_at, r.ended_at,
  c.results, c.done, c.passed, c.failed, c.cost_micros`
const lineFrom = `state.eval_runs r cross join lateral (select count(*)::int as results,
    (count(*) filter (where o.status = 'done'))::int as done, (count(*) filter (where o.passed))::int as passed,
    (count(*) filter (where not o.passed))::int as failed,
    coalesce(sum(o.cost_micros + o.judge_cost_micros), 0)::double precision as cost_micros
  from state.eval_results o where o.run_id = r.run_id) c`

export interface SuiteRow {
  readonly suite: string
  readonly origin: string
  readonly definition: EvalDefinition | null
  readonly problem: string | null
  readonly updated_at: Date
  readonly last_run: EvalRunLine | null
}

// A project has one file per suite; more are made by a program.
export const suitesMax = 200

export const listSuites = (db: Queryable, projectId: string): Promise<SuiteRow[]> =>
  db.query<SuiteRow>({
    name: 'bw_list_eval_suites',
    text: `select s.suite_id as suite, s.origin, s.definition, s.problem, s.updated_at,
        (select to_jsonb(l) from (select ${lineColumns} from ${lineFrom}
          where r.project_id = s.project_id and r.suite_id = s.suite_id
          order by r.created_at desc, r.run_id desc limit 1) l) as last_run
      from state.eval_suites s where s.project_id = $1 order by s.suite_id limit ${suitesMax}`,
    values: [projectId],
  })

export async function readSuite(db: Queryable, projectId: string, suite: string) {
  const [row] = await db.query<Omit<SuiteRow, 'last_run'>>({
    name: 'bw_read_eval_suite',
    text: `select s.suite_id as suite, s.origin, s.definition, s.problem, s.updated_at
      from state.eval_suites s where s.project_id = $1 and s.suite_id = $2`,
    values: [projectId, suite],
  })
  return row
}

export interface RunRow extends EvalRunRow {
  readonly project_id: string
  readonly definition: EvalDefinition
  readonly request: Readonly<Record<string, unknown>>
}

const readRunWhere = async (db: Queryable, which: string, ...values: unknown[]): Promise<RunRow | undefined> => {
  const [row] = await db.query<RunRow>({
    text: `select ${lineColumns}, r.project_id, r.definition, r.request from ${lineFrom} where ${which}`,
    values,
  })
  return row
}

export const readRun = (db: Queryable, projectId: string, runId: string) =>
  readRunWhere(db, 'r.project_id = $1 and r.run_id = $2', projectId, runId)

/** The run of the suite that has not ended. */
export const readOpenRun = (db: Queryable, projectId: string, suite: string) =>
  readRunWhere(db, 'r.project_id = $1 and r.suite_id = $2 and r.ended_at is null', projectId, suite)

/** The newest run of the suite that was done before this one began. */
export const readRunBefore = (
  db: Queryable,
  { project_id: projectId, suite, created_at: before, run_id: id }: RunRow,
) =>
  readRunWhere(
    db,
    `r.project_id = $1 and r.suite_id = $2 and (r.created_at, r.run_id) < ($3, $4) and r.status = 'done'
      order by r.created_at desc, r.run_id desc limit 1`,
    projectId,
    suite,
    before,
    id,
  )

export async function listRuns(
  db: Queryable,
  projectId: string,
  { suite = null, after = null, limit }: { suite?: string | null; after?: string | null; readonly limit: number },
): Promise<{ runs: EvalRunRow[]; cursor: string | null }> {
  const runs = await db.query<EvalRunRow>({
    name: 'bw_list_eval_runs',
    text: `select ${lineColumns} from ${lineFrom} where r.project_id = $1 and ($2::text is null or r.suite_id = $2)
        and ($3::text is null or (r.created_at, r.run_id) < (select a.created_at, a.run_id from state.eval_runs a
          where a.run_id = $3 and a.project_id = $1))
      order by r.created_at desc, r.run_id desc limit $4`,
    values: [projectId, suite, after, limit],
  })
  return { runs, cursor: runs.length === limit ? runs.at(-1)!.run_id : null }
}

// What one `up` drives at a time; others wait.
const drivenMax = 10

/** The runs that have not ended, oldest first. */
export const listOpenRuns = (db: Queryable, projectId: string, origin: string) =>
  db.query<Pick<RunRow, 'run_id' | 'suite' | 'status' | 'reason' | 'definition' | 'project_id'>>({
    name: 'bw_list_open_eval_runs',
    text: `select r.run_id, r.suite_id as suite, r.status, r.reason, r.definition, r.project_id from state.eval_runs r
      where r.project_id = $1 and r.origin = $2 and r.ended_at is null order by r.created_at limit ${drivenMax}`,
    values: [projectId, origin],
  })

/** What the ended and open results of the run have cost. */
export async function readRunCost(db: Queryable, runId: string): Promise<number> {
  const [row] = await db.query<{ cost: number }>({
    name: 'bw_read_eval_cost',
    text: `select coalesce(sum(cost_micros + judge_cost_micros), 0)::double precision as cost
      from state.eval_results where run_id = $1`,
    values: [runId],
  })
  return row!.cost
}

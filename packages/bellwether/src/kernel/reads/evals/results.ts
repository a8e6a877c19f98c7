/** Reads the results of evaluation runs: what is open, what ended, and the turns and agents behind them. Bounded. */
import { groupBy } from '@bellwether/base'
import type { EvalCaseDetail, EvalCaseLine, EvalCell, EvalVariantSummary } from '@bellwether/protocol/http'
import type { Queryable } from '../../../ports/database/database.js'
import type { StoredCheck } from '../../verbs/evals/runs.js'
import type { RunRow } from './runs.js'

export interface OpenResult {
  readonly place: number
  readonly case_no: number
  readonly variant_no: number
  readonly status: 'waiting' | 'started' | 'judging'
  readonly batch_id: string | null
  readonly share_micros: number | null
  readonly cost_micros: number
  readonly judge_cost_micros: number
  readonly checks: readonly StoredCheck[]
}

const openColumns = `place, case_no, variant_no, status, batch_id, share_micros, cost_micros, judge_cost_micros, checks`

/** The results that are under way, and the next ones that wait. */
export const readOpenResults = (db: Queryable, runId: string, waitingMax: number) =>
  db.query<OpenResult>({
    name: 'bw_read_open_eval_results',
    text: `(select ${openColumns} from state.eval_results
        where run_id = $1 and status in ('started', 'judging') order by place)
      union all
      (select ${openColumns} from state.eval_results
        where run_id = $1 and status = 'waiting' order by place limit $2)`,
    values: [runId, waitingMax],
  })

export interface BatchTurn {
  readonly batch_id: string
  readonly inbox_id: string
  readonly status: string
  readonly error: string | null
}

/** The only task of each batch. */
export const readBatchTurns = (db: Queryable, batchIds: readonly string[]) =>
  db.query<BatchTurn>({
    name: 'bw_read_eval_turns',
    text: `select t.batch_id, t.inbox_id, t.status, t.error from state.batch_tasks t
      where t.batch_id = any ($1::text[]) and t.position = 0`,
    values: [batchIds],
  })

/** The agents of the project among these names, and whether each has a profile of its own name. */
export const readEvalAgents = (db: Queryable, projectId: string, names: readonly string[]) =>
  db.query<{ name: string; has_profile: boolean }>({
    name: 'bw_read_eval_agents',
    text: `select n.name, exists (select from resource.profiles p where p.project_id = $1 and p.profile_id = n.name)
        as has_profile
      from unnest($2::text[]) n (name) where exists (select from resource.project_agents a
        where a.project_id = $1 and a.agent_id = n.name and a.status = 'active')`,
    values: [projectId, names],
  })

/** The context box of a turn, and its last instruction. Undefined: the project has no such turn. */
export async function readTurnInput(db: Queryable, projectId: string, agentTurnId: string) {
  const [row] = await db.query<{ context_box_id: string | null; instruction: string | null }>({
    name: 'bw_read_turn_input',
    text: `select i.payload ->> 'context_box_id' as context_box_id, (select c.content ->> 'text'
          from cards.box_cards x join cards.cards c on c.card_id = x.card_id
          where x.box_id = i.payload ->> 'context_box_id' and c.type = 'task.instruction'
          order by x.position desc limit 1) as instruction
      from state.turn_row($1) i where i.project_id = $2`,
    values: [agentTurnId, projectId],
  })
  return row
}

export const readVariantSummaries = (db: Queryable, runId: string) =>
  db.query<Omit<EvalVariantSummary, 'variant' | 'agent'> & { readonly variant_no: number }>({
    name: 'bw_read_eval_variants',
    text: `select variant_no, count(*)::int as results, (count(*) filter (where status = 'done'))::int as done,
        (count(*) filter (where passed))::int as passed, (count(*) filter (where not passed))::int as failed,
        sum(cost_micros)::double precision as cost_micros,
        sum(judge_cost_micros)::double precision as judge_cost_micros,
        sum(tokens)::double precision as tokens,
        (percentile_disc(0.5) within group (order by duration_ms))::double precision as duration_p50_ms,
        (percentile_disc(0.95) within group (order by duration_ms))::double precision as duration_p95_ms
      from state.eval_results where run_id = $1 group by variant_no order by variant_no`,
    values: [runId],
  })

/** How often each case and variant passed. */
export const readPassCounts = (db: Queryable, runId: string) =>
  db.query<{ case_no: number; variant_no: number; done: number; passed: number }>({
    name: 'bw_read_eval_passes',
    text: `select case_no, variant_no, (count(*) filter (where status = 'done'))::int as done,
        (count(*) filter (where passed))::int as passed
      from state.eval_results where run_id = $1 group by case_no, variant_no order by case_no, variant_no`,
    values: [runId],
  })

const failingMax = 100

export const readFailing = (db: Queryable, runId: string) =>
  db.query<{
    case_no: number
    variant_no: number
    repeat_no: number
    agent_turn_id: string | null
    checks: StoredCheck[]
  }>({
    name: 'bw_read_eval_failing',
    text: `select case_no, variant_no, repeat_no, agent_turn_id, checks from state.eval_results
      where run_id = $1 and not passed order by place limit ${failingMax}`,
    values: [runId],
  })

interface CellRow extends Omit<EvalCell, 'variant' | 'repeat'> {
  readonly case_no: number
  readonly variant_no: number
  readonly repeat_no: number
}

const cellColumns = `case_no, variant_no, repeat_no, status, passed, agent_turn_id, outcome, error,
  (cost_micros + judge_cost_micros)::double precision as cost_micros, tokens::double precision as tokens,
  duration_ms::double precision as duration_ms`

type RunOf = Pick<RunRow, 'run_id' | 'definition'>

const cellOf = <One extends CellRow>(
  { definition }: RunOf,
  { case_no: _case, variant_no: variant, repeat_no: repeat, ...rest }: One,
) => ({ ...rest, variant: definition.variants[variant]!.name, repeat: repeat + 1 })

/** The cells of these cases, by case. */
export async function readCells(
  db: Queryable,
  run: RunOf,
  cases: readonly number[],
): Promise<Pick<EvalCaseLine, 'number' | 'case' | 'results'>[]> {
  const rows = await db.query<CellRow>({
    name: 'bw_read_eval_cells',
    text: `select ${cellColumns} from state.eval_results where run_id = $1 and case_no = any ($2::int[]) order by place`,
    values: [run.run_id, cases],
  })
  const byCase = groupBy(rows, (row) => row.case_no)
  return cases.map((number) => ({
    number,
    case: run.definition.cases[number]!.name,
    results: (byCase.get(number) ?? []).map((row) => cellOf(run, row)),
  }))
}

export async function readCaseResults(db: Queryable, run: RunOf, number: number): Promise<EvalCaseDetail['results']> {
  const rows = await db.query<CellRow & { output: string | null; output_truncated: boolean; checks: StoredCheck[] }>({
    name: 'bw_read_eval_case',
    text: `select ${cellColumns}, output, output_truncated, checks from state.eval_results
      where run_id = $1 and case_no = $2 order by place`,
    values: [run.run_id, number],
  })
  return rows.map((row) => {
    const { checks, ...rest } = cellOf(run, row)
    return { ...rest, checks: checks.map(({ batch_id: _batch, ...check }) => check) }
  })
}

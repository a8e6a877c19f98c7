/**
 * Evaluations: a run of a suite starts one turn per case, variant and repeat, and stores what the checks found. Requests choose only among suites
 * that the project defines.
 */
import { z } from '../../deferred.js'
import { evalCheckKinds, evalLimits, evalResultStatuses, evalRunStatuses, outcomes } from '../../vocabulary.js'
import { amount, id, inProject, limit, list, page, text, time, type Route, type Row } from '../shapes.js'
import { evalName, whole } from './suite-file.js'

const variant = z.object({
  name: z.string(),
  agent: z.string(),
  runs: z.string().describe('the agent that runs its turns'),
  instructions: z.string().nullable(),
  model: z.string().nullable(),
})

const runLine = z.object({
  run_id: z.string(),
  suite: z.string(),
  status: z.enum(evalRunStatuses),
  reason: z.string().nullable().describe('why the run was stopped'),
  requested_by: z.string(),
  created_at: time,
  ended_at: time.nullable(),
  results: z.number().describe('turns in all: cases × variants × repeats'),
  done: z.number(),
  passed: z.number(),
  failed: z.number(),
  cost_micros: z.number().describe('with the judges'),
})
export type EvalRunLine = z.output<typeof runLine>
export type EvalRunRow = Row<z.input<typeof runLine>>

const suite = z.object({
  suite: z.string(),
  description: z.string().nullable(),
  problem: z.string().nullable().describe('why the newest version of its file is not in force'),
  cases: z.number(),
  variants: list(variant),
  checks: list(z.string()).describe('the names of the checks of all cases'),
  repeat: z.number(),
  max_cost_micros: z.number().nullable(),
  updated_at: time,
  last_run: runLine.nullable(),
})
export type EvalSuite = z.output<typeof suite>

const variantSummary = z.object({
  variant: z.string(),
  agent: z.string(),
  results: z.number(),
  done: z.number(),
  passed: z.number(),
  failed: z.number(),
  cost_micros: z.number().describe('of its turns, without the judges'),
  judge_cost_micros: z.number(),
  tokens: z.number(),
  duration_p50_ms: z.number().nullable(),
  duration_p95_ms: z.number().nullable(),
})
export type EvalVariantSummary = z.output<typeof variantSummary>

const change = z.object({
  case: z.string(),
  variant: z.string(),
  before: z.string().describe('passed of all repeats in the earlier run, as `1/2`'),
  now: z.string(),
})

const comparison = z.object({
  against: z.string().describe('the id of the earlier run'),
  compared: z.number().describe('cases × variants that both runs have'),
  regressions: list(change).describe(`at most ${evalLimits.changes}`),
  improvements: list(change).describe(`at most ${evalLimits.changes}`),
  missing: list(z.object({ case: z.string(), variant: z.string() })).describe('what only the earlier run has'),
})

const runDetail = z.object({
  ...runLine.shape,
  description: z.string().nullable(),
  max_cost_micros: z.number().nullable(),
  concurrency: z.number(),
  repeat: z.number(),
  cases: z.number(),
  variants: list(variantSummary),
  differing: list(z.string()).describe('the cases whose variants differ'),
  failing: list(
    z.object({
      case: z.string(),
      variant: z.string(),
      repeat: z.number(),
      agent_turn_id: z.string().nullable(),
      reason: z.string(),
    }),
  ).describe('the first 100 failed results, each with its first failed check'),
  comparison: comparison.nullable().describe('only with `against`'),
})
export type EvalRun = z.output<typeof runDetail>

const cell = z.object({
  variant: z.string(),
  repeat: z.number(),
  status: z.enum(evalResultStatuses),
  passed: z.boolean().nullable(),
  agent_turn_id: z.string().nullable(),
  outcome: z.enum(outcomes).nullable(),
  error: z.string().nullable(),
  cost_micros: z.number(),
  tokens: z.number(),
  duration_ms: z.number().nullable(),
})
export type EvalCell = z.output<typeof cell>

const caseLine = z.object({ number: z.number(), case: z.string(), differs: z.boolean(), results: list(cell) })
export type EvalCaseLine = z.output<typeof caseLine>

const checked = z.object({
  check: z.string(),
  kind: z.enum(['outcome', ...evalCheckKinds]),
  passed: z.boolean().nullable().describe('null: its judge has not answered yet'),
  reason: z.string(),
  agent_turn_id: z.string().nullable().describe('the turn of the judge'),
})
export type EvalChecked = z.output<typeof checked>

const caseDetail = z.object({
  number: z.number(),
  case: z.string(),
  instruction: z.string().nullable(),
  turn: z.string().nullable().describe('the recorded turn whose input the case takes'),
  results: list(cell.extend({ output: z.string().nullable(), output_truncated: z.boolean(), checks: list(checked) })),
})
export type EvalCaseDetail = z.output<typeof caseDetail>

const oneSuite = inProject.extend({ suite: evalName })
const oneRun = inProject.extend({ run: id })

export const evalRoutes = {
  'GET /projects/:project/evals': {
    summary: 'List the evaluation suites of the project',
    params: inProject,
    responses: { 200: z.object({ suites: list(suite) }) },
  },
  'POST /projects/:project/evals/:suite/runs': {
    summary: 'Start a run of a suite',
    description:
      'Starts only what the file of the suite defines; the body can choose some of its variants and cases, and lower its cost limit. A suite has one open run: the same request returns it, another one responds with 409 `eval_running`.',
    params: oneSuite,
    body: z.strictObject({
      variants: z.array(evalName).min(1).max(evalLimits.variants).optional(),
      cases: z.array(text(100)).min(1).max(evalLimits.cases).optional(),
      repeat: whole(evalLimits.repeat).optional(),
      concurrency: whole(evalLimits.concurrency).optional(),
      max_cost_micros: amount.min(1).optional(),
    }),
    responses: { 202: runLine },
  },
  'GET /projects/:project/eval-runs': {
    summary: 'List runs of suites, newest first',
    params: inProject,
    query: z.object({ suite: evalName.optional(), cursor: id.optional(), limit: limit(200, 50) }),
    responses: { 200: page('runs', runLine, z.string()) },
  },
  'GET /projects/:project/eval-runs/:run': {
    summary: 'Read a run: pass rate, cost and duration per variant, differing cases',
    description:
      'With `against`, it names the regressions since an earlier run of the same suite; `last` is the newest one that ended before it.',
    params: oneRun,
    query: z.object({ against: id.optional() }),
    responses: { 200: runDetail },
  },
  'GET /projects/:project/eval-runs/:run/results': {
    summary: 'Read the results of a run by case',
    params: oneRun,
    query: z.object({
      show: z.enum(['all', 'failed', 'differing']).default('all'),
      cursor: z
        .string()
        .regex(/^\d{1,6}$/, 'must be a cursor from an earlier response')
        .optional(),
      limit: limit(200, 50),
    }),
    responses: { 200: page('cases', caseLine, z.string()) },
  },
  'GET /projects/:project/eval-runs/:run/results/:number': {
    summary: 'Read one case of a run with outputs and checks',
    params: oneRun.extend({ number: z.string().regex(/^\d{1,4}$/, 'must be the number of a case') }),
    responses: { 200: caseDetail },
  },
  'POST /projects/:project/eval-runs/:run/stop': {
    summary: 'Stop a run and its turns',
    params: oneRun,
    responses: { 200: runLine },
  },
} as const satisfies Record<string, Route>

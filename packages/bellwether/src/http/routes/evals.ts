/** Evaluations: list suites, start and stop runs, read their results. The definition of a suite comes from its file only. */
import { InvalidInput } from '@bellwether/protocol'
import type { EvalRunRow } from '@bellwether/protocol/http'
import { compareRuns, differingCases } from '../../evals/compare.js'
import { checkTitle } from '../../evals/checks.js'
import { requireRun, startEval, stopEval } from '../../evals/start.js'
import { ownInstruction } from '../../evals/turns.js'
import {
  readCaseResults,
  readCells,
  readFailing,
  readPassCounts,
  readTurnInput,
  readVariantSummaries,
} from '../../kernel/reads/evals/results.js'
import { listRuns, listSuites, readRunBefore, type RunRow } from '../../kernel/reads/evals/runs.js'
import { notFound, type Api, type KernelParts } from '../api.js'
import { callerName } from '../auth.js'

const micros = (usd: number | undefined) => (usd === undefined ? null : Math.floor(usd * 1e6))
const lineOf = ({ definition: _definition, request: _request, project_id: _project, ...line }: RunRow): EvalRunRow =>
  line

export function evalRoutes(api: Api, { kernel }: KernelParts): void {
  const { db } = kernel

  api('GET /projects/:project/evals', async ({ params }) => {
    const suites = await listSuites(db, params.project)
    return {
      suites: suites.map(({ definition, origin: _origin, ...row }) => ({
        ...row,
        description: definition?.description ?? null,
        cases: definition?.cases.length ?? 0,
        variants: (definition?.variants ?? []).map(({ instructions = null, model = null, ...one }) => ({
          ...one,
          instructions,
          model,
        })),
        checks: definition?.checks.map(checkTitle) ?? [],
        repeat: definition?.repeat ?? 1,
        max_cost_micros: micros(definition?.max_cost_usd),
      })),
    }
  })

  api('POST /projects/:project/evals/:suite/runs', async ({ params, body, grant }) => {
    const { project: projectId, suite } = params
    return lineOf(await startEval(kernel, { projectId, suite }, body, callerName(grant)))
  })

  api('GET /projects/:project/eval-runs', ({ params, query }) =>
    listRuns(db, params.project, { suite: query.suite ?? null, after: query.cursor ?? null, limit: query.limit }),
  )

  api('GET /projects/:project/eval-runs/:run', async ({ params, query }) => {
    const run = await requireRun(db, params.project, params.run)
    const { definition } = run
    const counts = await readPassCounts(db, run.run_id)
    const summaries = await readVariantSummaries(db, run.run_id)
    const failing = await readFailing(db, run.run_id)
    const before = query.against === undefined ? undefined : await earlier(run, query.against)
    return {
      ...lineOf(run),
      description: definition.description ?? null,
      max_cost_micros: micros(definition.max_cost_usd),
      concurrency: definition.concurrency,
      repeat: definition.repeat,
      cases: definition.cases.length,
      variants: summaries.map(({ variant_no: number, ...summary }) => {
        const { name, agent } = definition.variants[number]!
        return { ...summary, variant: name, agent }
      }),
      differing: differingCases(counts).map((number) => definition.cases[number]!.name),
      failing: failing.map(
        ({ case_no: number, variant_no: variant, repeat_no: repeat, agent_turn_id: turn, checks }) => {
          const first = checks.find(({ passed }) => passed === false)
          return {
            case: definition.cases[number]!.name,
            variant: definition.variants[variant]!.name,
            repeat: repeat + 1,
            agent_turn_id: turn,
            reason: first === undefined ? '' : `${first.check}: ${first.reason}`,
          }
        },
      ),
      comparison:
        before === undefined
          ? null
          : compareRuns(
              { definition, counts },
              { runId: before.run_id, definition: before.definition, counts: await readPassCounts(db, before.run_id) },
            ),
    }
  })

  /** Undefined: there is no earlier run. */
  async function earlier(run: RunRow, against: string): Promise<RunRow | undefined> {
    if (against === 'last') return readRunBefore(db, run)
    const other = await requireRun(db, run.project_id, against)
    if (other.suite === run.suite && other.run_id !== run.run_id) return other
    throw new InvalidInput(
      other.suite === run.suite
        ? `Cannot compare run ${run.run_id} with itself`
        : `Cannot compare runs of two suites: "${run.suite}" and "${other.suite}"`,
      { code: 'not_comparable', hint: `list the runs of the suite: bellwether eval list ${run.suite}` },
    )
  }

  api('GET /projects/:project/eval-runs/:run/results', async ({ params, query }) => {
    const run = await requireRun(db, params.project, params.run)
    const counts = await readPassCounts(db, run.run_id)
    const differing = new Set(differingCases(counts))
    const failed = new Set(counts.flatMap((one) => (one.passed < one.done ? [one.case_no] : [])))
    const shown = run.definition.cases.flatMap((_case, number) =>
      query.show === 'all' || (query.show === 'failed' ? failed : differing).has(number) ? [number] : [],
    )
    const after = query.cursor === undefined ? -1 : Number(query.cursor)
    const page = shown.filter((number) => number > after).slice(0, query.limit)
    const cases = await readCells(db, run, page)
    const last = page.at(-1)
    return {
      cases: cases.map((one) => ({ ...one, differs: differing.has(one.number) })),
      cursor: last === undefined || last === shown.at(-1) ? null : String(last),
    }
  })

  api('GET /projects/:project/eval-runs/:run/results/:number', async ({ params }) => {
    const run = await requireRun(db, params.project, params.run)
    const number = Number(params.number)
    const found = run.definition.cases[number]
    if (found === undefined) throw notFound(`Case ${number} of run ${params.run}`)
    const recorded = found.turn === undefined ? undefined : await readTurnInput(db, params.project, found.turn)
    return {
      number,
      case: found.name,
      instruction: ownInstruction(found) ?? recorded?.instruction ?? null,
      turn: found.turn ?? null,
      results: await readCaseResults(db, run, number),
    }
  })

  api('POST /projects/:project/eval-runs/:run/stop', async ({ params, grant }) =>
    lineOf(await stopEval(kernel, params.project, params.run, callerName(grant))),
  )
}

/** Starts and stops runs of suites. A suite has one open run: repeating a request continues it, so that a killed client starts nothing twice. */
import { canonicalJson, defined } from '@bellwether/base'
import { InvalidInput, Terminal } from '@bellwether/protocol'
import type { BodyOf, EvalDefinition } from '@bellwether/protocol/http'
import type { Kernel } from '../kernel/kernel.js'
import { readEvalAgents, readTurnInput } from '../kernel/reads/evals/results.js'
import { readOpenRun, readRun, readSuite, type RunRow } from '../kernel/reads/evals/runs.js'
import { askToStop, insertRun } from '../kernel/verbs/evals/runs.js'
import type { SuiteName } from '../kernel/verbs/evals/suites.js'

export type RunRequest = BodyOf<'POST /projects/:project/evals/:suite/runs'>

export async function startEval(
  { db, ids }: Pick<Kernel, 'db' | 'ids'>,
  name: SuiteName,
  request: RunRequest,
  by: string,
): Promise<RunRow> {
  const { projectId, suite } = name
  const stored = await readSuite(db, projectId, suite)
  if (stored === undefined)
    throw new Terminal(`Suite "${suite}" in project "${projectId}" does not exist`, {
      code: 'not_found',
      hint: `create evals/${suite}.toml; \`bellwether eval list\` lists the suites`,
    })
  if (stored.definition === null)
    throw new Terminal(`Cannot run suite "${suite}": its file is invalid: ${stored.problem ?? ''}`, {
      code: 'eval_invalid',
      hint: 'correct the file',
    })
  const definition = chosen(suite, stored.definition, request)
  await mustExist(db, projectId, definition)
  const open = await readOpenRun(db, projectId, suite)
  if (open !== undefined) return sameRequest(open, request)
  const runId = ids.next()
  const run = { ...name, runId, origin: stored.origin, definition, request: defined(request), requestedBy: by }
  if (await insertRun(db, run)) return (await readRun(db, projectId, runId))!
  const other = await readOpenRun(db, projectId, suite)
  if (other === undefined) return startEval({ db, ids }, name, request, by)
  return sameRequest(other, request)
}

function sameRequest(open: RunRow, request: RunRequest): RunRow {
  if (open.status === 'open' && canonicalJson(open.request) === canonicalJson(defined(request))) return open
  throw new Terminal(`Suite "${open.suite}" has a run that has not ended: ${open.run_id}`, {
    code: 'eval_running',
    hint: `follow it: bellwether eval show ${open.run_id}; or end it: bellwether eval stop ${open.run_id}`,
  })
}

/** Throws InvalidInput for a name that the suite does not have. */
function chosen(suite: string, definition: EvalDefinition, request: RunRequest): EvalDefinition {
  const pick = <One extends { readonly name: string }>(
    what: string,
    all: readonly One[],
    names: readonly string[] | undefined,
  ) => {
    if (names === undefined) return all
    const unknown = names.find((name) => !all.some((one) => one.name === name))
    if (unknown === undefined) return all.filter(({ name }) => names.includes(name))
    throw new InvalidInput(`Suite "${suite}" has no ${what} ${JSON.stringify(unknown)}`, {
      code: 'unknown_name',
      hint: `it has: ${all
        .map(({ name }) => name)
        .join(', ')
        .slice(0, 500)}`,
    })
  }
  const limit = request.max_cost_micros === undefined ? undefined : request.max_cost_micros / 1e6
  const { max_cost_usd: fromFile } = definition
  if (limit !== undefined && fromFile !== undefined && limit > fromFile)
    throw new InvalidInput(`"max_cost_micros" must be at most the limit of the suite, $${fromFile} (got $${limit})`, {
      code: 'above_limit',
      hint: 'raise max_cost_usd in the file of the suite',
    })
  return {
    ...definition,
    variants: pick('variant', definition.variants, request.variants),
    cases: pick('case', definition.cases, request.cases),
    ...defined({ repeat: request.repeat, concurrency: request.concurrency, max_cost_usd: limit }),
  }
}

const turnsMax = 10_000

/** Every agent and every recorded turn that the run needs. */
async function mustExist(
  db: Kernel['db'],
  projectId: string,
  { cases, variants, checks, repeat }: EvalDefinition,
): Promise<void> {
  const turns = cases.length * variants.length * repeat
  if (turns > turnsMax)
    throw new InvalidInput(`A run has at most ${turnsMax} turns: cases × variants × repeat is ${turns}`, {
      code: 'too_many_turns',
      hint: 'choose fewer cases or repeats',
    })
  const judges = [...checks, ...cases.flatMap((one) => one.checks)].flatMap(({ judge }) =>
    judge === undefined ? [] : [judge.agent],
  )
  const names = [...new Set([...variants.map(({ runs }) => runs), ...judges])]
  const known = new Set((await readEvalAgents(db, projectId, names)).map(({ name }) => name))
  const missing = names.find((name) => !known.has(name))
  if (missing !== undefined)
    throw new InvalidInput(`Cannot run the suite: project "${projectId}" has no agent "${missing}"`, {
      code: 'unknown_agent',
      hint: 'create agents/NAME.md, or choose an agent that `bellwether agents` lists',
    })
  for (const { name, turn } of cases) {
    if (turn === undefined) continue
    const input = await readTurnInput(db, projectId, turn)
    if (input?.context_box_id === undefined || input.context_box_id === null)
      throw new InvalidInput(`Cannot run case "${name}": project "${projectId}" has no turn ${turn} with an input`, {
        code: 'unknown_turn',
        hint: 'retention removes old turns: keep a trail with `bellwether turn export TURN > evals/NAME.json` and use trail = "NAME.json"',
      })
  }
}

export async function stopEval(
  { db }: Pick<Kernel, 'db'>,
  projectId: string,
  runId: string,
  by: string,
): Promise<RunRow> {
  const run = await requireRun(db, projectId, runId)
  if (run.ended_at !== null)
    throw new Terminal(`Run ${runId} has ended`, { code: 'eval_ended', hint: `show it: bellwether eval show ${runId}` })
  await askToStop(db, runId, `stopped by ${by}`)
  return requireRun(db, projectId, runId)
}

export async function requireRun(db: Kernel['db'], projectId: string, runId: string): Promise<RunRow> {
  const run = await readRun(db, projectId, runId)
  if (run !== undefined) return run
  throw new Terminal(`Run ${runId} in project "${projectId}" does not exist`, {
    code: 'not_found',
    hint: '`bellwether eval list SUITE` lists the runs of a suite',
  })
}

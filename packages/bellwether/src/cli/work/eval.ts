/** `bellwether eval`: lists suites, runs one, shows what its checks found and what became worse. The server drives the run; this only watches. */
import { defined, systemClock } from '@bellwether/base'
import { dollars, duration, evalLimits, percent } from '@bellwether/protocol'
import type { EvalRun, EvalRunLine, EvalSuite } from '@bellwether/protocol/http'
import { Command } from 'commander'
import type { Client } from '../../client/client.js'
import { plain } from '../../client/sanitize.js'
import { openClient, toServer, type ServerFlags } from '../shared/client.js'
import { interruptedCode, untilInterrupted } from '../shared/interrupt.js'
import { openProgress } from '../shared/live.js'
import { collect, dollarsUpTo, jsonLines, wholeUpTo } from '../shared/options.js'
import { exitCodes, print, printList } from '../shared/output.js'
import { instant, table } from '../shared/terminal.js'
import type { Finish } from './run-started.js'

interface RunFlags extends ServerFlags {
  readonly variant?: readonly string[]
  readonly case?: readonly string[]
  readonly repeat?: number
  readonly concurrency?: number
  readonly maxCost?: number
  readonly against?: string
  readonly wait: boolean
}

const costMax = 1_000_000
const runsMax = 200
// A turn takes seconds, and each look reads the counts of at most 10,000 results.
const lookMs = 1_000
// As much as a person reads; --json has the rest.
const shownMax = 20

export function evalCommand(finish: Finish): Command {
  const command = new Command('eval')
    .description('run suites of recorded inputs with checks, and compare agents, prompts and runs')
    .helpCommand(false)
  toServer(command.command('list [suite]', { isDefault: true }))
    .description('list the suites of the project (the default), or the runs of one suite')
    .addOption(jsonLines())
    .action(async (suite: string | undefined, flags: ServerFlags) => {
      const client = openClient(flags)
      if (suite !== undefined) {
        const query = { suite, limit: runsMax }
        const { runs } = await client.ask('GET /projects/:project/eval-runs', { query })
        return printList(flags, { runs }, runs, () => runTable(runs))
      }
      const { suites } = await client.ask('GET /projects/:project/evals', {})
      printList(flags, { suites }, suites, () => suiteTable(suites))
    })
  toServer(command.command('run <suite>'))
    .description('run a suite and wait for its end; exit code 1 if a check failed or a case became worse')
    .option('--variant <name>', 'only this variant; may be repeated', collect)
    .option('--case <name>', 'only this case; may be repeated', collect)
    .option(
      '--repeat <n>',
      'turns per case and variant, instead of the number of the file',
      wholeUpTo(evalLimits.repeat, 1),
    )
    .option('--concurrency <n>', 'turns at the same time', wholeUpTo(evalLimits.concurrency, 1))
    .option('--max-cost <usd>', 'the most that the run may spend; at most the limit of the file', dollarsUpTo(costMax))
    .option('--against <run>', 'compare with an earlier run; `last` is the newest one that is done')
    .option('--no-wait', 'print the id of the run instead of waiting for its end')
    .action(async (suite: string, flags: RunFlags) => finish(await run(openClient(flags), suite, flags)))
  toServer(command.command('show <run>'))
    .description('show a run: pass rate, cost and time per variant, differing cases, failures')
    .option('--against <run>', 'name what became worse since an earlier run; `last` is the newest one before it')
    .action(async (id: string, flags: ServerFlags & { readonly against?: string }) => {
      finish(show(flags, await read(openClient(flags), id, flags.against)))
    })
  toServer(command.command('stop <run>'))
    .description('stop a run and its turns')
    .action(async (id: string, flags: ServerFlags) => {
      const stopped = await openClient(flags).ask('POST /projects/:project/eval-runs/:run/stop', {
        params: { run: id },
      })
      print(flags, stopped, () => plain(`${stopped.run_id}  ${stopped.status}`))
    })
  return command
}

async function run(client: Client, suite: string, flags: RunFlags): Promise<number> {
  const body = defined({
    variants: flags.variant && [...flags.variant],
    cases: flags.case && [...flags.case],
    repeat: flags.repeat,
    concurrency: flags.concurrency,
    max_cost_micros: flags.maxCost === undefined ? undefined : Math.round(flags.maxCost * 1e6),
  })
  const started = await client.ask('POST /projects/:project/evals/:suite/runs', { params: { suite }, body })
  const { run_id: id } = started
  if (!flags.wait) {
    print(flags, started, () => id)
    return exitCodes.ok
  }
  const progress = openProgress(flags.json !== true)
  const { value, interrupted } = await untilInterrupted(async (signal) => {
    for (;;) {
      const found = await read(client, id, flags.against)
      if (found.ended_at !== null) return found
      progress.show(plain(`${id}  ${progressOf(found)}`))
      await systemClock.sleep(lookMs, signal)
      signal.throwIfAborted()
    }
  }).finally(() => progress.clear())
  if (value !== undefined && !interrupted) return show(flags, value)
  process.stderr.write(
    `The run continues. To follow or stop it: bellwether eval run ${suite}, bellwether eval stop ${id}\n`,
  )
  return interruptedCode
}

const read = (client: Client, id: string, against: string | undefined): Promise<EvalRun> =>
  client.ask('GET /projects/:project/eval-runs/:run', { params: { run: id }, query: defined({ against }) })

function show(flags: ServerFlags, found: EvalRun): number {
  print(flags, found, () => runText(found))
  const isGood = found.failed === 0 && found.status !== 'stopped' && (found.comparison?.regressions.length ?? 0) === 0
  return isGood ? exitCodes.ok : exitCodes.failure
}

const timeOf = (ms: number | null) => (ms === null ? '–' : duration(ms))

const progressOf = ({ done, results, passed, failed, cost_micros: cost }: EvalRunLine) =>
  `${done}/${results} done  ${passed} passed  ${failed} failed  ${dollars(cost)}`

const stateOf = ({ status, reason }: EvalRunLine) => (reason === null ? status : `${status}: ${reason}`)

function suiteTable(suites: readonly EvalSuite[]): string {
  if (suites.length === 0) return 'No suites. Create evals/NAME.toml: docs/how-to/evaluate-agents.md'
  const rows = suites.map((one) => [
    one.suite,
    one.problem === null ? 'valid' : one.cases === 0 ? 'invalid' : 'newest version invalid',
    String(one.cases),
    one.variants.map(({ name }) => name).join(', '),
    one.last_run === null ? 'never run' : `${progressOf(one.last_run)}  ${instant(one.last_run.created_at)}`,
  ])
  const problems = suites.flatMap(({ problem }) => (problem === null ? [] : [plain(problem)]))
  return [
    table(['SUITE', 'FILE', 'CASES', 'VARIANTS', 'LAST RUN'], rows, process.stdout.columns, [0]),
    ...problems,
  ].join('\n')
}

function runTable(runs: readonly EvalRunLine[]): string {
  if (runs.length === 0) return 'No runs'
  const rows = runs.map((one) => [
    one.run_id,
    stateOf(one),
    `${one.passed} of ${one.done}`,
    dollars(one.cost_micros),
    one.requested_by,
    instant(one.created_at),
  ])
  return table(['RUN', 'STATE', 'PASSED', 'COST', 'BY', 'STARTED (UTC)'], rows, process.stdout.columns, [0])
}

function runText(found: EvalRun): string {
  const { comparison, failing, differing } = found
  const rows = found.variants.map((one) => [
    one.variant,
    `${one.passed} of ${one.done}`,
    percent(one.passed, one.done),
    dollars(one.cost_micros),
    dollars(one.judge_cost_micros),
    String(one.tokens),
    timeOf(one.duration_p50_ms),
    timeOf(one.duration_p95_ms),
  ])
  const section = (title: string, lines: readonly string[]) =>
    lines.length === 0
      ? []
      : [
          '',
          title,
          ...lines.slice(0, shownMax).map((line) => plain(`  ${line}`)),
          ...(lines.length > shownMax ? [`  and ${lines.length - shownMax} more: --json`] : []),
        ]
  const labelOf = ({ case: name, variant, repeat }: EvalRun['failing'][number]) =>
    `${name}  ${variant}${found.repeat > 1 ? ` #${repeat}` : ''}`
  return [
    plain(`${found.run_id}  ${found.suite}  ${stateOf(found)}  ${progressOf(found)}`),
    '',
    table(['VARIANT', 'PASSED', 'RATE', 'COST', 'JUDGES', 'TOKENS', 'P50', 'P95'], rows, process.stdout.columns, [0]),
    ...section(
      'Failed',
      failing.map((one) => `${labelOf(one)}  ${one.reason}  ${one.agent_turn_id ?? ''}`),
    ),
    ...section('Variants differ in', found.variants.length > 1 ? differing : []),
    ...(comparison === null
      ? []
      : [
          '',
          plain(
            `Against ${comparison.against}: ${comparison.compared} compared, ${comparison.regressions.length} worse, ${comparison.improvements.length} better, ${comparison.missing.length} missing`,
          ),
          ...section(
            'Worse',
            comparison.regressions.map((one) => `${one.case}  ${one.variant}  ${one.before} → ${one.now}`),
          ),
          ...section(
            'Better',
            comparison.improvements.map((one) => `${one.case}  ${one.variant}  ${one.before} → ${one.now}`),
          ),
          ...section(
            'Only in the earlier run',
            comparison.missing.map((one) => `${one.case}  ${one.variant}`),
          ),
        ]),
  ].join('\n')
}

/**
 * Drives the open runs of a folder's suites: starts turns up to the concurrency, applies the checks when they end, and ends the run. A turn is a
 * batch of one task whose key is (run, place), and its result is taken before the batch exists: a driver that is killed at any moment
 * continues, never starts a turn twice, and a run that is stopped knows each of its turns. Each turn has an agent of its own with an
 * empty memory; the agent that people use stays as it is.
 */
import type { Log } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { EvalCheck, EvalChecked } from '@bellwether/protocol/http'
import type { Kernel } from '../kernel/kernel.js'
import { readBatchTurns, readOpenResults, type BatchTurn, type OpenResult } from '../kernel/reads/evals/results.js'
import { listOpenRuns } from '../kernel/reads/evals/runs.js'
import { readRequestedTurns, type RequestedTurn } from '../kernel/reads/turns.js'
import {
  askToStop,
  endRun,
  markStarted,
  skipStarted,
  storeFinding,
  type StoredCheck,
} from '../kernel/verbs/evals/runs.js'
import { checkTitle, cut, decide, kindOf, outcomeCheck, outputOf, type TurnEnd } from './checks.js'
import { answerOf, judgeFields, judgeInstruction } from './judge.js'
import { caseOf, openEvalTurns, type OpenRun } from './turns.js'

interface CheckRun {
  readonly command: NonNullable<EvalCheck['command']>
  readonly timeoutSeconds: number
  /** What the command reads from stdin. */
  readonly input: string
  readonly signal: AbortSignal | undefined
}

export interface EvalDriverOptions {
  readonly kernel: Pick<Kernel, 'db' | 'ids' | 'fork' | 'makeBox' | 'openPurse' | 'stop'>
  readonly projectId: string
  /** The folder whose suites it drives: `host:path`. */
  readonly origin: string
  readonly log: Log
  /** Whether an accepted file names the command now. */
  readonly isTrusted: (command: NonNullable<EvalCheck['command']>) => boolean
  readonly runCheck: (check: CheckRun) => Promise<{ readonly passed: boolean; readonly reason: string }>
}

export interface EvalDriver {
  /** `quiet`: no run is open. The signal ends running commands; their checks are made again in a later step. */
  step(signal?: AbortSignal): Promise<'quiet' | 'busy'>
}

// The output that the dashboard shows and compares; the card of the turn has the rest.
const outputMax = 20_000
const checkSeconds = 60
// As much of a reason as a person reads.
const reasonMax = 500

export function openEvalDriver(options: EvalDriverOptions): EvalDriver {
  const { kernel, projectId, origin, log } = options
  const { db } = kernel
  const { shareOf, batchOf, fork, taskOf, instructionOf } = openEvalTurns(kernel, projectId)

  async function drive(run: OpenRun, signal: AbortSignal | undefined): Promise<void> {
    const { run_id: runId, definition } = run
    const results = await readOpenResults(db, runId, definition.concurrency)
    const open = results.filter(({ status }) => status !== 'waiting')
    const turns = await turnsOf(open)
    const ended = await all(open, (result) => proceed(run, result, turns, signal))
    const free = definition.concurrency - open.length + ended.filter(Boolean).length
    if (run.status === 'open' && signal?.aborted !== true)
      await start(
        run,
        results.filter(({ status }) => status === 'waiting'),
        free,
      )
    if (await endRun(db, runId)) log.info({ run: runId, suite: run.suite }, 'evaluation ended')
  }

  /** Returns whether the result is done. */
  async function proceed(run: OpenRun, result: OpenResult, turns: Turns, signal: AbortSignal | undefined) {
    if (result.status === 'started' && !turns.has(result.batch_id!)) {
      // The driver was killed before the turn existed.
      if (run.status === 'open') return !(await startTurn(run, result))
      await skipStarted(db, run.run_id, result.place)
      return true
    }
    if (run.status === 'stopping') await stopTurns(run, result, turns)
    return result.status === 'started' ? collect(run, result, turns, signal) : readJudges(run, result, turns)
  }

  /** The turns of the results and of their judges, by batch. */
  async function turnsOf(open: readonly OpenResult[]): Promise<Turns> {
    const batches = open.flatMap(({ status, batch_id: batch, checks }) =>
      status === 'started' ? [batch!] : checks.flatMap(({ batch_id: judge }) => judge ?? []),
    )
    if (batches.length === 0) return new Map()
    const tasks = await readBatchTurns(db, batches)
    const turns = new Map(
      (
        await readRequestedTurns(
          db,
          projectId,
          tasks.map((task) => task.inbox_id),
        )
      ).map((turn) => [turn.inbox_id, turn]),
    )
    return new Map(tasks.map((task) => [task.batch_id, { task, turn: turns.get(task.inbox_id) }]))
  }

  async function stopTurns(run: OpenRun, { batch_id: batch, checks }: OpenResult, turns: Turns): Promise<void> {
    for (const id of [batch, ...checks.map((check) => check.batch_id)]) {
      const turn = turns.get(id ?? '')?.turn
      if (turn === undefined || turn.outcome !== null) continue
      await kernel.stop({
        projectId,
        agentTurnId: turn.agent_turn_id,
        stoppedBy: `evaluation ${run.run_id}`,
        reason: run.reason ?? 'stopped',
      })
    }
  }

  /** Applies the checks to a turn that has ended. Returns whether the result is done. */
  async function collect(
    run: OpenRun,
    result: OpenResult,
    turns: Turns,
    signal: AbortSignal | undefined,
  ): Promise<boolean> {
    const end = endOf(turns.get(result.batch_id!))
    if (end === undefined) return false
    const checks: StoredCheck[] = [outcomeCheck(end)]
    const wanted = checksOf(run, result)
    if (end.outcome === 'success')
      for (const [at, check] of wanted.entries())
        checks.push(decide(check, end) ?? (await startCheck(run, result, { check, at, end, signal })))
    if (signal?.aborted === true) return false
    const output = outputOf(end.content)
    const isDone = await storeFinding(db, run.run_id, {
      place: result.place,
      from: 'started',
      checks,
      judgeCostMicros: 0,
      turn: {
        agentTurnId: end.agentTurnId,
        outcome: end.outcome,
        error: end.error,
        output: cut(output, outputMax),
        outputTruncated: output.length > outputMax,
        tokens: end.tokens,
        costMicros: end.costMicros,
        durationMs: end.durationMs,
      },
    })
    if (end.reachedShare && run.definition.max_cost_usd !== undefined)
      await askToStop(db, run.run_id, limitReached(run.definition.max_cost_usd))
    return isDone
  }

  /** Runs the command of a check, or asks its judge. */
  async function startCheck(run: OpenRun, result: OpenResult, open: OpenCheck): Promise<StoredCheck> {
    const { check, at, end, signal } = open
    const kind = kindOf(check)
    const found = { check: checkTitle(check), kind, agent_turn_id: null }
    const instruction = await instructionOf(run, result)
    if (check.command !== undefined)
      return {
        ...found,
        ...(await runCommandCheck(run, result, { check, command: check.command, end, instruction, signal })),
      }
    const { agent, question } = check.judge!
    // What the turn left of its share pays for its judges.
    const judges = checksOf(run, result).filter(({ judge }) => judge !== undefined).length
    const share = result.share_micros === null ? undefined : Math.floor((result.share_micros - end.costMicros) / judges)
    if (share !== undefined && share < 1)
      return { ...found, passed: false, reason: 'the cost limit of the run leaves nothing for the judge' }
    const task = {
      instruction: judgeInstruction(question, instruction, outputOf(end.content)),
      resultFields: judgeFields,
    }
    const batchId = await fork(run, agent, { key: `${result.place}:judge:${at}`, task, share })
    return { ...found, passed: null, reason: `asked agent ${agent}`, batch_id: batchId }
  }

  async function runCommandCheck(
    run: OpenRun,
    result: OpenResult,
    {
      check,
      command,
      end,
      instruction,
      signal,
    }: Omit<OpenCheck, 'at'> & {
      readonly command: NonNullable<EvalCheck['command']>
      readonly instruction: string | null
    },
  ): Promise<Pick<EvalChecked, 'passed' | 'reason'>> {
    if (!options.isTrusted(command))
      return {
        passed: false,
        reason: 'the command was not run: the file of the suite changed, and no accepted file names it now',
      }
    const { name } = caseOf(run, result)
    const input = JSON.stringify({
      case: name,
      variant: run.definition.variants[result.variant_no]!.name,
      instruction,
      output: outputOf(end.content),
      deliverable: end.content,
    })
    const timeoutSeconds = check.timeout_seconds ?? checkSeconds
    const { passed, reason } = await options.runCheck({ command, timeoutSeconds, input, signal })
    return { passed, reason: cut(reason, reasonMax) }
  }

  /** Returns whether all judges have answered. */
  async function readJudges(run: OpenRun, result: OpenResult, turns: Turns): Promise<boolean> {
    let cost = result.judge_cost_micros
    let changed = false
    const checks = result.checks.map((check): StoredCheck => {
      const { batch_id: batch, ...rest } = check
      const end = batch === undefined ? undefined : endOf(turns.get(batch))
      if (end === undefined) return check
      changed = true
      cost += end.costMicros
      const read =
        end.outcome === 'success'
          ? answerOf(end.content)
          : {
              passed: false,
              reason: `the judge did not answer: its turn ended as ${end.outcome}${end.error === null ? '' : `: ${end.error}`}`,
            }
      return { ...rest, ...read, agent_turn_id: end.agentTurnId }
    })
    if (!changed) return false
    return storeFinding(db, run.run_id, { place: result.place, from: 'judging', checks, judgeCostMicros: cost })
  }

  async function start(run: OpenRun, waiting: readonly OpenResult[], free: number): Promise<void> {
    const { definition, run_id: runId } = run
    if (waiting.length === 0 || free <= 0) return
    const limit = definition.max_cost_usd
    for (const [nth, result] of waiting.slice(0, free).entries()) {
      const share = limit === undefined ? undefined : await shareOf(run, limit, free - nth)
      if (share !== undefined && share < 1) {
        // The turns that run may leave some of their shares.
        if (free - nth === definition.concurrency) await askToStop(db, runId, limitReached(limit!))
        return
      }
      const place = { place: result.place, batchId: batchOf(run, String(result.place)), shareMicros: share ?? null }
      // The run was stopped.
      if (!(await markStarted(db, runId, place))) return
      await startTurn(run, { ...result, share_micros: place.shareMicros })
    }
  }

  /** Repeating it changes nothing. False: the turn cannot be started, and the result has failed. */
  async function startTurn(run: OpenRun, result: OpenResult): Promise<boolean> {
    try {
      const task = await taskOf(run, result)
      const agent = run.definition.variants[result.variant_no]!.runs
      await fork(run, agent, { key: String(result.place), task, share: result.share_micros ?? undefined })
      return true
    } catch (error) {
      // The recorded turn was removed, or the input cannot be stored: this result fails, the others go on.
      if (!(error instanceof InvalidInput)) throw error
      const turn = { ...notStarted, error: error.code, output: null, outputTruncated: false }
      const check = outcomeCheck({ outcome: 'failed', error: error.code })
      await storeFinding(db, run.run_id, {
        place: result.place,
        from: 'started',
        checks: [{ ...check, reason: cut(error.message, reasonMax) }],
        judgeCostMicros: 0,
        turn,
      })
      return false
    }
  }

  return {
    async step(signal) {
      const runs = await listOpenRuns(db, projectId, origin)
      await all(runs, (run) => drive(run, signal))
      return runs.length > 0 ? 'busy' : 'quiet'
    },
  }
}

type Turns = ReadonlyMap<string, EndedTurn>

/** All at once. If some fail, the others still run to their end, and then the first error is thrown. */
async function all<One, Result>(items: readonly One[], act: (one: One) => Promise<Result>): Promise<Result[]> {
  const settled = await Promise.allSettled(items.map(act))
  return settled.map((one) => {
    if (one.status === 'rejected') throw one.reason
    return one.value
  })
}

/** A check that a command or a judge decides. */
interface OpenCheck {
  readonly check: EvalCheck
  /** Its index among the checks of the case. */
  readonly at: number
  readonly end: TurnEnd
  readonly signal: AbortSignal | undefined
}

interface EndedTurn {
  readonly task: BatchTurn
  readonly turn: RequestedTurn | undefined
}

interface CollectedEnd extends TurnEnd {
  readonly agentTurnId: string | null
  /** Whether its share of the run's cost limit ended it, not a limit of its agent file. */
  readonly reachedShare: boolean
}

const notStarted = { agentTurnId: null, outcome: 'failed', costMicros: 0, tokens: 0, durationMs: null } as const

/** Undefined: it has not ended. */
function endOf(found: EndedTurn | undefined): CollectedEnd | undefined {
  if (found === undefined) return undefined
  const { task, turn } = found
  if (turn === undefined)
    return task.status === 'failed'
      ? { ...notStarted, error: task.error, content: null, reachedShare: false }
      : undefined
  if (turn.outcome === null) return undefined
  return {
    agentTurnId: turn.agent_turn_id,
    reachedShare: turn.exceeded_keys.includes('cost_micros') && !turn.agent_limits.includes('cost_micros'),
    outcome: turn.outcome,
    error: turn.error,
    content: turn.deliverable,
    costMicros: turn.cost_micros,
    tokens: turn.token_usage,
    durationMs: turn.elapsed_ms,
  }
}

const checksOf = (run: OpenRun, result: OpenResult) => [...run.definition.checks, ...caseOf(run, result).checks]
const limitReached = (usd: number) => `the cost limit of $${usd} covers no further turn`

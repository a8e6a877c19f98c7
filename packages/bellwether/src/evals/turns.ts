/**
 * Starts the turns of evaluation runs: a batch of one task per result or judge, with its input and its share of the cost limit. The key of the batch is
 * (run, place), so repeating a start returns the first one, and its id is known before it exists.
 */
import { defined } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { EvalDefinedCase } from '@bellwether/protocol/http'
import type { Kernel } from '../kernel/kernel.js'
import { readEvalAgents, readOpenResults, readTurnInput, type OpenResult } from '../kernel/reads/evals/results.js'
import { readRunCost, type listOpenRuns, type RunRow } from '../kernel/reads/evals/runs.js'
import { batchIdOfKey, type NewTask } from '../kernel/verbs/batches/fork.js'
import { outputOf } from './checks.js'

export type OpenRun = Awaited<ReturnType<typeof listOpenRuns>>[number]

export const caseOf = ({ definition }: Pick<RunRow, 'definition'>, result: OpenResult): EvalDefinedCase =>
  definition.cases[result.case_no]!

/** The instruction in the definition of a case; null if it has none, or a recorded turn has it. */
export function ownInstruction({ instruction, cards }: EvalDefinedCase): string | null {
  const last = cards?.findLast(({ type }) => type === 'task.instruction')
  return instruction ?? (last === undefined ? null : outputOf(last.content))
}

const keyOf = ({ run_id: runId }: OpenRun, key: string) => `eval:${runId}:${key}`

export function openEvalTurns(kernel: Pick<Kernel, 'db' | 'fork' | 'makeBox' | 'openPurse'>, projectId: string) {
  const { db } = kernel

  /** An equal part of what is neither spent nor set aside. */
  async function shareOf(run: OpenRun, limitUsd: number, slots: number): Promise<number> {
    const open = await readOpenResults(db, run.run_id, 0)
    const reserved = open.reduce(
      (sum, one) => sum + Math.max(0, (one.share_micros ?? 0) - one.cost_micros - one.judge_cost_micros),
      0,
    )
    const left = Math.floor(limitUsd * 1e6) - (await readRunCost(db, run.run_id)) - reserved
    return Math.floor(left / slots)
  }

  async function fork(
    run: OpenRun,
    agent: string,
    {
      key,
      task,
      share,
    }: {
      readonly key: string
      readonly task: Omit<NewTask, 'targetStrategy' | 'targetRef'>
      readonly share: number | undefined
    },
  ): Promise<string> {
    const { definition, run_id: runId } = run
    const purseId = share === undefined ? undefined : `eval-${runId}`
    if (purseId !== undefined)
      await kernel.openPurse({ projectId, budgetId: purseId, costMicros: Math.floor(definition.max_cost_usd! * 1e6) })
    const [found] = await readEvalAgents(db, projectId, [agent])
    const { batchId } = await kernel.fork({
      projectId,
      key: keyOf(run, key),
      deadlineSeconds: definition.turn_seconds,
      tasks: [
        {
          // A function without a profile is copied from its agent.
          targetStrategy: found?.has_profile === false ? 'clone' : 'new',
          targetRef: agent,
          ...task,
          ...defined({ budget: share === undefined ? undefined : { costMicros: share } }),
        },
      ],
      ...defined({ purseId }),
    })
    return batchId
  }

  /** The input of a case as the task of a turn. Throws InvalidInput. */
  async function taskOf(
    run: OpenRun,
    result: OpenResult,
  ): Promise<Pick<NewTask, 'instruction' | 'contextBoxId' | 'resultFields'>> {
    const { instruction, turn, cards } = caseOf(run, result)
    const fields = defined({ resultFields: run.definition.result_fields })
    if (instruction !== undefined) return { instruction, ...fields }
    if (cards !== undefined) return { contextBoxId: await kernel.makeBox({ projectId, cards }), ...fields }
    const contextBoxId = (await readTurnInput(db, projectId, turn!))?.context_box_id ?? undefined
    if (contextBoxId !== undefined) return { contextBoxId, ...fields }
    throw new InvalidInput(`Cannot take the input of turn ${turn!}: it was removed`, {
      code: 'unknown_turn',
      hint: 'use trail = with an exported turn',
    })
  }

  /** The instruction of a case for commands and judges. Null: it has none, or the recorded turn was removed since. */
  async function instructionOf(run: OpenRun, result: OpenResult): Promise<string | null> {
    const one = caseOf(run, result)
    if (one.turn === undefined) return ownInstruction(one)
    return (await readTurnInput(db, projectId, one.turn))?.instruction ?? null
  }

  const batchOf = (run: OpenRun, key: string) => batchIdOfKey(projectId, keyOf(run, key))

  return { shareOf, batchOf, fork, taskOf, instructionOf }
}

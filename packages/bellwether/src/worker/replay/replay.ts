/**
 * Replays an ended turn from its trail: makes its decisions again without a model, a tool, a program or a person, and compares each step and
 * the deliverable with what was recorded. Pure: the same trail gives the same report on every machine.
 */
import { canonicalJson, objectOf } from '@bellwether/base'
import { budgetExceeded, type BudgetKey } from '@bellwether/protocol'
import type { Difference, ReplayReport, Trail } from '@bellwether/protocol/http'
import { overBudget } from '../budget-watch.js'
import { storedResult, type Delivered } from '../executors/stored-result.js'
import { terminated } from '../run-turn.js'
import { incomplete, wantedFields } from '../submit-result.js'
import { differenceOf, sha256 } from './compare.js'
import { fallbackOf } from './fallback.js'
import { replayModel, type Replayed } from './replay-model.js'
import { replayPerson } from './replay-person.js'
import { asCard, executorOf, pointsOf, workOf, type TrailExecutor } from './trail-cards.js'
import { resultsOf } from './trail-results.js'

const compared: Readonly<Record<TrailExecutor, string>> = {
  model:
    'every decision between the recorded answers of the model and the recorded results of its tools, and the deliverable',
  command: 'the deliverable with the stored result of the program; the program itself was not run',
  person: 'who was asked, why again, how the answer was read, and the deliverable',
  action: 'the deliverable with the result of the tool that a person called',
  function:
    'the outcome, the required fields and the form of the deliverable; a function cannot be run again, because its code is not part of the trail',
  none: 'the deliverable with the record of who cancelled the turn; the turn never started',
}

export function replay(trail: Trail): ReplayReport {
  const executor = executorOf(trail)
  const cards = workOf(trail)
  const [start, ...points] = pointsOf(executor, cards)
  const recorded = trail.cards.find(({ card_id: id }) => id === trail.turn.deliverable_card_id)
  const run = replayedBy(executor, trail, cards, recorded?.content)
  // An agent without an output box ends its turns without a deliverable.
  const hasDeliverable = recorded !== undefined || trail.turn.deliverable_card_id !== null
  const replayed =
    run.difference === undefined && hasDeliverable ? deliverableOf(trail, executor, run, recorded?.content) : undefined
  const difference = run.difference ?? replayed?.difference ?? recordOf(trail, recorded)
  const reached = difference === undefined || difference.step === null ? Infinity : difference.step
  return {
    agent_turn_id: trail.turn.agent_turn_id,
    result: difference === undefined ? 'exact' : 'differs',
    executor,
    rerun: executor !== 'function',
    compared: compared[executor],
    steps: points.map(({ step, title }) => ({
      step,
      title,
      result: step < reached ? 'same' : step === reached ? 'differs' : 'not_reached',
    })),
    first_step: start.step,
    difference: difference ?? null,
    deliverable: {
      recorded_sha256: recorded === undefined ? null : sha256(recorded.content),
      replayed_sha256: replayed === undefined ? null : sha256(replayed.content),
    },
  }
}

function replayedBy(
  executor: TrailExecutor,
  trail: Trail,
  cards: ReturnType<typeof workOf>,
  deliverable: unknown,
): Replayed {
  if (executor === 'model') return replayModel(trail, cards)
  if (executor === 'person') return replayPerson(trail, cards, deliverable)
  if (executor === 'none') return { endings: [] }
  const results = resultsOf(trail, cards)
  const isEnding = executor === 'action' || results.some(({ after_execution: after }) => after === 'terminate')
  if (results.length > 0 && isEnding) return { endings: [terminated(results)] }
  const result = executor === 'command' ? storedResult(cards) : undefined
  return { endings: result === undefined ? [] : [result] }
}

/** What the kernel stored as the deliverable, made again from the ending. */
function deliverableOf(
  trail: Trail,
  executor: TrailExecutor,
  { endings }: Replayed,
  recorded: unknown,
): { readonly content: unknown; readonly difference?: Difference | undefined } {
  const { turn } = trail
  const { fallback, ...content } = objectOf(recorded)
  if (turn.outcome === 'success') {
    // Only the code of a function, which the trail does not have, may end a turn without a trace.
    if (endings.length === 0 && executor !== 'function')
      return { content: null, difference: differenceOf(null, 'the ending', recorded, null) }
    const replayed = endings[0]?.deliver ?? recorded
    return { content: replayed, difference: differenceOf(null, 'the deliverable', recorded, replayed) }
  }
  // Something outside the worker ended the turn: a person, a watchdog, the turn's parent.
  const endedBy = objectOf(fallback)['ended_by']
  if (endedBy !== 'worker') {
    const replayed = fallbackOf(trail, recorded, undefined)
    return { content: replayed, difference: differenceOf(null, 'the deliverable', recorded, replayed) }
  }
  // A function may say in its own words why it ended.
  const own = executor === 'function' ? [content] : []
  const candidates = [...endingsOf(trail, endings, fallback).map(({ deliver }) => deliver), ...own]
  const delivered = candidates.find((one) => canonicalJson(one) === canonicalJson(content)) ?? candidates[0] ?? content
  const replayed = fallbackOf(trail, recorded, delivered)
  return { content: replayed, difference: differenceOf(null, 'the deliverable', recorded, replayed) }
}

/** What the worker may have delivered after the kernel or the budget rejected the ending. */
function endingsOf(trail: Trail, endings: readonly Delivered[], fallback: unknown): readonly Delivered[] {
  const { error } = trail.turn
  const keys = objectOf(fallback)['exceeded_keys']
  // Without a key, a spending limit ended the turn: it is not part of the trail.
  if (error === budgetExceeded && Array.isArray(keys) && keys.length > 0)
    return [...endings, ...[...endings, undefined].map((one) => overBudget(keys as BudgetKey[], one))]
  if (error === 'missing_result_fields') {
    const values = objectOf(endings[0]?.deliver)['fields']
    const named = new Map(
      Array.isArray(values) ? values.map((one) => [objectOf(one)['name'], objectOf(one)['value']]) : [],
    )
    const wanted = wantedFields(trail.context.map(asCard)).filter(({ required }) => required === true)
    return [incomplete(wanted.filter(({ name }) => (named.get(name) ?? null) === null).map(({ name }) => name))]
  }
  return endings
}

/** The card of the deliverable names its turn, agent and outcome. */
function recordOf({ turn }: Trail, recorded: Trail['cards'][number] | undefined): Difference | undefined {
  if (recorded === undefined) return turn.deliverable_card_id === null ? undefined : missing(turn.deliverable_card_id)
  const { agent_id: agentId, agent_turn_id: agentTurnId, outcome } = turn
  const expected = {
    agent_id: agentId,
    agent_turn_id: agentTurnId,
    status: outcome,
    ...(outcome === 'success' ? {} : { kind: 'fallback' }),
  }
  return differenceOf(null, 'the record of the deliverable', recorded.metadata, expected)
}

const missing = (cardId: string) => differenceOf(null, 'the deliverable', null, { card_id: cardId })

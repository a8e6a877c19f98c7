/** Replays the turn of a person from its cards: who is asked next, what is asked again and how the turn ends is decided again. Pure. */
import { objectOf } from '@bellwether/base'
import type { Trail } from '@bellwether/protocol/http'
import type { Card } from '../../kernel/verbs/cards.js'
import { asksOf, type Ask } from '../executors/person/asks.js'
import { decide, fallbackTool, type Situation } from '../executors/person/decide.js'
import { wantedFields } from '../submit-result.js'
import { differenceOf } from './compare.js'
import type { Replayed } from './replay-model.js'
import { asCard } from './trail-cards.js'
import { resultsOf } from './trail-results.js'

const distantFuture = new Date(8.64e15)

export function replayPerson(trail: Trail, cards: readonly Card[], deliverable: unknown): Replayed {
  // An agent without an output box has only the results.
  const asks = asksOf(cards, resultsOf(trail, [...cards, ...trail.compacted.map(asCard)]))
  const fallback = asks.find(({ toolName }) => toolName === fallbackTool)
  const hasCard = ({ args }: Ask) => Object.keys(args).length > 0
  const people = [
    ...new Set(asks.filter((ask) => ask !== fallback && hasCard(ask)).map(({ args }) => String(args['to']))),
  ]
  // The cards say how long each person had.
  const seconds = asks.map(({ args }) => args['answer_within_seconds']).find((one) => typeof one === 'number')
  const spec: Situation['spec'] = {
    instructions: '',
    people,
    answer_within_seconds: seconds,
    fallback: fallback === undefined ? 'fail' : `agent ${String(fallback.args['agent'])}`,
  }
  const wanted = wantedFields(trail.context.map(asCard))
  const decideAfter = (known: readonly Ask[], deadline = distantFuture) =>
    decide({
      spec,
      asks: known,
      wanted,
      turnDeadline: deadline,
      knownAt: deadline === distantFuture ? undefined : deadline,
    })
  for (const [index, ask] of asks.entries()) {
    if (!hasCard(ask)) continue
    const next = decideAfter(asks.slice(0, index))
    const recorded =
      ask.toolName === fallbackTool
        ? { what: 'fallback', agent: ask.args['agent'] }
        : { what: 'ask', to: ask.args['to'], refused: ask.args['refused'] }
    const replayed =
      next.what === 'ask'
        ? { what: next.what, to: next.to, refused: next.refused }
        : { what: next.what, agent: 'agent' in next ? next.agent : undefined }
    const difference = differenceOf(index + 1, 'who is asked', recorded, replayed)
    if (difference !== undefined) return { endings: [], difference }
  }
  // The turn ended while it waited for the last answer.
  if (asks.at(-1)?.answer === undefined) return { endings: [] }
  const endings = [decideAfter(asks), decideAfter(asks, new Date(0))].flatMap((next) =>
    next.what === 'end' ? [next.action] : [],
  )
  const text = objectOf(deliverable)['text']
  const isOutOfTime = typeof text === 'string' && text.includes('The turn had no time left')
  return { endings: isOutOfTime ? endings.slice(-1) : endings.slice(0, 1) }
}

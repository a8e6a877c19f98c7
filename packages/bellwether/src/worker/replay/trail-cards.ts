/** Reads the cards of a trail: which executor wrote them, and after which of them a turn can be forked. Pure. */
import { objectOf } from '@bellwether/base'
import { plural } from '@bellwether/protocol'
import type { Trail, TrailCard } from '@bellwether/protocol/http'
import { accountHold, askPerson } from '../../kernel/pmo-tools.js'
import type { Card } from '../../kernel/verbs/cards.js'
import { textOf } from '../card-text.js'
import { readTranscript, stepMark, summaryMark, type StepNote } from '../executors/model/transcript.js'
import { resultMark } from '../executors/stored-result.js'

export type TrailExecutor = 'model' | 'command' | 'person' | 'function' | 'action' | 'none'

export const asCard = (card: TrailCard): Card => ({ ...card, created_at: new Date(card.created_at) })

/** The cards that the agent wrote or received: without the deliverable and without waits for a held account. */
export function workOf({ cards, turn }: Pick<Trail, 'cards' | 'turn'>): Card[] {
  return cards.filter((card) => card.card_id !== turn.deliverable_card_id && toolOf(card) !== accountHold).map(asCard)
}

const toolOf = ({ content }: Pick<Card, 'content'>) => objectOf(content)['tool_name']
const callOf = ({ content }: Pick<Card, 'content'>) => objectOf(content)['tool_call_id']
export const isMessage = (card: Card) => card.type === 'task.instruction' && card.metadata['message'] !== undefined
const isCall = ({ type }: Card) => type === 'tool.call'

export function executorOf(trail: Trail): TrailExecutor {
  if (trail.turn.started_at === null) return 'none'
  if (trail.turn.message_type === 'ui_action') return 'action'
  const marked = (mark: string) => trail.cards.some(({ metadata }) => metadata[mark] !== undefined)
  const phases = new Set(trail.steps.map(({ phase }) => phase))
  if (marked(stepMark) || marked(summaryMark) || phases.has('model')) return 'model'
  if (marked(resultMark) || phases.has('command')) return 'command'
  const asksPeople = trail.waits.some(
    ({ tool_name: tool, tool_call_id: id }) => tool === askPerson && id === `ask-1-${trail.turn.agent_turn_id}`,
  )
  return asksPeople ? 'person' : 'function'
}

/** A place at which the turn decided: after `step` steps, with the first `end` cards of `workOf`. */
export interface ForkPoint {
  readonly step: number
  readonly end: number
  readonly title: string
}

/** In order; the first is the beginning, or the place after the last compaction. */
export function pointsOf(executor: TrailExecutor, cards: readonly Card[]): readonly [ForkPoint, ...ForkPoint[]] {
  if (executor === 'model') return modelPoints(cards)
  const start = { step: 0, end: 0, title: 'start' }
  if (executor === 'command') {
    const result = cards.findLastIndex(({ metadata }) => metadata[resultMark] !== undefined)
    return result < 0 ? [start] : [start, { step: 1, end: result + 1, title: 'run of the program' }]
  }
  return [start, ...waitPoints(cards)]
}

function modelPoints(cards: readonly Card[]): readonly [ForkPoint, ...ForkPoint[]] {
  const base = cards.findLastIndex(({ metadata }) => metadata[summaryMark] !== undefined) + 1
  const first = readTranscript({ output: cards.slice(0, base), memory: [] }).last
  const starts = cards.flatMap((card, index) => (index >= base && noteOf(card) !== undefined ? [index] : []))
  const points = starts.map((from, nth) => {
    const next = starts[nth + 1] ?? cards.length
    let end = next
    // A message that arrived after the step belongs to the next decision.
    while (end > from + 1 && isMessage(cards[end - 1]!)) end -= 1
    const note = noteOf(cards[from]!)!
    const calls = note.calls.map(({ name }) => name).join(', ')
    const title = calls === '' ? textOf(cards[from]!.content).trim().slice(0, 80) : `calls ${calls}`
    return { step: note.step, end, title: title === '' ? 'empty answer' : title }
  })
  return [{ step: first, end: base, title: base === 0 ? 'start' : `summary of ${plural(first, 'step')}` }, ...points]
}

const noteOf = (card: Card) =>
  card.type === 'agent.thought' ? (card.metadata[stepMark] as StepNote | undefined) : undefined

/** One point per group of calls that the turn waited for, after the last of their results. */
function waitPoints(cards: readonly Card[]): ForkPoint[] {
  const groups: { readonly step: unknown; readonly calls: Set<unknown>; end: number; readonly names: string[] }[] = []
  for (const [index, card] of cards.entries()) {
    const last = groups.at(-1)
    if (isCall(card)) {
      const step = card.metadata['step_id']
      if (last !== undefined && last.step === step) {
        last.calls.add(callOf(card))
        last.names.push(String(toolOf(card)))
        last.end = index + 1
      } else groups.push({ step, calls: new Set([callOf(card)]), end: index + 1, names: [String(toolOf(card))] })
    } else if (card.type === 'tool.result') {
      const group = groups.find(({ calls }) => calls.has(callOf(card)))
      if (group !== undefined) group.end = index + 1
    }
  }
  return groups.map(({ end, names }, index) => ({ step: index + 1, end, title: `calls ${names.join(', ')}` }))
}

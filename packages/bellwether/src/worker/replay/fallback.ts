/**
 * Builds the content of a fallback from a trail, as `state.fallback` builds it from the tables (kernel/verbs/internal/fallback.sql). What came
 * from outside the turn is taken as recorded: who ended it, why, and which limits it exceeded. Pure.
 */
import { defined, objectOf } from '@bellwether/base'
import type { Trail } from '@bellwether/protocol/http'
import type { Card } from '../../kernel/verbs/cards.js'
import { asCard } from './trail-cards.js'

// The bounds of fallback.sql.
const textChars = 8_000
const resultsMax = 10
const resultChars = 1_000
const cardsMax = 200
const reasonChars = 2_000

/** `content`: what the worker delivered; undefined if it delivered nothing. */
export function fallbackOf(trail: Trail, recorded: unknown, content: object | undefined): object {
  const { turn } = trail
  const { ended_by: endedBy, reason: outside, exceeded_keys: exceeded } = objectOf(objectOf(recorded)['fallback'])
  const delivered = objectOf(content)['text']
  const error = turn.error
  const isWorkers = content !== undefined && exceeded === undefined
  const reason = isWorkers
    ? left(typeof delivered === 'string' ? delivered : (error ?? turn.outcome), reasonChars)
    : outside
  const started = turn.started_at !== null
  const { cards, lastText, truncated: isCut } = started ? workIn(trail) : nothing
  const { received, results } = started ? receiptsIn(trail) : { received: 0, results: [] }
  const opening = endedBy === 'watchdog' ? `The watchdog ended this turn (${error}): ` : openingOf(started, endedBy)
  const tools = results.map((one) => `${plainOf(one.tool_name)} (${plainOf(one.status)})`).join(', ')
  const text = [
    `${opening}${String(reason)}`,
    ...(lastText === null ? [] : [`The work so far:\n\n${lastText}`]),
    ...(results.length === 0 ? [] : [`Tool results: ${tools}`]),
  ].join('\n\n')
  return {
    ...(content ?? { text, status: turn.outcome, error }),
    fallback: {
      code: error ?? turn.outcome,
      ended_by: endedBy,
      reason,
      started,
      cards,
      last_text: typeof delivered === 'string' && lastText === right(delivered, textChars) ? null : lastText,
      tool_results: results,
      tool_results_received: received,
      truncated: isCut || received > resultsMax,
      output_box_id: turn.output_box_id,
      ...defined({ exceeded_keys: exceeded }),
    },
  }
}

/** As `->>` of PostgreSQL prints a value. */
const plainOf = (value: unknown) => (typeof value === 'string' ? value : databaseJson(value))

const openingOf = (started: boolean, by: unknown) =>
  started ? `Stopped by ${String(by)}: ` : `Cancelled before it started, by ${String(by)}: `

const nothing = { cards: 0, lastText: null, truncated: false } as const

function workIn({ cards, turn }: Trail) {
  const written = cards.filter((card) => card.card_id !== turn.deliverable_card_id).slice(-cardsMax)
  const texts = written.filter(({ type }) => type === 'agent.thought').map(({ content }) => wordsOf(content))
  const last = texts.findLast((text) => /\S/.test(text))
  return {
    cards: written.length,
    lastText: last === undefined ? null : right(last, textChars),
    truncated: written.length === cardsMax,
  }
}

function wordsOf(content: unknown): string {
  const { text } = objectOf(content)
  if (typeof text === 'string') return text
  return text === undefined || text === null ? databaseJson(content) : databaseJson(text)
}

function receiptsIn({ cards, compacted, receipts }: Trail) {
  const byId = new Map([...cards, ...compacted].map((card) => [card.card_id, card]))
  const found = receipts.flatMap((id) => byId.get(id) ?? [])
  return { received: found.length, results: found.slice(-resultsMax).map((card) => resultOf(asCard(card))) }
}

function resultOf({ card_id: cardId, content }: Card) {
  const { tool_call_id: id, tool_name: name, status, error, result } = objectOf(content)
  const words = result === undefined ? undefined : databaseJson(result)
  const isLong = words !== undefined && Array.from(words).length > resultChars
  const code = objectOf(error)['code']
  return {
    tool_call_id: id,
    tool_name: name ?? null,
    status: status ?? null,
    card_id: cardId,
    error: code === undefined || code === null ? null : typeof code === 'string' ? code : databaseJson(code),
    result: isLong ? left(words, resultChars) : (result ?? null),
    truncated: isLong,
  }
}

/** JSON as PostgreSQL prints jsonb: a space after each colon and comma. */
function databaseJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(databaseJson).join(', ')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  const fields = Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}: ${databaseJson(one)}`)
  return `{${fields.join(', ')}}`
}

// PostgreSQL counts characters, not UTF-16 units.
const left = (text: string, chars: number) => Array.from(text).slice(0, chars).join('')
const right = (text: string, chars: number) => Array.from(text).slice(-chars).join('')

/**
 * The timeline of a turn: inbox → steps → tools → deliverable, with watchdog interventions in between. Pure. Ordered
 * by time; entries with the same time are ordered by cause.
 */
import { groupBy, objectOf } from '@bellwether/base'
import { dollars, reasonInWords } from '@bellwether/protocol/spending'
import type { Card, Step, TurnBudget, TurnDetail, TurnIntervention, Wait } from '../api/types.js'
import { compact, workingTime, type BudgetUse } from './board.js'
import { bytes, oneLine, plural } from './text.js'
import { msOf } from './time.js'

export type Moment =
  | { readonly what: 'inbox'; readonly at: string; readonly id: string }
  | { readonly what: 'start'; readonly at: string; readonly id: string; readonly by: string | null }
  | { readonly what: 'card'; readonly at: string; readonly id: string; readonly card: Card }
  | {
      readonly what: 'step'
      readonly at: string
      readonly id: string
      readonly step: Step
      readonly waits: readonly Wait[]
    }
  | { readonly what: 'watchdog'; readonly at: string; readonly id: string; readonly intervention: TurnIntervention }
  | { readonly what: 'end'; readonly at: string; readonly id: string }

const rank: Readonly<Record<Moment['what'], number>> = { inbox: 0, card: 1, start: 2, step: 3, watchdog: 4, end: 5 }
// Cards that are shown elsewhere: calls and results with their step, the deliverable at the end.
const elsewhere = new Set(['tool.call', 'tool.result', 'task.deliverable', 'sys.profile', 'meta.parent_pointer'])

type Trail = Pick<
  TurnDetail,
  | 'created_at'
  | 'started_at'
  | 'ended_at'
  | 'claimed_by'
  | 'steps'
  | 'waits'
  | 'interventions'
  | 'context_cards'
  | 'cards'
>

export function timeline(turn: Trail): Moment[] {
  const waitsOf = groupBy(turn.waits, (wait) => wait.step_id)
  const known = new Set(turn.steps.map((step) => step.step_id))
  const orphans = [...waitsOf].filter(([id]) => !known.has(id))
  const moments: Moment[] = [
    { what: 'inbox', at: turn.created_at, id: 'inbox' },
    ...(turn.started_at === null
      ? []
      : [{ what: 'start' as const, at: turn.started_at, id: 'start', by: turn.claimed_by }]),
    ...[...turn.context_cards, ...turn.cards]
      .filter((card) => !elsewhere.has(card.type))
      .map((card) => ({ what: 'card' as const, at: card.created_at, id: card.card_id, card })),
    ...turn.steps.map((step) => ({
      what: 'step' as const,
      at: step.started_at,
      id: step.step_id,
      step,
      waits: waitsOf.get(step.step_id) ?? [],
    })),
    ...orphans.map(([id, waits]) => ({
      what: 'step' as const,
      at: waits[0]!.created_at,
      id,
      step: unrecorded(id, waits),
      waits,
    })),
    ...turn.interventions.map((intervention) => ({
      what: 'watchdog' as const,
      at: intervention.created_at,
      id: `watchdog-${intervention.intervention_id}`,
      intervention,
    })),
    ...(turn.ended_at === null ? [] : [{ what: 'end' as const, at: turn.ended_at, id: 'end' }]),
  ]
  return moments.sort((one, other) => place(one) - place(other) || rank[one.what] - rank[other.what])
}

// The inbox row comes first, whatever the clock says: its context box is written in the same transaction.
function place(moment: Moment): number {
  if (moment.what === 'inbox') return Number.NEGATIVE_INFINITY
  if (moment.what === 'end') return Number.POSITIVE_INFINITY
  return msOf(moment.at) ?? 0
}

function unrecorded(id: string, waits: readonly Wait[]): Step {
  const [first] = waits
  return {
    step_id: id,
    agent_turn_id: first?.agent_turn_id ?? '',
    phase: 'tools',
    status: first?.wait_status ?? 'waiting',
    tool_call_ids: waits.map((wait) => wait.tool_call_id),
    metadata: {},
    error: null,
    started_at: first?.created_at ?? '',
    ended_at: null,
  }
}

/** Who requested the turn: another agent, or a person with an action, whose card names the tool and the API key. */
export function originOf(turn: Pick<TurnDetail, 'message_type' | 'source_agent_id' | 'cards'>): string {
  const { message_type: type, source_agent_id: agent } = turn
  if (type === 'ui_action') {
    const call = turn.cards.find((card) => card.type === 'tool.call')?.content
    const { tool_name: tool, requested_by: person } = (call ?? {}) as Readonly<Record<string, unknown>>
    const name = typeof tool === 'string' ? ` calls ${oneLine(tool, 80)}` : ''
    return `An action of a person${name}${typeof person === 'string' ? `, requested by ${oneLine(person, 80)}` : ''}`
  }
  return agent === null || agent === undefined ? 'Added to the inbox' : `Added to the inbox by ${oneLine(agent, 80)}`
}

/** Why a turn did not succeed: the first sentence of its fallback, else its error in words. */
export function whyOf({ error, deliverable }: Pick<TurnDetail, 'error' | 'deliverable'>): string | null {
  if (error === null) return null
  const content = (deliverable?.fallback ?? null) === null ? undefined : deliverable?.content
  const text = objectOf(content)['text']
  const [line = ''] = typeof text === 'string' ? text.trim().split('\n') : []
  return line === '' ? reasonInWords(error) : line
}

/** The named fields of a deliverable in order; empty if it has another form. */
export function fieldsIn(content: unknown): { readonly name: string; readonly value: unknown }[] {
  const list = objectOf(content)['fields']
  if (!Array.isArray(list)) return []
  return list.map(objectOf).flatMap(({ name, value = null }) => (typeof name === 'string' ? [{ name, value }] : []))
}

/** The tokens that a step reported. */
export function tokensOf({ metadata }: Step): number {
  const usage = (metadata['usage'] ?? {}) as Record<string, unknown>
  return number(usage['total_tokens']) || number(usage['input_tokens']) + number(usage['output_tokens'])
}

const number = (value: unknown) => (typeof value === 'number' && Number.isFinite(value) && value > 0 ? value : 0)

/** The use of the nearest limit of a turn's budget; null if it has none. */
export function nearestOf(budget: TurnBudget | null): BudgetUse | null {
  if (budget === null || budget.nearest === null) return null
  const { nearest, fraction } = budget
  const { used, limit } = budget[nearest]
  const format = { tokens: compact, cost_micros: dollars, wall_ms: workingTime }[nearest]
  return { part: fraction, label: `${format(used)} of ${format(limit ?? 0)}${nearest === 'tokens' ? ' tokens' : ''}` }
}

/** What the turn knew at its start: the cards that its caller gave, and those of earlier turns. */
export function contextText({
  context_size: size,
  session_id: session,
}: Pick<TurnDetail, 'context_size' | 'session_id'>): string {
  if (size === null) return '–'
  const context = `${plural(size.cards, 'card')}, ${bytes(size.bytes)}`
  if (size.memory === 'none') return `${context}; no memory`
  const name = size.memory === 'session' ? `session ${session ?? '(none named)'}` : 'box'
  const cut = size.memory_truncated ? ', older ones left out' : ''
  return `${context}; memory ${name}: ${plural(size.memory_cards, 'card')}, ${bytes(size.memory_bytes)}${cut}`
}

/** The board names the session of its turns after the task. */
export const taskOfSession = (session: string | null): string | undefined =>
  session !== null && /^task-./.test(session) ? session.slice('task-'.length) : undefined

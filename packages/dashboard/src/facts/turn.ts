/**
 * A turn told as a line of time: inbox → steps → tools → deliverable, with what watchdogs did in between. Pure. Always in the order
 * in which it happened; what happened at the same moment, in the order of cause.
 */
import type { Card, Intervention, Step, TurnDetail, Wait } from '../api/types.js'
import { groupBy } from './group.js'
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
  | { readonly what: 'watchdog'; readonly at: string; readonly id: string; readonly intervention: Intervention }
  | { readonly what: 'end'; readonly at: string; readonly id: string }

const rank: Readonly<Record<Moment['what'], number>> = { inbox: 0, card: 1, start: 2, step: 3, watchdog: 4, end: 5 }
// Cards that are shown elsewhere: calls and results with their step, the deliverable at the end.
const elsewhere = new Set(['tool.call', 'tool.result', 'task.deliverable', 'sys.profile', 'meta.parent_pointer'])

export function timeline(turn: TurnDetail, cards: readonly Card[]): Moment[] {
  const waitsOf = groupBy(turn.waits, (wait) => wait.step_id)
  const known = new Set(turn.steps.map((step) => step.step_id))
  const orphans = [...waitsOf].filter(([id]) => !known.has(id))
  const moments: Moment[] = [
    { what: 'inbox', at: turn.created_at, id: 'inbox' },
    ...(turn.started_at === null
      ? []
      : [{ what: 'start' as const, at: turn.started_at, id: 'start', by: turn.claimed_by ?? null }]),
    ...cards
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

// The inbox row is written with its context box: whichever comes first by the clock, the asking is the beginning.
function place(moment: Moment): number {
  if (moment.what === 'inbox') return Number.NEGATIVE_INFINITY
  if (moment.what === 'end') return Number.POSITIVE_INFINITY
  return msOf(moment.at) ?? 0
}

function unrecorded(id: string, waits: readonly Wait[]): Step {
  const [first] = waits
  return {
    step_id: id,
    phase: 'tools',
    status: first?.wait_status ?? 'waiting',
    tool_call_ids: waits.map((wait) => wait.tool_call_id),
    metadata: {},
    error: null,
    started_at: first?.created_at ?? '',
    ended_at: null,
  }
}

/** The trace's id out of a traceparent (00-TRACE-SPAN-FLAGS). */
export function traceOf(traceparent: string | null | undefined): string | null {
  return /^[0-9a-f]{2}-([0-9a-f]{32})-/.exec(traceparent ?? '')?.[1] ?? null
}

export interface Usage {
  readonly tokens: number
  readonly costMicros: number
}

export function usageOf(steps: readonly Step[]): Usage {
  let tokens = 0
  let costMicros = 0
  for (const { metadata } of steps) {
    const usage = (metadata['usage'] ?? {}) as Record<string, unknown>
    tokens +=
      number(usage['total_tokens']) ||
      number(usage['tokens']) ||
      number(usage['input_tokens']) + number(usage['output_tokens'])
    costMicros += number(metadata['cost_micros']) || number(usage['cost_micros'])
  }
  return { tokens, costMicros }
}

const number = (value: unknown) => (typeof value === 'number' && Number.isFinite(value) && value > 0 ? value : 0)

/** What a deliverable claims to have changed, where the turn itself does not say. */
export function filesOf(
  turn: TurnDetail,
): readonly { readonly path: string; readonly kind?: string; readonly size?: number | null }[] {
  if (turn.files !== undefined) return turn.files
  const content = turn.deliverable?.content
  const told = typeof content === 'object' && content !== null && 'files' in content ? content.files : undefined
  if (!Array.isArray(told)) return []
  return told.flatMap((one: unknown) => {
    if (typeof one === 'string') return [{ path: one, kind: 'claimed' }]
    const path = typeof one === 'object' && one !== null && 'path' in one ? one.path : undefined
    return typeof path === 'string' ? [{ path, kind: 'claimed' }] : []
  })
}

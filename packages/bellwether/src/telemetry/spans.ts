/**
 * Converts ended turns to spans: the turn below its caller, and in it the enqueue, the dispatch, the steps with their tool calls, and
 * the delivery. Interventions are events of the turn's span. Pure: the same rows give the same spans.
 */
import { defined, groupBy, objectOf } from '@bellwether/base'
import { SpanKind, SpanStatusCode, TraceFlags, type Attributes, type HrTime } from '@opentelemetry/api'
import type { Resource } from '@opentelemetry/resources'
import type { ReadableSpan, TimedEvent } from '@opentelemetry/sdk-trace-node'
import { isSampled, parseTraceparent, spanIdOf, toolSpanId, turnSpanId } from './span-ids.js'
import type { EndedIntervention, EndedStep, EndedTurnRow, EndedTurns, EndedWait } from '../kernel/reads/ended-turns.js'

interface Draft {
  readonly name: string
  readonly spanId: string
  readonly parentId: string | undefined
  readonly from: Date
  readonly to: Date
  readonly kind?: SpanKind
  readonly attributes?: Attributes
  readonly failure?: string | undefined
  readonly events?: readonly TimedEvent[]
}

const scope = { name: 'bellwether' }

/** `ratio`: the share of traces that is exported. */
export function spansOf(ended: EndedTurns, resource: Resource, ratio: number): ReadableSpan[] {
  const turnOf = ({ agent_turn_id: id }: { readonly agent_turn_id: string }) => id
  const steps = groupBy(ended.steps, turnOf)
  const waits = groupBy(ended.waits, turnOf)
  const interventions = groupBy(ended.interventions, turnOf)
  return ended.turns.flatMap((turn) => {
    const id = turn.agent_turn_id
    const caller = parseTraceparent(turn.traceparent) ?? {
      traceId: spanIdOf('trace', id).padStart(32, '0'),
      spanId: '',
      sampled: true,
    }
    if (!caller.sampled || !isSampled(caller.traceId, ratio)) return []
    const drafts = draftsOf(turn, caller.spanId, steps.get(id) ?? [], waits.get(id) ?? [], interventions.get(id) ?? [])
    return drafts.map((draft) => spanOf(draft, caller.traceId, resource))
  })
}

function draftsOf(
  turn: EndedTurnRow,
  callerSpanId: string,
  steps: readonly EndedStep[],
  waits: readonly EndedWait[],
  interventions: readonly EndedIntervention[],
): Draft[] {
  const own = turnSpanId(turn.agent_turn_id)
  const started = turn.started_at ?? undefined
  const known = new Set(steps.map((step) => step.step_id))
  const part = (name: string, more: Omit<Draft, 'name' | 'spanId' | 'parentId'>): Draft => ({
    name,
    spanId: spanIdOf(name, turn.agent_turn_id),
    parentId: own,
    ...more,
  })
  return [
    {
      name: 'turn',
      spanId: own,
      parentId: callerSpanId === '' || callerSpanId === own ? undefined : callerSpanId,
      from: turn.created_at,
      to: turn.ended_at,
      kind: SpanKind.SERVER,
      attributes: turnAttributes(turn),
      failure: turn.outcome === 'success' ? undefined : (turn.error ?? turn.outcome),
      events: interventions.map(eventOf),
    },
    part('enqueue', { from: turn.created_at, to: turn.created_at, kind: SpanKind.PRODUCER }),
    ...(started === undefined
      ? []
      : [part('dispatch', { from: turn.created_at, to: started, kind: SpanKind.CONSUMER })]),
    ...steps.map((step) => stepDraft(step, own, turn)),
    ...waits.map((wait) => toolDraft(wait, known.has(wait.step_id) ? stepSpanId(wait.step_id) : own, turn)),
    part('deliver', {
      from: turn.ended_at,
      to: turn.ended_at,
      attributes: attributesOf({
        'bellwether.deliverable_card_id': turn.deliverable_card_id,
        'bellwether.outcome': turn.outcome,
      }),
    }),
  ]
}

const stepSpanId = (stepId: string) => spanIdOf('step', stepId)

function turnAttributes(turn: EndedTurnRow): Attributes {
  return attributesOf({
    'bellwether.project_id': turn.project_id,
    'bellwether.agent_id': turn.agent_id,
    'bellwether.profile_id': turn.profile_id,
    'bellwether.agent_turn_id': turn.agent_turn_id,
    'bellwether.turn_epoch': turn.turn_epoch,
    'bellwether.channel_id': turn.channel_id,
    'bellwether.message_type': turn.message_type,
    'bellwether.recursion_depth': turn.recursion_depth,
    'bellwether.deaths': turn.deaths,
    'bellwether.worker_id': turn.claimed_by,
    'bellwether.outcome': turn.outcome,
    'bellwether.error': turn.error,
  })
}

function stepDraft(step: EndedStep, turnId: string, turn: EndedTurnRow): Draft {
  const { usage, model, duration_ms: durationMs } = step.metadata
  const used = objectOf(usage)
  const to = step.ended_at ?? turn.ended_at
  // A step that was recorded once, at its end, carries its duration.
  const tookMs = typeof durationMs === 'number' && durationMs > 0 ? durationMs : 0
  const from = new Date(Math.min(step.started_at.getTime(), to.getTime() - tookMs))
  return {
    name: `step ${step.phase}`,
    spanId: stepSpanId(step.step_id),
    parentId: turnId,
    from,
    to,
    attributes: attributesOf({
      'bellwether.step_id': step.step_id,
      'bellwether.status': step.status,
      'gen_ai.request.model': model,
      'gen_ai.usage.input_tokens': used['input_tokens'],
      'gen_ai.usage.output_tokens': used['output_tokens'],
      'bellwether.cost_usd': used['cost_usd'],
    }),
    failure: step.error ?? undefined,
  }
}

function toolDraft(wait: EndedWait, parentId: string, turn: EndedTurnRow): Draft {
  const { status } = wait
  return {
    name: `tool ${wait.tool_name}`,
    spanId: toolSpanId(wait.project_id, wait.tool_call_id),
    parentId,
    from: wait.created_at,
    to: wait.answered_at ?? turn.ended_at,
    kind: SpanKind.CLIENT,
    attributes: attributesOf({
      'bellwether.tool_call_id': wait.tool_call_id,
      'bellwether.tool_name': wait.tool_name,
      'bellwether.wait_status': wait.wait_status,
      'bellwether.status': status,
      'bellwether.started_by': wait.started_by,
    }),
    failure: status === 'success' || status === 'partial' ? undefined : (wait.error ?? status ?? 'not_answered'),
  }
}

function eventOf({ kind, reason, turn_epoch: epoch, created_at: at }: EndedIntervention): TimedEvent {
  return {
    name: kind,
    time: time(at),
    attributes: attributesOf({ 'bellwether.reason': reason, 'bellwether.turn_epoch': epoch }),
  }
}

function spanOf(draft: Draft, traceId: string, resource: Resource): ReadableSpan {
  const contextOf = (spanId: string) => ({ traceId, spanId, traceFlags: TraceFlags.SAMPLED })
  const to = draft.to < draft.from ? draft.from : draft.to
  const { parentId, failure } = draft
  return {
    name: draft.name,
    kind: draft.kind ?? SpanKind.INTERNAL,
    spanContext: () => contextOf(draft.spanId),
    ...defined({ parentSpanContext: parentId === undefined ? undefined : contextOf(parentId) }),
    startTime: time(draft.from),
    endTime: time(to),
    duration: time(new Date(to.getTime() - draft.from.getTime())),
    status:
      failure === undefined
        ? { code: SpanStatusCode.UNSET }
        : { code: SpanStatusCode.ERROR, message: failure.slice(0, textMax) },
    attributes: draft.attributes ?? {},
    links: [],
    events: [...(draft.events ?? [])],
    ended: true,
    resource,
    instrumentationScope: scope,
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  }
}

// Collectors truncate long texts; the database has the full text.
const textMax = 1_000

function attributesOf(values: Readonly<Record<string, unknown>>): Attributes {
  const attributes: Attributes = {}
  for (const [name, value] of Object.entries(values)) {
    if (typeof value === 'string') attributes[name] = value.slice(0, textMax)
    else if (typeof value === 'number' || typeof value === 'boolean') attributes[name] = value
  }
  return attributes
}

function time(at: Date): HrTime {
  const ms = at.getTime()
  return [Math.floor(ms / 1_000), Math.round((ms % 1_000) * 1e6)]
}

/** The spans of the fixture's turns: every kind, one of them open; and a turn with as many as a response has. */
import { spansMax, spanWithoutDetails } from '@bellwether/protocol/http'
import type { Span } from '../../src/api/types.js'
import { turnId, type Say } from './strings.js'

/** The turn with the most spans. */
export const longTurn = turnId(5)

const spanOf = (more: Partial<Span> & Pick<Span, 'span_id' | 'kind' | 'started_at'>): Span => ({
  ...spanWithoutDetails,
  parent_span_id: 'run',
  name: '',
  agent_turn_id: turnId(0),
  ...more,
})

export function spansOf(turn: string, startMs: number, say: Say): Span[] {
  const at = (second: number) => new Date(startMs + second * 1_000).toISOString()
  const top = [
    spanOf({ span_id: 'queue', kind: 'queue', parent_span_id: null, started_at: at(0), ended_at: at(1.5) }),
    spanOf({ span_id: 'lease', kind: 'lease', parent_span_id: null, started_at: at(1.5), ended_at: at(2) }),
    spanOf({ span_id: 'run', kind: 'run', parent_span_id: null, name: say('planner-00'), started_at: at(2) }),
  ]
  if (turn === longTurn)
    return [
      ...top,
      ...Array.from({ length: spansMax - top.length }, (_, number) =>
        spanOf({
          span_id: `call ${number}`,
          kind: 'tool',
          name: `tool-${number}`,
          started_at: at(2 + number / 100),
          ended_at: at(2 + (number + 1) / 100),
        }),
      ),
    ]
  return [
    ...top,
    spanOf({
      span_id: 'step 1',
      kind: 'step',
      name: 'model',
      status: 'success',
      started_at: at(3),
      ended_at: at(11),
      model: say('sonnet'),
      tokens: 12_400,
      cost_micros: 84_000,
      first_token_ms: 1_900,
      tries: 2,
    }),
    spanOf({
      span_id: 'call c1',
      kind: 'tool',
      name: say('run_tests'),
      status: 'applied',
      started_at: at(11),
      ended_at: at(24),
      call_card_id: 'call-1',
      result_card_id: 'result-1',
    }),
    spanOf({
      span_id: 'call c2',
      kind: 'person',
      name: 'ask_person',
      status: 'expired',
      started_at: at(24),
      ended_at: at(38),
    }),
    spanOf({ span_id: 'lease 1', kind: 'lease', name: 'resume', started_at: at(38), ended_at: at(38.4) }),
    spanOf({ span_id: 'call c3', kind: 'account', name: 'account openai', started_at: at(38), ended_at: at(41) }),
    spanOf({
      span_id: 'turn 1',
      kind: 'child',
      name: say('tester'),
      status: 'failed',
      error: say('no display'),
      agent_turn_id: turnId(1),
      started_at: at(41),
      ended_at: at(46),
    }),
    spanOf({ span_id: 'step 2', kind: 'step', name: 'model', status: 'running', started_at: at(46) }),
  ]
}

/** The page of one turn of the fixture data: its steps, waits, interventions, relatives, files, messages and budget. */
import type { Fallback, Turn, TurnDetail } from '../../src/api/types.js'
import * as sample from './samples.js'
import { turnId, type At, type Say } from './strings.js'

/** The turn with more children than its page shows at first. */
export const wideTurn = turnId(6)

const manyChildren = () =>
  Array.from({ length: 230 }, (_, number) =>
    sample.childOf({ agent_turn_id: turnId(1_000 + number), agent_id: `part-${number}`, relation: 'fork_join' }),
  )

const childrenOf = (at: At, say: Say) => [
  sample.childOf({
    agent_turn_id: turnId(1),
    agent_id: say('tester-10').slice(0, 300),
    relation: 'fork_join',
    started_at: at(-40),
    ended_at: at(-31),
    children: [sample.childOf({ agent_turn_id: turnId(4), agent_id: 'writer-13' })],
  }),
  sample.childOf({ agent_turn_id: turnId(2), agent_id: 'reviewer-11', status: 'suspended', relation: 'follow_up' }),
  sample.childOf({ agent_turn_id: turnId(3), agent_id: 'tester-12', status: 'failed', error: say('command_exit_1') }),
]

export function detailOf(turn: Turn, at: At, say: Say): TurnDetail {
  const step = (number: number, from: number, to: number | null, tool_call_ids: readonly string[]) =>
    sample.stepOf({
      step_id: `step-${number}`,
      phase: say('think'),
      status: to === null ? 'running' : 'success',
      tool_call_ids,
      metadata: { usage: { total_tokens: 1_200 * number, cost_micros: 4_200 } },
      error: number === 2 ? say('the first try was refused: rate limited') : null,
      started_at: at(from),
      ended_at: to === null ? null : at(to),
    })
  const wait = (number: number, tool: string, wait_status: 'applied' | 'waiting' | 'expired') =>
    sample.waitOf({
      tool_call_id: `call-${number}`,
      tool_name: say(tool).slice(0, 400),
      step_id: `step-${number}`,
      wait_status,
      tool_call_card_id: `card-call-${number}`,
      tool_result_card_id: wait_status === 'applied' ? `card-result-${number}` : null,
      created_at: at(-40 + number),
    })
  const fallback: Fallback = {
    code: turn.error ?? turn.status,
    ended_by: say('key ops'),
    reason: say('wrong branch'),
    started: true,
    cards: 4,
    last_text: say('Two of the three tests pass now.'),
    tool_results: [
      {
        tool_call_id: 'call-1',
        tool_name: say('run_tests'),
        status: 'success',
        card_id: 'card-result-1',
        error: null,
        result: say('2 passed'),
        truncated: false,
      },
    ],
    tool_results_received: 1,
    truncated: false,
    output_box_id: 'box-1',
  }
  const intervention = (intervention_id: number, kind: string, reason: string) => ({
    intervention_id,
    kind,
    reason: say(reason),
    agent_turn_id: turn.agent_turn_id,
    turn_epoch: 2,
    before: {},
    after: {},
    created_at: at(-23 + intervention_id),
  })
  return {
    ...turn,
    forked_from: null,
    imported_from: null,
    deliverable:
      turn.ended_at === null
        ? null
        : {
            card_id: 'card-end',
            kind: turn.outcome === 'success' ? ('result' as const) : ('fallback' as const),
            fallback: turn.outcome === 'success' ? null : fallback,
            content: {
              text: say('Fixed the flaky login test. See https://example.org/pr/12.'),
              files: ['src/login.test.ts'],
            },
            created_at: turn.ended_at,
          },
    steps: [step(1, -47, -44, ['call-1']), step(2, -38, -35, ['call-2']), step(3, -20, null, [])],
    waits: [wait(1, 'run_tests', 'applied'), wait(2, 'fetch_page', 'expired'), wait(3, 'search_code', 'waiting')],
    interventions: [
      intervention(1, 'tool_timeout', 'resume_deadline passed'),
      intervention(2, 'reclaim', 'no beat for 30 s'),
    ],
    parent:
      turn.recursion_depth === 1
        ? { agent_turn_id: turnId(9), agent_id: 'planner-03', status: 'suspended', outcome: null, relation: 'delegate' }
        : null,
    children: turn.agent_turn_id === wideTurn ? manyChildren() : childrenOf(at, say),
    children_truncated: false,
    context_box_id: 'box-1',
    output_box_id: null,
    // The run of a task.
    session_id: turn.agent_turn_id === turnId(4) ? 'task-T-3' : say('review-12'),
    context_size: {
      memory: 'session',
      cards: 2,
      bytes: 1_840,
      memory_cards: 6,
      memory_bytes: 12_400,
      memory_truncated: false,
    },
    context_cards: [
      sample.cardOf({
        card_id: 'c1',
        type: 'task.instruction',
        content: { text: say('Make the login test pass on CI. It fails one time in five since Tuesday.') },
        created_at: at(-50),
      }),
    ],
    cards: [
      sample.cardOf({
        card_id: 'c2',
        content: { text: say('The test waits for a fixed time. I will look for the event instead.') },
        created_at: at(-43),
      }),
    ],
    cards_truncated: false,
    files: [
      sample.fileOf({
        ...{ path: say('/src/login.test.ts'), size: 2_048, integrity_suspect: false },
        ...{ view: 'shared', source_id: 'main', found: true },
      }),
      sample.fileOf({ path: '/docs/report.md', found: false }),
      sample.fileOf({
        path: '/src/login.ts',
        how: 'changed',
        certainty: 'several_turns',
        other_turns: [turnId(9)],
        size: 2_048,
        integrity_suspect: true,
      }),
    ],
    files_truncated: false,
    continues: null,
    messages: [
      {
        seq: 1,
        sender: 'rita',
        text: say('Keep the old route.'),
        urgent: false,
        created_at: at(-30),
        delivered_at: at(-29),
      },
      { seq: 2, sender: 'rita', text: 'Also run the linter.', urgent: false, created_at: at(-5), delivered_at: null },
    ],
    usage: {
      steps: 3,
      total_tokens: 7_200,
      input_tokens: 6_000,
      output_tokens: 1_200,
      cache_read_tokens: 0,
      cache_write_tokens: 0,
      cost_micros: 12_600,
    },
    budget: {
      budget_id: 'budget-1',
      parent_budget_id: null,
      exceeded_keys: [],
      agent_limits: ['tokens'],
      tokens: { used: 7_200, limit: 20_000 },
      cost_micros: { used: 12_600, limit: null },
      wall_ms: { used: 56_000, limit: 600_000 },
      fraction: 0.36,
      nearest: 'tokens',
    },
    trace_id: turn.traceparent?.split('-')[1] ?? null,
  }
}

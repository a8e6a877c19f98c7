/**
 * The fixture data: the same for the same options. `hostile` fills every text field with what an attacker would
 * write; without it the texts are ordinary, for screenshots.
 */
import type {
  Agent,
  Card,
  Fallback,
  Health,
  Intervention,
  Question,
  TaskDetail,
  Turn,
  TurnDetail,
} from '../../src/api/types.js'
import { folderOf, healthOf, tasksOf, type FileEntry } from './board-data.js'
import * as sample from './samples.js'
import { attack, jobs, longWord, turnId, type At, type Say } from './strings.js'

export interface WorldOptions {
  readonly agents: number
  readonly hostile: boolean
  readonly nowMs: number
}

export interface World {
  readonly agents: readonly Agent[]
  readonly turns: readonly Turn[]
  readonly questions: readonly Question[]
  readonly tasks: readonly TaskDetail[]
  readonly interventions: readonly Intervention[]
  readonly health: Health
  /** The path of a deletion that no sensor saw. */
  readonly deleted: string
  detail(id: string): TurnDetail | undefined
  card(id: string): Card
  folder(path: string): readonly FileEntry[]
}

const tools = ['run_tests', 'fetch_page', 'search_code', 'open_pull_request', 'ask_person']
const targets = ['default', 'gpu', 'coding']

export function makeWorld({ agents: size, hostile, nowMs }: WorldOptions): World {
  const at = (seconds: number) => new Date(nowMs + seconds * 1_000).toISOString()
  const say = (text: string) => (hostile ? `${text} ${attack} javascript:alert(1) ${longWord}` : text)
  const agents = Array.from({ length: size }, (_, number) => makeAgent(number, at, hostile))
  const turns = agents.slice(0, 400).map((agent, number) => makeTurn(agent, number, at, say))
  return {
    agents,
    turns,
    questions: questionsOf(at, say),
    tasks: tasksOf(at, say),
    interventions: interventionsOf(at, say),
    health: healthOf(at, say),
    deleted: hostile ? `/${attack}` : '/old-notes.md',
    detail(id) {
      const turn = turns.find((one) => one.agent_turn_id === id)
      return turn && detailOf(turn, at, say)
    },
    card: (card_id) =>
      sample.cardOf({
        card_id,
        type: 'tool.result',
        content: { tool_call_id: 'c', status: 'success', result: say('42 tests passed') },
      }),
    folder: (path) => folderOf(path, nowMs, hostile),
  }
}

function makeAgent(number: number, at: At, hostile: boolean): Agent {
  const job = jobs[number % jobs.length]!
  const name = number === 3 && hostile ? `${attack}${longWord}` : `${job}-${String(number).padStart(size(number), '0')}`
  return sample.agentOf({
    agent_id: name,
    worker_target: targets[number % targets.length]!,
    status: number % 97 === 96 ? 'retired' : 'active',
    queued: number % 7 === 1 ? (number % 5) + 1 : 0,
    last_turn:
      number % 4 === 0
        ? null
        : {
            agent_turn_id: turnId(number + 5_000),
            outcome: number % 11 === 5 ? 'failed' : 'success',
            ended_at: at(-60 * (number % 50)),
          },
    state: makeHead(number, at, hostile),
  })
}

function makeHead(number: number, at: At, hostile: boolean): Agent['state'] {
  const kind = number % 9
  const active = {
    active_agent_turn_id: turnId(number),
    turn_epoch: 3,
    turn_deadline: at(600 + number * 7),
    leased_at: at(-40),
    updated_at: at(-2),
  }
  if (kind === 0) return sample.headOf({ ...active, activity: 'thinking' })
  if (kind === 1) {
    const current_tool = hostile ? attack : tools[number % 4]!
    return sample.headOf({ ...active, activity: 'executing_tool', current_tool })
  }
  if (kind === 2)
    return sample.headOf({
      ...active,
      status: 'suspended',
      activity: 'awaiting_tool_result',
      current_tool: tools[number % tools.length]!,
      waiting_tool_count: 1 + (number % 3),
      resume_deadline: at(45 + number),
    })
  if (number === 3) return sample.headOf({ ...active, activity: 'thinking', turn_deadline: at(-90) })
  if (kind === 4 && number < 20) return sample.headOf({ ...active, status: 'dispatched', leased_at: at(-3) })
  if (number % 97 === 96) return null
  return sample.headOf({
    status: 'idle',
    active_agent_turn_id: null,
    turn_epoch: 3,
    leased_at: null,
    updated_at: at(-300),
  })
}

const size = (number: number) => (number > 999 ? 5 : 2)

function makeTurn(agent: Agent, number: number, at: At, say: Say): Turn {
  const head = agent.state?.active_agent_turn_id === turnId(number) ? agent.state : null
  const outcome = (['success', 'success', 'failed', 'timeout', 'canceled'] as const)[number % 5]!
  return sample.turnOf({
    agent_turn_id: turnId(number),
    agent_id: agent.agent_id,
    turn_epoch: 3,
    deaths: 1 + (number % 3 === 0 ? 1 : 0),
    claimed_by: say('worker-7f3a'),
    correlation_id: say(`order-${number}`),
    traceparent: `00-4bf92f3577b34da6a3ce929d0e0e${String(number).padStart(4, '0')}-00f067aa0ba902b7-01`,
    source_agent_id: number === 0 ? 'planner-03' : null,
    recursion_depth: number === 0 ? 1 : 0,
    created_at: at(-50 - number * 20),
    started_at: at(-48 - number * 20),
    ...(head === null
      ? {
          status: outcome,
          outcome,
          ended_at: at(-10 - number * 20),
          deliverable_card_id: `card-${number}`,
          error: outcome === 'success' ? null : say(outcome === 'timeout' ? 'turn_deadline' : 'the tests do not pass'),
        }
      : {
          status: head.status,
          activity: head.activity,
          current_tool: head.current_tool,
          waiting_tool_count: head.waiting_tool_count,
          turn_deadline: head.turn_deadline,
          resume_deadline: head.resume_deadline,
        }),
  })
}

function detailOf(turn: Turn, at: At, say: Say): TurnDetail {
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
        ? { agent_turn_id: turnId(9), agent_id: 'planner-03', status: 'suspended', outcome: null }
        : null,
    children: [
      sample.childOf({
        agent_turn_id: turnId(1),
        agent_id: say('tester-10').slice(0, 300),
        started_at: at(-40),
        ended_at: at(-31),
        children: [sample.childOf({ agent_turn_id: turnId(4), agent_id: 'writer-13' })],
      }),
      sample.childOf({ agent_turn_id: turnId(2), agent_id: 'reviewer-11', status: 'suspended' }),
      sample.childOf({
        agent_turn_id: turnId(3),
        agent_id: 'tester-12',
        status: 'failed',
        error: say('command_exit_1'),
      }),
    ],
    children_truncated: false,
    context_box_id: null,
    output_box_id: null,
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
      sample.fileOf({ path: say('/src/login.test.ts'), size: 2_048, integrity_suspect: false }),
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
      tokens: { used: 7_200, limit: 20_000 },
      cost_micros: { used: 12_600, limit: null },
      wall_ms: { used: 56_000, limit: 600_000 },
      fraction: 0.36,
      nearest: 'tokens',
    },
    trace_id: turn.traceparent?.split('-')[1] ?? null,
  }
}

function questionsOf(at: At, say: Say): Question[] {
  const one = (number: number, agent: string, deadline: number, args: object) =>
    sample.questionOf({
      tool_call_id: `ask-${number}`,
      agent_id: say(agent),
      agent_turn_id: turnId(number),
      arguments: { to: 'alice', ...args },
      asked_at: at(-120),
      deadline: at(deadline),
    })
  return [
    one(1, 'deployer-07', 55, {
      question: say('The release notes mention a breaking change. Ship it today?'),
      choices: ['ship it', 'wait until Monday', say('neither')],
    }),
    one(2, 'planner-03', 3_600, { question: say('Which customer is this for? I found two with that name.') }),
    one(3, 'triage-06', 7_200, {
      question: say('Please rate this incident.'),
      result_fields: [
        { name: 'severity', type: 'integer', required: true, description: say('1 is worst') },
        { name: 'is_public', type: 'boolean', required: true },
        { name: 'note', type: 'string' },
        // A name that every object inherits.
        ...(say('') === '' ? [] : [{ name: '__proto__' }, { name: 'constructor', type: 'constructor' }]),
      ],
      refused: say('severity must be of type integer'),
    }),
  ]
}

function interventionsOf(at: At, say: Say): Intervention[] {
  const kinds = [
    ['reclaim', 'no beat for 30 s'],
    ['tool_timeout', 'resume_deadline passed'],
    ['reap', 'turn_deadline passed'],
    ['pending_wakeup', 'unheard for 5 s'],
    ['dispatched_retry', 'untaken for 10 s'],
    ['resume_replay', 'lease ran out'],
    ['tool_timeout', 'resume_deadline passed'],
    ['reclaim', 'no beat for 31 s'],
  ] as const
  return kinds.map(([kind, reason], number) =>
    sample.interventionOf({
      intervention_id: 100 - number,
      kind,
      reason: say(reason),
      agent_id: say(`${jobs[number]!}-0${number}`),
      agent_turn_id: turnId(number),
      created_at: at(-30 - number * 400),
    }),
  )
}

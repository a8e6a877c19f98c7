/**
 * The fixture data: the same for the same options. `hostile` fills every text field with what an attacker would
 * write; without it the texts are ordinary, for screenshots.
 */
import type { Agent, Card, Intervention, Question, Turn, TurnDetail, TurnFile } from '../../src/api/types.js'
import type { BlindSpots, Components, FileNode, TaskDetail } from '../../src/api/board-types.js'
import { componentsOf, folderOf, tasksOf } from './board-data.js'
import { attack, jobs, longWord, turnId, type At, type Say } from './strings.js'

export interface WorldOptions {
  readonly agents: number
  readonly hostile: boolean
  readonly nowMs: number
}

export interface World {
  readonly agents: Agent[]
  readonly turns: Turn[]
  readonly questions: Question[]
  readonly tasks: TaskDetail[]
  readonly interventions: Intervention[]
  readonly components: Components
  readonly blindSpots: BlindSpots
  detail(id: string): TurnDetail | undefined
  card(id: string): Card
  folder(path: string): FileNode
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
    components: componentsOf(at, say),
    blindSpots: {
      additions_count: 1,
      additions: ['/src/vendor.ts'],
      deletion_count: 1,
      deletions: [hostile ? `/${attack}` : '/old-notes.md'],
    },
    detail: (id) =>
      detailOf(
        turns.find((turn) => turn.agent_turn_id === id),
        at,
        say,
      ),
    card: (id) => ({
      card_id: id,
      type: 'tool.result',
      content: { tool_call_id: 'c', status: 'success', result: say('42 tests passed') },
      created_at: at(-30),
    }),
    folder: (path) => folderOf(path, nowMs, hostile),
  }
}

function makeAgent(number: number, at: At, hostile: boolean): Agent {
  const job = jobs[number % jobs.length]!
  const name = number === 3 && hostile ? `${attack}${longWord}` : `${job}-${String(number).padStart(size(number), '0')}`
  const kind = number % 9
  const base = {
    agent_id: name,
    profile_id: null,
    worker_target: targets[number % targets.length]!,
    status: 'active' as const,
    metadata: {},
    queued: number % 7 === 1 ? (number % 5) + 1 : 0,
    last_turn:
      number % 4 === 0
        ? null
        : {
            agent_turn_id: turnId(number + 5_000),
            outcome: number % 11 === 5 ? ('failed' as const) : ('success' as const),
            ended_at: at(-60 * (number % 50)),
          },
  }
  const head = {
    active_agent_turn_id: turnId(number),
    turn_epoch: 3,
    waiting_tool_count: 0,
    current_tool: null,
    resume_deadline: null,
    turn_deadline: at(600 + number * 7),
    leased_at: at(-40),
    updated_at: at(-2),
  }
  if (kind === 0) return { ...base, state: { ...head, status: 'running', activity: 'thinking' } }
  if (kind === 1)
    return {
      ...base,
      state: {
        ...head,
        status: 'running',
        activity: 'executing_tool',
        current_tool: hostile ? attack : tools[number % 4]!,
      },
    }
  if (kind === 2)
    return {
      ...base,
      state: {
        ...head,
        status: 'suspended',
        activity: 'awaiting_tool_result',
        current_tool: tools[number % tools.length]!,
        waiting_tool_count: 1 + (number % 3),
        resume_deadline: at(45 + number),
      },
    }
  if (number === 3)
    return { ...base, state: { ...head, status: 'running', activity: 'thinking', turn_deadline: at(-90) } }
  if (kind === 4 && number < 20)
    return { ...base, state: { ...head, status: 'dispatched', activity: null, leased_at: at(-3) } }
  if (number % 97 === 96) return { ...base, status: 'retired', state: null }
  return {
    ...base,
    state: {
      ...head,
      status: 'idle',
      active_agent_turn_id: null,
      activity: null,
      turn_deadline: null,
      leased_at: null,
      updated_at: at(-300),
    },
  }
}

const size = (number: number) => (number > 999 ? 5 : 2)

function makeTurn(agent: Agent, number: number, at: At, say: Say): Turn {
  const head = agent.state
  const isActive = head?.active_agent_turn_id === turnId(number)
  const outcome = (['success', 'success', 'failed', 'timeout', 'canceled'] as const)[number % 5]!
  return {
    agent_turn_id: turnId(number),
    agent_id: agent.agent_id,
    status: isActive ? head.status : outcome,
    turn_epoch: 3,
    attempts: 1 + (number % 3 === 0 ? 1 : 0),
    claimed_by: say('worker-7f3a'),
    correlation_id: say(`order-${number}`),
    channel_id: 'public',
    traceparent: `00-4bf92f3577b34da6a3ce929d0e0e${String(number).padStart(4, '0')}-00f067aa0ba902b7-01`,
    source_agent_id: number === 0 ? 'planner-03' : null,
    recursion_depth: number === 0 ? 1 : 0,
    activity: isActive ? head.activity : null,
    current_tool: isActive ? head.current_tool : null,
    waiting_tool_count: isActive ? head.waiting_tool_count : 0,
    turn_deadline: isActive ? head.turn_deadline : null,
    resume_deadline: isActive ? head.resume_deadline : null,
    created_at: at(-50 - number * 20),
    started_at: at(-48 - number * 20),
    ended_at: isActive ? null : at(-10 - number * 20),
    outcome: isActive ? null : outcome,
    deliverable_card_id: isActive ? null : `card-${number}`,
    error:
      isActive || outcome === 'success' ? null : say(outcome === 'timeout' ? 'turn_deadline' : 'the tests do not pass'),
  }
}

function detailOf(turn: Turn | undefined, at: At, say: Say): TurnDetail | undefined {
  if (turn === undefined) return undefined
  const step = (number: number, phase: string, from: number, to: number | null, calls: readonly string[]) => ({
    step_id: `step-${number}`,
    phase: say(phase),
    status: to === null ? 'running' : 'success',
    tool_call_ids: calls,
    metadata: { usage: { total_tokens: 1_200 * number, cost_micros: 4_200 } },
    error: number === 2 ? say('the first try was refused: rate limited') : null,
    started_at: at(from),
    ended_at: to === null ? null : at(to),
  })
  const wait = (number: number, tool: string, status: 'applied' | 'waiting' | 'expired', isAnswered: boolean) => ({
    tool_call_id: `call-${number}`,
    tool_name: say(tool).slice(0, 400),
    step_id: `step-${number}`,
    turn_epoch: 3,
    wait_status: status,
    tool_call_card_id: `card-call-${number}`,
    tool_result_card_id: isAnswered ? `card-result-${number}` : null,
    created_at: at(-40 + number),
  })
  return {
    ...turn,
    deliverable:
      turn.ended_at === null
        ? null
        : {
            card_id: 'card-end',
            content: {
              text: say('Fixed the flaky login test. See https://example.org/pr/12.'),
              files: ['src/login.test.ts'],
            },
            created_at: turn.ended_at,
          },
    steps: [
      step(1, 'think', -47, -44, ['call-1']),
      step(2, 'think', -38, -35, ['call-2']),
      step(3, 'think', -20, null, []),
    ],
    waits: [
      wait(1, 'run_tests', 'applied', true),
      wait(2, 'fetch_page', 'expired', false),
      wait(3, 'search_code', 'waiting', false),
    ],
    interventions: [
      {
        intervention_id: 1,
        kind: 'tool_timeout',
        reason: say('resume_deadline passed'),
        created_at: at(-22),
        agent_turn_id: turn.agent_turn_id,
      },
      {
        intervention_id: 2,
        kind: 'reclaim',
        reason: say('no beat for 30 s'),
        created_at: at(-21),
        agent_turn_id: turn.agent_turn_id,
      },
    ],
    parent:
      turn.recursion_depth === 1 ? { agent_turn_id: turnId(9), agent_id: 'planner-03', status: 'suspended' } : null,
    children: [
      {
        agent_turn_id: turnId(1),
        agent_id: say('tester-10').slice(0, 300),
        status: 'success',
        started_at: at(-40),
        ended_at: at(-31),
        children: [{ agent_turn_id: turnId(4), agent_id: 'writer-13', status: 'success' }],
      },
      { agent_turn_id: turnId(2), agent_id: 'reviewer-11', status: 'suspended' },
      { agent_turn_id: turnId(3), agent_id: 'tester-12', status: 'failed', error: say('command_exit_1') },
    ],
    children_truncated: false,
    context_cards: [
      {
        card_id: 'c1',
        type: 'task.instruction',
        content: { text: say('Make the login test pass on CI. It fails one time in five since Tuesday.') },
        created_at: at(-50),
      },
    ],
    cards: [
      {
        card_id: 'c2',
        type: 'agent.thought',
        content: { text: say('The test waits for a fixed time. I will look for the event instead.') },
        created_at: at(-43),
      },
    ],
    cards_truncated: false,
    files: [
      fileOf(say('/src/login.test.ts'), 'claimed', true),
      fileOf('/docs/report.md', 'claimed', false),
      fileOf('/src/login.ts', 'changed_meanwhile', true),
    ],
    files_truncated: false,
    usage: { total_tokens: 7_200, cost_micros: 12_600 },
    budget: {
      tokens: { used: 7_200, limit: 20_000 },
      cost_micros: { used: 12_600, limit: null },
      wall_ms: { used: 56_000, limit: 600_000 },
    },
    trace_id: turn.traceparent?.split('-')[1] ?? null,
  }
}

const fileOf = (path: string, how: TurnFile['how'], found: boolean): TurnFile => ({
  path,
  how,
  found,
  size: found ? 2_048 : null,
  integrity_suspect: found ? how !== 'claimed' : null,
})

function questionsOf(at: At, say: Say): Question[] {
  const one = (number: number, agent: string, args: Readonly<Record<string, unknown>>, deadline: number): Question => ({
    tool_call_id: `ask-${number}`,
    agent_id: say(agent),
    agent_turn_id: turnId(number),
    arguments: { to: 'alice', ...args },
    asked_at: at(-120),
    deadline: at(deadline),
  })
  return [
    one(
      1,
      'deployer-07',
      {
        question: say('The release notes mention a breaking change. Ship it today?'),
        choices: ['ship it', 'wait until Monday', say('neither')],
      },
      55,
    ),
    one(2, 'planner-03', { question: say('Which customer is this for? I found two with that name.') }, 3_600),
    one(
      3,
      'triage-06',
      {
        question: say('Please rate this incident.'),
        result_fields: [
          { name: 'severity', type: 'integer', required: true, description: say('1 is worst') },
          { name: 'is_public', type: 'boolean', required: true },
          { name: 'note', type: 'string' },
          // A name that every object inherits.
          ...(say('') === '' ? [] : [{ name: '__proto__' }, { name: 'constructor', type: 'constructor' }]),
        ],
        refused: say('severity must be of type integer'),
      },
      7_200,
    ),
  ]
}

function interventionsOf(at: At, say: Say): Intervention[] {
  const kinds = [
    'reclaim',
    'tool_timeout',
    'reap',
    'pending_wakeup',
    'dispatched_retry',
    'resume_replay',
    'tool_timeout',
    'reclaim',
  ]
  const reasons = [
    'no beat for 30 s',
    'resume_deadline passed',
    'turn_deadline passed',
    'unheard for 5 s',
    'untaken for 10 s',
    'lease ran out',
    'resume_deadline passed',
    'no beat for 31 s',
  ]
  return kinds.map((kind, number) => ({
    intervention_id: 100 - number,
    kind,
    reason: say(reasons[number]!),
    project_id: 'demo',
    agent_id: say(`${jobs[number]!}-0${number}`),
    agent_turn_id: turnId(number),
    turn_epoch: 2,
    created_at: at(-30 - number * 400),
  }))
}

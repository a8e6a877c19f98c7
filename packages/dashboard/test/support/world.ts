/**
 * The fixture data: the same for the same options. `hostile` fills every text field with what an attacker would
 * write; without it the texts are ordinary, for screenshots.
 */
import type {
  Agent,
  Approval,
  ApprovalGrant,
  Card,
  Health,
  Hold,
  Intervention,
  Question,
  Spending,
  TaskDetail,
  TranscriptEntry,
  Turn,
  TurnDetail,
} from '../../src/api/types.js'
import { approvalsOf, grantsOf, questionsOf } from './needs-you-data.js'
import { detailOf } from './turn-data.js'
import { folderOf, healthOf, tasksOf, type FileEntry } from './board-data.js'
import * as sample from './samples.js'
import { attack, jobs, longWord, turnId, type At, type Say } from './strings.js'
import { transcriptOf } from './transcript-data.js'

export interface WorldOptions {
  readonly agents: number
  readonly hostile: boolean
  readonly nowMs: number
}

export interface World {
  readonly agents: readonly Agent[]
  readonly turns: readonly Turn[]
  readonly questions: readonly Question[]
  readonly approvals: readonly Approval[]
  readonly grants: readonly ApprovalGrant[]
  readonly tasks: readonly TaskDetail[]
  readonly interventions: readonly Intervention[]
  readonly health: Health
  readonly holds: readonly Hold[]
  readonly limits: readonly Spending[]
  /** The path of a deletion that no sensor saw. */
  readonly deleted: string
  /** Of every turn. Tests add to it. */
  readonly transcript: TranscriptEntry[]
  /** What requests changed. */
  readonly state: {
    paused: { by: string; at: string } | null
    /** Turns that a bulk action changed. */
    readonly changed: Set<string>
    /** Turns that the next bulk action cannot change. */
    readonly failing: Set<string>
  }
  /** The text, with an attack in a hostile world. */
  say(text: string): string
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
    say,
    state: { paused: null, changed: new Set(), failing: new Set() },
    agents,
    turns,
    questions: questionsOf(at, say),
    approvals: approvalsOf(at, say),
    grants: grantsOf(at, say),
    tasks: tasksOf(at, say),
    interventions: interventionsOf(at, say),
    health: healthOf(at, say),
    limits: [
      {
        limit: say('agent coder day'),
        scope: 'agent',
        name: say('coder'),
        period: 'day',
        action: 'hold',
        project_id: 'demo',
        starts_at: at(-3_600),
        ends_at: at(3_600),
        tokens: { used: 0, reserved: 0, limit: null },
        cost_micros: { used: 41_200_000, reserved: 500_000, limit: 50_000_000 },
      },
    ],
    holds: [
      {
        account: say('claude'),
        reason: say('5-hour limit reached ∙ resets 3pm'),
        held_since: at(-600),
        until: at(3_600),
        window: 1,
        probing: false,
        turns: 3,
      },
    ],
    transcript: transcriptOf(at, say),
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
    instruction: say('# Make the login test pass\n\nOn CI, it fails.'),
    cost_micros: number % 4 === 3 ? null : 31_000 * (number + 1),
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

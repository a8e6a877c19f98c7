/** Complete objects of the HTTP contract, one per resource; tests override what they are about. */
import type {
  Agent,
  Approval,
  Card,
  ChildTurn,
  Component,
  Head,
  Intervention,
  Question,
  Step,
  Task,
  Turn,
  TurnFile,
  Wait,
} from '../../src/api/types.js'

const at = '2029-01-01T00:00:00.000Z'

export const headOf = (more: Partial<Head> = {}): Head => ({
  status: 'running',
  active_agent_turn_id: 't1',
  turn_epoch: 5,
  activity: null,
  current_tool: null,
  waiting_tool_count: 0,
  resume_deadline: null,
  turn_deadline: null,
  leased_at: at,
  updated_at: at,
  output_box_id: null,
  ...more,
})

export const agentOf = (more: Partial<Agent> = {}): Agent => ({
  agent_id: 'a',
  profile_id: null,
  memory: 'none',
  worker_target: 'default',
  status: 'active',
  metadata: {},
  state: headOf(),
  queued: 0,
  last_turn: null,
  ...more,
})

export const turnOf = (more: Partial<Turn> = {}): Turn => ({
  agent_turn_id: 't1',
  inbox_id: 'i1',
  project_id: 'demo',
  agent_id: 'a',
  channel_id: 'public',
  message_type: 'turn',
  correlation_id: null,
  status: 'running',
  turn_epoch: 5,
  deaths: 1,
  claimed_by: null,
  recursion_depth: 0,
  traceparent: null,
  source_agent_id: null,
  source_step_id: null,
  turn_deadline: null,
  resume_deadline: null,
  waiting_tool_count: 0,
  activity: null,
  current_tool: null,
  created_at: at,
  started_at: null,
  ended_at: null,
  outcome: null,
  deliverable_card_id: null,
  error: null,
  ...more,
})

export const stepOf = (more: Partial<Step> = {}): Step => ({
  step_id: 's1',
  agent_turn_id: 't1',
  phase: 'think',
  status: 'success',
  tool_call_ids: [],
  metadata: {},
  error: null,
  started_at: at,
  ended_at: null,
  ...more,
})

export const waitOf = (more: Partial<Wait> = {}): Wait => ({
  agent_turn_id: 't1',
  turn_epoch: 5,
  step_id: 's1',
  tool_call_id: 'c1',
  tool_name: 'run_tests',
  wait_status: 'waiting',
  tool_result_card_id: null,
  tool_call_card_id: null,
  after_execution: 'suspend',
  idempotent: false,
  started_by: null,
  started_at: null,
  sent_at: null,
  host_beat_at: null,
  approval: null,
  created_at: at,
  ...more,
})

export const cardOf = (more: Partial<Card> = {}): Card => ({
  card_id: 'c1',
  type: 'agent.thought',
  role: 'assistant',
  content: {},
  metadata: {},
  created_at: at,
  ...more,
})

export const interventionOf = (more: Partial<Intervention> = {}): Intervention => ({
  intervention_id: 1,
  kind: 'reclaim',
  reason: 'no beat for 30 s',
  project_id: 'demo',
  agent_id: 'a',
  agent_turn_id: 't1',
  turn_epoch: 2,
  before: {},
  after: {},
  created_at: at,
  ...more,
})

export const childOf = (more: Partial<ChildTurn> = {}): ChildTurn => ({
  agent_turn_id: 't2',
  agent_id: 'b',
  status: 'success',
  outcome: null,
  error: null,
  created_at: null,
  started_at: null,
  ended_at: null,
  children: [],
  ...more,
})

export const fileOf = (more: Partial<TurnFile> = {}): TurnFile => ({
  path: '/a',
  how: 'claimed',
  certainty: 'claimed',
  other_turns: [],
  kind: 'file',
  view: null,
  source_id: null,
  found: true,
  size: null,
  modified_time: null,
  integrity_suspect: null,
  ...more,
})

export const questionOf = (more: Partial<Question> = {}): Question => ({
  tool_call_id: 'c1',
  agent_id: 'a',
  agent_turn_id: 't1',
  arguments: {},
  asked_at: at,
  deadline: null,
  ...more,
})

export const approvalOf = (more: Partial<Approval> = {}): Approval => ({
  approval_id: 'ap1',
  agent_id: 'a',
  agent_turn_id: 't1',
  tool_call_id: null,
  tool_name: 'Bash',
  arguments: { command: 'npm publish' },
  asked_at: at,
  deadline: at,
  status: 'waiting',
  scope: null,
  decided_by: null,
  decided_at: null,
  reason: null,
  may_have_run: false,
  ...more,
})

export const taskOf = (more: Partial<Task> = {}): Task => ({
  taskId: 'T-1',
  title: 'A task',
  status: 'pending',
  priority: 0,
  impact: 0,
  assignee: null,
  reason: null,
  dependencies: [],
  createdAt: at,
  updatedAt: at,
  waitsFor: null,
  problem: null,
  nextStep: { what: 'run', who: 'coder', at: null, text: 'coder runs it next.' },
  waitCode: null,
  waitUntil: null,
  recovery: null,
  budget: null,
  costMicros: null,
  next: null,
  ...more,
})

export const componentOf = (more: Partial<Component> = {}): Component => ({
  kind: 'view',
  name: 'shared',
  state: 'ok',
  own_state: more.state ?? 'ok',
  because: null,
  restarts: 0,
  error: null,
  depends_on: [],
  ...more,
})

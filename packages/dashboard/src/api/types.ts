/** Names for the shapes that the pages use. The HTTP contract describes them; only types are imported, so zod stays out. */
import type {
  Agent,
  ResponseOf,
  BoardTask,
  BoardTaskDetail,
  BodyFor,
  ChildTurn,
  EventOf,
  TurnDetail,
} from '@bellwether/protocol/http'

export type {
  Agent,
  Approval,
  ApprovalGrant,
  Card,
  ChildTurn,
  Component,
  Entry,
  EvalCaseDetail,
  EvalCaseLine,
  EvalCell,
  EvalRun,
  EvalRunLine,
  EvalSuite,
  Fallback,
  Fire,
  Intervention,
  LineComment,
  Question,
  ReplayReport as Replay,
  Schedule,
  ScheduleInput,
  Span,
  TranscriptEntry,
  Trends,
  Turn,
  TurnDetail,
  TurnFile,
  Worker,
} from '@bellwether/protocol/http'

export type ApprovalDecision = BodyFor<'POST /projects/:project/approvals/:approval/decision'>
export type Fork = BodyFor<'POST /projects/:project/turns/:turn/fork'>
export type Me = ResponseOf<'GET /me'>
export type Head = NonNullable<Agent['state']>
export type LastTurn = NonNullable<Agent['last_turn']>
/** All agents of a project, read page by page. */
export interface Agents {
  readonly agents: readonly Agent[]
  /** There are more than the dashboard reads. */
  readonly cut: boolean
  readonly readAtMs: number
}

export type Step = TurnDetail['steps'][number]
export type Wait = TurnDetail['waits'][number]
export type TurnIntervention = TurnDetail['interventions'][number]
export type TurnBudget = NonNullable<TurnDetail['budget']>
export type Relative = NonNullable<TurnDetail['parent']> & Partial<ChildTurn>
/** What the dashboard reads of an event of a project. */
export type LiveEvent = Pick<
  EventOf<'GET /projects/:project/events', 'state'>,
  'kind' | 'agent_turn_id' | 'payload' | 'created_at'
>

export type TurnChanges = ResponseOf<'GET /projects/:project/turns/:turn/changes'>
export type BulkTurns = BodyFor<'POST /projects/:project/turns/bulk'>
export type BulkTasks = BodyFor<'POST /board/tasks/bulk'>
export type NewTurn = BodyFor<'POST /projects/:project/agents/:agent/turns'>
export type FieldSpec = NonNullable<NewTurn['result_fields']>[number]
export type ToolAnswer = BodyFor<'POST /projects/:project/tool-calls/:call/result'>

export type Task = BoardTask
export type TaskDetail = BoardTaskDetail
/** What a person writes into a task. */
export type TaskFields = Pick<
  BodyFor<'PATCH /board/tasks/:task'>,
  'title' | 'instruction' | 'agent' | 'priority' | 'checks' | 'review'
>
export type TaskAction = NonNullable<BodyFor<'PATCH /board/tasks/:task'>['action']>
export type Recovery = NonNullable<Task['recovery']>
export type TaskBudget = NonNullable<Task['budget']>
/** The place of a ready task in the queue, and the reason. */
export type QueuePlace = NonNullable<Task['next']>
export type Run = TaskDetail['runs'][number]
export type Choice = ResponseOf<'GET /board/tasks'>['choice']

export type Health = ResponseOf<'GET /health/components'>
export type Hold = ResponseOf<'GET /quotas'>['holds'][number]
export type Spending = ResponseOf<'GET /quotas'>['limits'][number]

export type ViewStats = Extract<ResponseOf<'GET /views/:view/stats'>, { readonly sources: object }>
export type SourceStats = ViewStats['sources'][string]
export type Sensor = ResponseOf<'GET /views/:view/sessions'>['sessions'][number]
export type FoundFiles = ResponseOf<'GET /views/:view/search'>

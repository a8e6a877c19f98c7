/**
 * The HTTP contract: every route with its request, its responses and its events, as one table of zod schemas. The server
 * validates requests with it, checks its handlers' types against it and derives OpenAPI from it; clients take their types
 * from it. Import types only where zod must not be loaded (clients, the dashboard).
 */
import type { z } from 'zod'
import { agentRoutes } from './agents.js'
import { approvalRoutes } from './approvals.js'
import { batchRoutes } from './batches.js'
import { boardRoutes } from './board.js'
import { bulkRoutes } from './bulk.js'
import { cardRoutes } from './cards.js'
import { evalRoutes } from './evals/routes.js'
import { eventRoutes } from './events.js'
import { healthRoutes } from './health.js'
import { keyRoutes } from './keys.js'
import { pipeRoutes } from './pipe.js'
import { quotaRoutes } from './quotas.js'
import { scheduleRoutes } from './schedules.js'
import { signInRoutes } from './sign-in.js'
import { spanRoutes } from './spans.js'
import { toolCallRoutes } from './tool-calls.js'
import { trailRoutes } from './trails.js'
import { transcriptRoutes } from './transcript.js'
import { trendRoutes } from './trends.js'
import { turnRoutes } from './turns.js'
export type { ChildTurn, ChildTurnRow } from './turns/relatives.js'
import { viewRoutes } from './views.js'
import { workerRoutes } from './workers.js'

/** The routes by resource, for the reference page. */
export const routeGroups = {
  Agents: agentRoutes,
  Turns: { ...turnRoutes, ...spanRoutes },
  Transcripts: transcriptRoutes,
  Trails: trailRoutes,
  'Tool calls and questions': toolCallRoutes,
  Approvals: approvalRoutes,
  Batches: batchRoutes,
  Trends: trendRoutes,
  'Bulk actions': bulkRoutes,
  Schedules: scheduleRoutes,
  Evaluations: evalRoutes,
  'Cards and boxes': cardRoutes,
  'Events and interventions': eventRoutes,
  'Worker API': workerRoutes,
  Quotas: quotaRoutes,
  'Keys and the audit log': keyRoutes,
  'Signing in': signInRoutes,
  Board: boardRoutes,
  Views: viewRoutes,
  Pipe: pipeRoutes,
  Health: healthRoutes,
} as const

export const routes = {
  ...agentRoutes,
  ...turnRoutes,
  ...spanRoutes,
  ...transcriptRoutes,
  ...trailRoutes,
  ...toolCallRoutes,
  ...approvalRoutes,
  ...batchRoutes,
  ...trendRoutes,
  ...bulkRoutes,
  ...scheduleRoutes,
  ...evalRoutes,
  ...cardRoutes,
  ...eventRoutes,
  ...workerRoutes,
  ...quotaRoutes,
  ...keyRoutes,
  ...signInRoutes,
  ...boardRoutes,
  ...viewRoutes,
  ...pipeRoutes,
  ...healthRoutes,
} as const

export { built } from '../deferred.js'
export { problem, problemType, type Problem } from './problems.js'
export { bodyBytes, eventStream, waitMaxSeconds, type Route } from './shapes.js'
export type { Card, CardRow, FieldSpec, NewCard } from './shapes.js'
export type { Approval, ApprovalGrant, ApprovalRow, GrantRow } from './approvals.js'
export type { Agent, AgentRow, NewAgent, ProjectRow, Worker, WorkerRow } from './agents.js'
export type { BatchLine, BatchRow, BatchTasks } from './batches.js'
export type {
  BoardEvent,
  BoardTask,
  BoardTaskDetail,
  ChangedFile,
  FileVersion,
  DispatchReport,
  FailedCheck,
  FailedFile,
  KnowledgeOutcome,
  LineComment,
  NextStep,
  TaskChanges,
  TaskChoice,
  TaskFailure,
  TaskLine,
  TaskMove,
  TaskPatch,
  TaskRun,
} from './board.js'
export type { BulkTaskRow, BulkTurnRow } from './bulk.js'
export type { BoxPage } from './cards.js'
export type { Hold, HoldRow, Spending, SpendingRow } from './quotas.js'
export { eventWebhookBody, noticeBody } from './events.js'
export type { EventRow, EventWebhookBody, Intervention, InterventionRow, NoticeBody, ProjectEvent } from './events.js'
export type { Component, HealthSummary } from './health.js'
export type { AuditRow, KeyLine, KeyRow } from './keys.js'
export { evalCheck, evalName, evalSuiteFile } from './evals/suite-file.js'
export type { EvalCheck, EvalDefinedCase, EvalDefinition, EvalSuiteFile } from './evals/suite-file.js'
export type {
  EvalCaseDetail,
  EvalCaseLine,
  EvalCell,
  EvalChecked,
  EvalRun,
  EvalRunLine,
  EvalRunRow,
  EvalSuite,
  EvalVariantSummary,
} from './evals/routes.js'
export { scheduleFile, scheduleName } from './schedules.js'
export type { Fire, FireRow, Schedule, ScheduleDefinition, ScheduleInput, ScheduleRow } from './schedules.js'
export { spansMax, spanWithoutDetails } from './spans.js'
export type { Span, SpanRow } from './spans.js'
export type { Question, QuestionRow } from './tool-calls.js'
export type { Trends, TrendsRow } from './trends.js'
export type {
  Fallback,
  StepRow,
  Turn,
  TurnDetail,
  TurnFile,
  TurnMessageRow,
  TurnRow,
  TurnTrail,
  WaitRow,
} from './turns.js'
export type { TranscriptEntry, TranscriptEntryRow } from './transcript.js'
export { forkEdit, trailDocument, trailFormat, trailLimits, trailVersion } from './trails.js'
export type { Difference, ForkEdit, ReplayReport, Trail, TrailCard } from './trails.js'
export { fallbackContent } from './turns.js'
export { entryFieldNames } from './views.js'
export type { Entry, EntryField, SourceChoice, SyncReport, ViewChange } from './views.js'
export type { ToolResult, WorkerTurn } from './workers.js'

export type Routes = typeof routes
/** `METHOD /path`. */
export type RouteKey = keyof Routes

type Part<Key extends RouteKey, Name extends string> = Routes[Key] extends { readonly [K in Name]: infer Schema }
  ? Schema
  : undefined
type InputOf<Schema> = Schema extends z.ZodType ? z.input<Schema> : undefined
type OutputOf<Schema> = Schema extends z.ZodType ? z.output<Schema> : undefined
type JsonResponses<Key extends RouteKey> = Extract<Routes[Key]['responses'][keyof Routes[Key]['responses']], z.ZodType>

/** What the server reads from a request. */
export type ParamsOf<Key extends RouteKey> = OutputOf<Part<Key, 'params'>>
export type QueryOf<Key extends RouteKey> = OutputOf<Part<Key, 'query'>>
export type BodyOf<Key extends RouteKey> = OutputOf<Part<Key, 'body'>>
/** What a client sends. It may pass query values as numbers and booleans instead of text. */
export type ParamsFor<Key extends RouteKey> = InputOf<Part<Key, 'params'>>
export type QueryFor<Key extends RouteKey> = Writable<InputOf<Part<Key, 'query'>>, QueryOf<Key>>
export type BodyFor<Key extends RouteKey> = InputOf<Part<Key, 'body'>>
type Writable<Input, Output> = Input extends undefined
  ? undefined
  : {
      readonly [Name in keyof Input]:
        | Input[Name]
        | (Name extends keyof Output ? Extract<Output[Name], number | boolean> : never)
    }
/** All that a client passes to call a route. A part is optional if nothing in it is required. */
export type RequestFor<Key extends RouteKey> = Declared<'params', ParamsFor<Key>> &
  Declared<'query', QueryFor<Key>> &
  Declared<'body', BodyFor<Key>>
/** One part of a request, if the route declares it. */
export type Declared<Name extends string, Value> = [Value] extends [undefined]
  ? { readonly [K in Name]?: undefined }
  : object extends Value
    ? { readonly [K in Name]?: Value }
    : { readonly [K in Name]: Value }
/** What the server returns: a time may be a Date. */
export type ResponseFrom<Key extends RouteKey> = z.input<JsonResponses<Key>>
/** What a client receives. */
export type ResponseOf<Key extends RouteKey> = z.output<JsonResponses<Key>>
/** Routes below `/api/v1`. */
export type ApiKey = { [Key in RouteKey]: Routes[Key] extends { readonly outside: true } ? never : Key }[RouteKey]
/** Routes that respond with server-sent events. */
export type StreamKey = { [Key in RouteKey]: Part<Key, 'events'> extends undefined ? never : Key }[RouteKey]
/** The names of a stream's events; `*` stands for all others. */
export type EventName<Key extends StreamKey> = keyof Part<Key, 'events'> & string
/** The data of an event of a stream. */
export type EventOf<Key extends RouteKey, Name extends string> =
  Part<Key, 'events'> extends { readonly [K in Name]: infer Schema } ? OutputOf<Schema> : never

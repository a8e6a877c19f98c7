/**
 * The board over HTTP: methods, paths and status codes. board/dispatch/requests.ts runs the commands. The server is one of
 * several writers, which the locks of the task root admit one at a time; it reads the log again before each response.
 */
import { defined, linkAbort, type Clock, type Log } from '@bellwether/base'
import { apiBase, bulkMax, Terminal } from '@bellwether/protocol'
import { waitMaxSeconds, type QueryOf, type TaskPatch } from '@bellwether/protocol/http'
import type { FastifyRequest } from 'fastify'
import type { CachePorts } from '../../board/dispatch/caches.js'
import type { Dispatcher } from '../../board/dispatch/dispatcher.js'
import { runAutopilot } from '../../board/dispatch/autopilot.js'
import { bulkTasks } from '../../board/dispatch/bulk.js'
import { dispatch } from '../../board/dispatch/dispatch.js'
import { openChanges } from '../../board/dispatch/evidence/read-changes.js'
import { controlRequest, createRequest, patchRequest } from '../../board/dispatch/requests.js'
import type { BoardState, Task } from '../../board/log/task.js'
import type { Feed } from '../../board/log/feed.js'
import { policiesForReading } from '../../board/policies/reading.js'
import { taskIn } from '../../board/tasks/find-task.js'
import { openRun, pausedBy, textField } from '../../board/tasks/task-fields.js'
import { selectTasks, taskView, type TaskFilter, type TaskView } from '../../board/tasks/task-view.js'
import { readTurnStatuses } from '../../kernel/reads/turn-detail.js'
import type { Queryable } from '../../ports/database/database.js'
import { linkClient, type Api } from '../api.js'
import { mustBeLive } from '../auth.js'
import { runBulk } from '../bulk/bulk-report.js'
import { boardStreams } from '../board-stream.js'
import { isUnlimited } from '../roles.js'
import { serveStream } from '../sse.js'
import { costOf, openMoments, openTaskCosts, openTaskPages, orNothing, taskStateOf } from '../task-details.js'

export interface BoardParts {
  readonly dispatcher: Dispatcher
  readonly caches: CachePorts
  readonly feed: Feed
  /** The project whose agents run the tasks: a key of another project cannot reach the board. */
  readonly projectId: string
  /** Whether an unlimited admin key may set commands of tasks. */
  readonly adminCommands?: boolean | undefined
  readonly clock: Clock
  readonly log: Log
  readonly signal: AbortSignal
}

export function boardRoutes(api: Api, parts: BoardParts, db: Queryable): void {
  const { dispatcher, caches, clock } = parts
  const costs = openTaskCosts(db)
  const policies = () => policiesForReading(() => dispatcher.policies())
  const moment = openMoments({ ...dispatcher, policies }, clock)
  const pageOf = openTaskPages()
  const changesOf = openChanges(dispatcher)
  /** The actor of the log line. */
  const by = ({ grant }: FastifyRequest) => (grant.name ?? grant.keyId).slice(0, 128)

  api('GET /board/tasks', async ({ query }) => {
    const now = await moment()
    const { cursor: after, limit, min_cost_micros: minCostMicros, needs_person: needsPerson, ...rest } = query
    const filter = { ...filterOf(rest), minCostMicros }
    const page = { ...filter, needsPerson, cursor: after, limit }
    const { tasks: known, lines, total, cursor } = pageOf(now, defined(page), await costFor(now.state, filter))
    const micros = await costs.of(known)
    const tasks = lines.map((line, at) => ({ ...line, costMicros: costOf(known[at]!, micros) }))
    return { tasks, total, cursor, choice: now.choice, paused: pausedBy(now.state) }
  })

  /** Reads all costs, but only for a filter by cost. */
  async function costFor(state: BoardState, { minCostMicros }: TaskFilter): Promise<(task: Task) => number | null> {
    if (minCostMicros === undefined) return () => null
    const micros = await costs.of([...state.tasks.values()])
    return (task) => costOf(task, micros)
  }

  async function detailOf({ taskId }: Pick<TaskView, 'taskId'>) {
    const now = await moment()
    const view = taskView(now.state, taskId, now.nowMs, now.rules)
    const task = now.state.tasks.get(taskId)!
    const micros = await costs.of([task])
    const turns = task.runs.flatMap((run) => run.agentTurnId ?? [])
    const standings = await orNothing(readTurnStatuses(db, parts.projectId, turns))
    const runs = task.runs.map((run) => ({
      ...run,
      costMicros: micros.get(run.agentTurnId ?? '') ?? null,
      turnStatus: standings.get(run.agentTurnId ?? '') ?? null,
    }))
    const changes = await changesOf(task)
    return { ...view, ...taskStateOf(task, now), costMicros: costOf(task, micros), runs, changes }
  }

  /** The board runs the commands of a task on this machine: a key over HTTP selects checks that a file defines. */
  const mustNotCommand = ({ grant }: FastifyRequest, { verify = [] }: Pick<TaskPatch, 'verify'>) => {
    if (verify.length === 0 || (parts.adminCommands === true && grant.role === 'admin' && isUnlimited(grant))) return
    throw new Terminal('Cannot set "verify": a key may not choose commands that run on the server', {
      code: 'forbidden',
      hint: 'use "checks" (GET /board/checks lists them), or run bellwether task add or edit --verify in the task root',
    })
  }

  api('GET /board/checks', async () => {
    const { acceptance } = await dispatcher.policies()
    return {
      checks: Object.entries(acceptance.checks).map(([name, { description }]) => ({
        name,
        description: description ?? null,
      })),
    }
  })

  api('POST /board/tasks', async (request) => {
    mustNotCommand(request, request.body)
    return detailOf(await createRequest(dispatcher, request.body, by(request)))
  })

  api('GET /board/tasks/:task', ({ params }) => detailOf({ taskId: params.task }))

  api('GET /board/tasks/:task/history', async ({ params, query }) => {
    taskIn(await dispatcher.board.sync(), params.task)
    return dispatcher.board.history(params.task, query.limit)
  })

  api('PATCH /board/tasks/:task', async (request) => {
    mustNotCommand(request, request.body)
    return detailOf(await patchRequest(dispatcher, request.params.task, request.body, by(request)))
  })

  api('POST /board/tasks/bulk', async (request) => {
    const { body } = request
    const { state } = await moment()
    const tasks = bulkTasks(dispatcher, body, by(request))
    let chosen: readonly Task[] | undefined
    if (body.filter !== undefined) {
      const { min_cost_micros: minCostMicros, ...rest } = body.filter
      const filter = { ...filterOf(rest), minCostMicros }
      chosen = selectTasks(state.tasks.values(), filter, await costFor(state, filter))
    }
    const seen = new Map((body.tasks ?? []).map((one) => [one.taskId, one.updatedAt]))
    const rows = await Promise.all(
      (chosen?.slice(0, bulkMax).map(({ taskId }) => taskId) ?? [...seen.keys()]).map(async (taskId) => {
        const task = state.tasks.get(taskId)
        const why =
          task === undefined
            ? 'there is no such task'
            : (changedSince(task, seen.get(taskId)) ?? (await tasks.preview(task)))
        return {
          taskId,
          title: task?.title ?? null,
          status: task?.status ?? null,
          priority: task?.priority ?? null,
          agent: task === undefined ? null : textField(task, 'agent'),
          updatedAt: task?.updatedAt ?? null,
          result: why === null ? ('affected' as const) : ('unaffected' as const),
          reason: why,
        }
      }),
    )
    return runBulk(request, body, {
      rows,
      more: (chosen?.length ?? 0) > bulkMax,
      // The lock of the board admits one write at a time.
      atOnce: 1,
      async act({ taskId }) {
        const task = taskIn(dispatcher.board.state, taskId)
        const why = changedSince(task, seen.get(taskId)) ?? (await tasks.preview(task))
        if (why !== null) return { result: 'unaffected' as const, reason: why }
        await tasks.run(task, seen.get(taskId))
        return { updatedAt: taskIn(dispatcher.board.state, taskId).updatedAt }
      },
      alone: ({ taskId }) => ({ method: 'PATCH', path: `${apiBase}/board/tasks/${taskId}` }),
      log: parts.log,
    })
  })

  /** A turn may take an hour. A request stops waiting earlier, and the reconciler closes the run. */
  async function within<T>(
    { raw, grant }: Pick<FastifyRequest, 'raw' | 'grant'>,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const client = linkClient(raw, parts.signal)
    const link = linkAbort(client.signal)
    const timer = clock.sleep(waitMaxSeconds * 1_000, link.signal).then(() => link.abort())
    try {
      const report = await work(link.signal)
      mustBeLive(grant)
      return report
    } finally {
      link.abort()
      client.abort()
      await timer
    }
  }

  api('POST /board/tasks/:task/dispatch', async (request, reply) => {
    const { task } = request.params
    const report = await within(request, (signal) => dispatch(dispatcher, task, signal))
    const known = dispatcher.board.state.tasks.get(task)
    if (known !== undefined && openRun(known) !== null) void reply.code(202)
    return report
  })

  api('POST /board/autopilot', (request) =>
    within(request, (signal) => runAutopilot(dispatcher, caches, { ...request.body, signal })),
  )

  api('POST /board/control', (request) => controlRequest(dispatcher, request.body, by(request)))

  const open = boardStreams(parts)
  const serve = serveStream('events of the board', parts)

  api('GET /board/events', ({ headers, query }, reply) => {
    const last = headers['last-event-id']
    const cursor = typeof last === 'string' && /^\d{1,15}$/.test(last) ? Number(last) : (query.cursor ?? null)
    return serve(reply, () => open(cursor))
  })
}

type FilterQuery = Omit<QueryOf<'GET /board/tasks'>, 'cursor' | 'limit' | 'min_cost_micros' | 'needs_person'>

function filterOf({ since, until, ...rest }: Partial<FilterQuery>): TaskFilter {
  const msOf = (time: string | undefined) => (time === undefined ? undefined : Date.parse(time))
  return { ...rest, sinceMs: msOf(since), untilMs: msOf(until) }
}

const changedSince = ({ updatedAt }: Task, known: string | undefined) =>
  known === undefined || known === updatedAt ? null : 'it has changed since the preview'

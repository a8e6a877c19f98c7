/**
 * The board over HTTP. What a body may say, and what is done about it, is the board's (board/requests.ts); here are methods, paths and
 * status codes. The server is one writer among those that the root's locks let in; what others wrote is read before it is shown.
 */
import type { Clock, Log } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { CachePorts } from '../../board/dispatch/caches.js'
import type { Dispatcher } from '../../board/dispatch/dispatcher.js'
import type { Feed } from '../../board/log/feed.js'
import { openRun, pausedBy } from '../../board/tasks/task-fields.js'
import {
  autopilotRequest,
  controlRequest,
  createRequest,
  dispatchRequest,
  patchRequest,
} from '../../board/dispatch/requests.js'
import { taskStatuses } from '../../board/log/task.js'
import { listTasks, taskView, type TaskView } from '../../board/tasks/task-view.js'
import { readTurnStatuses } from '../../kernel/reads/turn-detail.js'
import type { Queryable } from '../../ports/database/database.js'
import { id, limitOf, waitMaxSeconds, wholeCursor, whileAsked, type Api } from '../api.js'
import { yes } from '../query.js'
import { mustReachProject } from '../roles.js'
import { openEventStream } from '../sse.js'
import { costOf, momentOf, openTaskCosts, orNothing, taskFacts } from '../task-details.js'

export interface BoardParts {
  readonly dispatcher: Dispatcher
  readonly caches: CachePorts
  readonly feed: Feed
  /** The project whose agents do the tasks: a key that is limited to another does not reach the board. */
  readonly projectId: string
  readonly clock: Clock
  readonly log: Log
  readonly signal: AbortSignal
}

const oneTask = z.object({ task: id })
// Each is a connection, and a look at the log's end.
const followersMax = 256
const pingMs = 15_000
const lookMs = 500

export function boardRoutes(app: Api, parts: BoardParts, db: Queryable): void {
  const { dispatcher, caches, clock, log } = parts
  const costs = openTaskCosts(db)
  const moment = async () =>
    momentOf(await dispatcher.board.sync(), clock.wallMs(), dispatcher.settings.firstAgent, await dispatcher.policies())
  /** Who signs the line. */
  const by = ({ grant }: FastifyRequest) => (grant.name ?? grant.keyId).slice(0, 128)
  // Before the body is read, behind the hook that knows whose key it is.
  app.addHook('onRequest', async ({ grant }) => mustReachProject(grant, parts.projectId))

  const list = {
    querystring: z.object({
      status: z.enum(taskStatuses).optional(),
      done: yes,
      cursor: wholeCursor,
      limit: limitOf(1_000, 100),
    }),
    summary: 'Tasks, in the order in which they would be tried',
  }
  app.get('/board/tasks', { schema: list }, async ({ query }) => {
    const now = await moment()
    const { state } = now
    const { status, done, cursor, limit } = query
    const page = listTasks(state, now.nowMs, now.rules, {
      limit,
      ...(status === undefined ? {} : { status }),
      ...(done === undefined ? {} : { done }),
      ...(cursor === undefined ? {} : { cursor }),
    })
    const known = page.tasks.map(({ taskId }) => state.tasks.get(taskId)!)
    const lines = page.tasks.map((line, at) => ({ ...line, ...taskFacts(known[at]!, now) }))
    const paused = pausedBy(state)
    const micros = await costs.of(known)
    const tasks = lines.map((line, at) => ({ ...line, costMicros: costOf(known[at]!, micros) }))
    return { ...page, tasks, choice: now.choice, paused }
  })

  /** With everything that is known of it, and how its turns stand. */
  async function whole({ taskId }: Pick<TaskView, 'taskId'>) {
    const now = await moment()
    const view = taskView(now.state, taskId, now.nowMs, now.rules)
    const task = now.state.tasks.get(taskId)!
    const facts = taskFacts(task, now)
    const micros = await costs.of([task])
    const turns = task.runs.flatMap((run) => run.agentTurnId ?? [])
    const standings = await orNothing(readTurnStatuses(db, parts.projectId, turns))
    const runs = task.runs.map((run) => ({
      ...run,
      costMicros: micros.get(run.agentTurnId ?? '') ?? null,
      turnStatus: standings.get(run.agentTurnId ?? '') ?? null,
    }))
    return { ...view, ...facts, costMicros: costOf(task, micros), runs }
  }

  const add = { body: z.looseObject({ title: z.string() }), summary: 'Add a task' }
  app.post('/board/tasks', { schema: add }, async (request, reply) => {
    const task = await createRequest(dispatcher, request.body, by(request))
    return reply.code(201).send(await whole(task))
  })

  const one = { params: oneTask, summary: 'One task with its runs and what it waits for' }
  app.get('/board/tasks/:task', { schema: one }, ({ params }) => whole({ taskId: params.task }))

  const patch = {
    params: oneTask,
    body: z.looseObject({}),
    summary: 'Change a task’s words, or make one move (`action`)',
  }
  app.patch('/board/tasks/:task', { schema: patch }, (request) =>
    patchRequest(dispatcher, request.params.task, request.body, by(request)).then(whole),
  )

  /** Turns may take an hour; a request does not wait that long, and what it leaves is the reconciler's. */
  async function within<T>(request: FastifyRequest, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const asked = whileAsked(request.raw, parts.signal)
    const over = new AbortController()
    const stop = () => over.abort()
    asked.signal.addEventListener('abort', stop, { once: true })
    if (asked.signal.aborted) stop()
    const timer = clock.sleep(waitMaxSeconds * 1_000, over.signal).then(stop)
    try {
      return await work(over.signal)
    } finally {
      stop()
      asked.done()
      await timer
    }
  }

  const dispatch = {
    params: oneTask,
    summary: 'Dispatch a task now and report what came of it',
    description: `Answers 202 when its turn is still under way after ${waitMaxSeconds} s: the autopilot, or the next dispatch, settles it.`,
  }
  app.post('/board/tasks/:task/dispatch', { schema: dispatch }, async (request, reply) => {
    const { task } = request.params
    const report = await within(request, (signal) => dispatchRequest(dispatcher, task, signal))
    const known = dispatcher.board.state.tasks.get(task)
    return reply.code(known !== undefined && openRun(known) !== null ? 202 : 200).send(report)
  })

  const autopilot = { summary: 'Let the autopilot make some steps: `{maxSteps?}`' }
  app.post('/board/autopilot', { schema: autopilot }, (request) =>
    within(request, (signal) => autopilotRequest(dispatcher, caches, request.body, signal)),
  )

  const control = { summary: 'Pause or resume the whole board: `{paused, reason?}`' }
  app.post('/board/control', { schema: control }, (request) => controlRequest(dispatcher, request.body, by(request)))

  let followers = 0
  // One reader of the log serves them all, one question at a time.
  let line: Promise<unknown> = Promise.resolve()
  const since = (cursor: number | null) => {
    const page = line.then(() => parts.feed.since(cursor))
    line = page.catch(() => undefined)
    return page
  }

  const events = {
    querystring: z.object({ cursor: wholeCursor }),
    summary: 'Events of the board (text/event-stream)',
  }
  app.get('/board/events', { schema: events, exposeHeadRoute: false }, async (request, reply) => {
    if (followers >= followersMax)
      throw new Retryable('too many readers follow the board', { code: 'busy', afterMs: 5_000 })
    const told = request.headers['last-event-id']
    const last = typeof told === 'string' && /^\d{1,15}$/.test(told) ? Number(told) : (request.query.cursor ?? null)
    followers += 1
    reply.hijack()
    try {
      await follow(last, reply)
    } catch (error) {
      log.error({ err: error }, 'a stream of the board’s events failed')
      reply.raw.destroy()
    } finally {
      followers -= 1
    }
  })

  async function follow(last: number | null, reply: FastifyReply): Promise<void> {
    const out = openEventStream(reply.raw, parts.signal)
    let cursor = last ?? (await since(null)).cursor
    if (last === null) await out.send({ id: String(cursor), event: 'hello', data: { cursor } })
    let pingedMs = clock.monotonicMs()
    while (!out.signal.aborted) {
      const page = await since(cursor)
      if (page.reset) await out.send({ id: '0', event: 'reset', data: { cursor: 0 } })
      let at = page.cursor - page.events.length
      for (const event of page.events) {
        at += 1
        await out.send({ id: String(at), event: event.type, data: event })
      }
      cursor = page.cursor
      if (page.more) continue
      if (clock.monotonicMs() - pingedMs >= pingMs) {
        pingedMs = clock.monotonicMs()
        await out.ping()
      }
      await clock.sleep(lookMs, out.signal)
    }
    out.end()
  }
}

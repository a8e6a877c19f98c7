/** Schedules: list, define, pause, run now, history. A schedule of a file is read-only here, except for pausing and running it. */
import type { ParamsOf, ScheduleDefinition, ScheduleRow } from '@bellwether/protocol/http'
import { listFires, listSchedules, readFire, readSchedule } from '../../kernel/reads/schedules.js'
import { defineSchedule, removeSchedule, runNow, setPaused } from '../../pmo/schedules/definitions.js'
import { timingOf } from '../../pmo/schedules/timing.js'
import { notFound, type Api, type KernelParts } from '../api.js'
import { callerName } from '../auth.js'
import { once } from '../idempotency.js'

const nextMax = 5

type ScheduleParams = ParamsOf<'GET /projects/:project/schedules/:schedule'>

export function scheduleRoutes(api: Api, { kernel, log }: KernelParts): void {
  const { db } = kernel

  async function scheduleOf(project: string, schedule: string) {
    const row = await readSchedule(db, project, schedule)
    if (row === undefined) throw notFound(`Schedule "${schedule}" in project "${project}"`)
    return withNextFires(row)
  }

  api('GET /projects/:project/schedules', async ({ params, query }) => {
    const { schedules, cursor } = await listSchedules(db, params.project, query.cursor, query.limit)
    return { schedules: schedules.map(withNextFires), cursor }
  })

  api('POST /projects/:project/schedules', async ({ params, body, grant }) => {
    const { schedule, definition } = body
    const name = { projectId: params.project, schedule }
    await defineSchedule(kernel, name, { definition, by: callerName(grant), must: 'create' })
    return scheduleOf(params.project, schedule)
  })

  api('GET /projects/:project/schedules/:schedule', ({ params }) => scheduleOf(params.project, params.schedule))

  api('PUT /projects/:project/schedules/:schedule', async ({ params, body, grant }) => {
    const { project: projectId, schedule } = params
    const { definition } = body
    await defineSchedule(kernel, { projectId, schedule }, { definition, by: callerName(grant), must: 'replace' })
    return scheduleOf(projectId, schedule)
  })

  api('DELETE /projects/:project/schedules/:schedule', async ({ params }) => {
    const { project: projectId, schedule } = params
    await removeSchedule(kernel, { projectId, schedule })
    return { schedule }
  })

  const setTo = async (params: ScheduleParams, by: string, paused: boolean) => {
    const { project: projectId, schedule } = params
    await setPaused(kernel, { projectId, schedule }, { by, paused })
    return scheduleOf(projectId, schedule)
  }

  api('POST /projects/:project/schedules/:schedule/pause', ({ params, grant }) =>
    setTo(params, callerName(grant), true),
  )

  api('POST /projects/:project/schedules/:schedule/resume', ({ params, grant }) =>
    setTo(params, callerName(grant), false),
  )

  api('POST /projects/:project/schedules/:schedule/run', (request, reply) => {
    const { project: projectId, schedule } = request.params
    return once(kernel, request, reply, projectId, async (requestId) => {
      const name = { projectId, schedule }
      const instant = await runNow(kernel, name, { by: callerName(request.grant), requestId }, log)
      return (await readFire(db, name, instant))!
    })
  })

  api('GET /projects/:project/schedules/:schedule/fires', async ({ params, query }) => {
    const { project, schedule } = params
    const before = query.cursor === undefined ? null : new Date(query.cursor)
    const page = await listFires(db, project, { schedule, before, limit: query.limit })
    // The history of a deleted schedule stays.
    if (page.fires.length === 0) await scheduleOf(project, schedule)
    return page
  })
}

function withNextFires({ next_fire_at: next, ...row }: ScheduleRow) {
  return { ...row, next_fires: next === null || row.definition === null ? [] : nextFires(row.definition, next) }
}

function nextFires(definition: ScheduleDefinition, first: Date): Date[] {
  const timing = timingOf(definition)
  const fires = [first]
  if ('problem' in timing) return fires
  while (fires.length < nextMax) {
    const next = timing.next(fires.at(-1)!.getTime())
    if (next === undefined) break
    fires.push(new Date(next))
  }
  return fires
}

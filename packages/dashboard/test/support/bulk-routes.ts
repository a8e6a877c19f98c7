/** Bulk routes and the pause of the board over the fixture data. What was changed is remembered, as on a server. */
import { defined } from '@bellwether/base'
import { bulkCounts } from '@bellwether/protocol'
import type { Handlers } from './handlers.js'

export const bulkHandlers: Handlers = {
  'POST /projects/:project/turns/bulk': ({ world }, { body }) => {
    const { changed, failing } = world.state
    const isStop = body.action === 'stop'
    const ids = body.turns ?? world.turns.map((turn) => turn.agent_turn_id)
    const rows = ids.map((id) => {
      const turn = world.turns.find((one) => one.agent_turn_id === id)!
      const isOver = turn.outcome !== null || changed.has(id)
      const why =
        isStop === isOver ? (isStop ? `it has ended: ${turn.outcome ?? 'canceled'}` : 'it has not ended') : null
      const fails = why === null && !body.dry_run && failing.delete(id)
      if (why === null && !body.dry_run && !fails) changed.add(id)
      return {
        agent_turn_id: id,
        agent_id: turn.agent_id,
        status: turn.status,
        result: fails ? ('failed' as const) : why === null ? ('affected' as const) : ('unaffected' as const),
        reason: fails ? world.say('the database is unavailable') : why === null ? null : world.say(why),
        new_turn_id: null,
      }
    })
    return { dry_run: body.dry_run, ...bulkCounts(rows), more: false, rows }
  },
  'POST /board/tasks/bulk': ({ world }, { body }) => {
    const { text = '' } = body.filter ?? {}
    const matching = world.tasks.filter(({ title }) => title.toLowerCase().includes(text.toLowerCase()))
    const ids = body.tasks?.map(({ taskId }) => taskId) ?? matching.map(({ taskId }) => taskId)
    const rows = ids.map((taskId, at) => {
      const task = world.tasks.find((one) => one.taskId === taskId)!
      const known = body.tasks?.find((one) => one.taskId === taskId)?.updatedAt ?? task.updatedAt
      const why =
        known !== task.updatedAt
          ? 'it has changed since the preview'
          : task.status === 'done'
            ? `Task "${taskId}" is done, which is final.`
            : null
      const { priority } = task
      if (why === null && !body.dry_run)
        Object.assign(task, defined({ ...body.change }), { updatedAt: new Date(Date.now() + at).toISOString() })
      return {
        taskId,
        title: task.title,
        status: task.status,
        priority,
        agent: null,
        updatedAt: task.updatedAt,
        result: why === null ? ('affected' as const) : ('unaffected' as const),
        reason: why,
      }
    })
    return { dry_run: body.dry_run, ...bulkCounts(rows), more: false, rows }
  },
  'POST /board/control': ({ world }, { body: { paused } }) => {
    world.state.paused = paused ? { by: 'test', at: new Date().toISOString() } : null
    return { paused }
  },
}

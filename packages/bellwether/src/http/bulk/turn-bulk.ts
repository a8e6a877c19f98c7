/**
 * Stops many turns, or runs many again. The rows are decided first, by ids or by a filter; each row is then changed on its own, so that a row
 * that fails leaves the others as they are. Repeating a request is safe: an ended turn is not stopped again, and a turn that was started under
 * the same request id is not started again.
 */
import { defined } from '@bellwether/base'
import { apiBase, bulkMax, outcomes, turnStatuses } from '@bellwether/protocol'
import type { BodyOf, BulkTurnRow, TurnRow } from '@bellwether/protocol/http'
import { listTurns, readTurnsToRepeat, type RepeatableTurn, type TurnFilter } from '../../kernel/reads/turns.js'
import type { Api, KernelParts } from '../api.js'
import { callerName } from '../auth.js'
import { runBulk } from './bulk-report.js'

type Body = BodyOf<'POST /projects/:project/turns/bulk'>

// Pages of a filter that matches rarely: at 1,000 to 5,000 turns per page, at least 20,000 turns are searched.
const pagesMax = 20
// Turns that are changed at once: enough for shared round trips, few enough for other requests.
const atOnce = 16
// What `stop` considers without a status.
const activeStatuses = turnStatuses.filter((status) => !(outcomes as readonly string[]).includes(status))

const instant = (time: string | undefined) => (time === undefined ? undefined : new Date(time))

export function turnBulkRoutes(api: Api, { kernel, tail, log }: KernelParts): void {
  /** The ids that a filter selects, newest first, and whether there are more. */
  async function select(projectId: string, action: Body['action'], filter: NonNullable<Body['filter']>) {
    const { agent: agentId, min_cost_micros: minCostMicros, status, error, text } = filter
    const wanted: TurnFilter = {
      ...{ agentId, minCostMicros, error, text },
      since: instant(filter.since),
      until: instant(filter.until),
      endedSince: instant(filter.ended_since),
      endedUntil: instant(filter.ended_until),
    }
    const statuses = status === undefined && action === 'stop' ? activeStatuses : [status]
    const found: TurnRow[] = []
    let more = false
    for (const one of statuses) {
      let cursor: string | null | undefined
      for (let pages = 0; cursor !== null && pages < pagesMax && found.length <= bulkMax; pages += 1) {
        const page = await listTurns(kernel.db, { ...wanted, status: one, projectId, cursor, limit: bulkMax + 1 })
        found.push(...page.turns)
        cursor = page.cursor
      }
      more ||= cursor !== null
    }
    return { ids: found.slice(0, bulkMax).map((turn) => turn.agent_turn_id), more: more || found.length > bulkMax }
  }

  function plan(action: Body['action'], turn: RepeatableTurn): string | null {
    const isOver = turn.ended_at !== null
    if (action === 'stop') return isOver ? `it has ended: ${turn.outcome}` : null
    if (!isOver) return 'it has not ended'
    return turn.context_box_id === null ? 'it has no instruction to repeat' : null
  }

  api('POST /projects/:project/turns/bulk', async (request) => {
    const { params, body, grant } = request
    const { action, reason, request_id: requestId = '' } = body
    const chosen = body.filter === undefined ? undefined : await select(params.project, action, body.filter)
    const ids = chosen?.ids ?? [...new Set(body.turns)]
    const known = new Map<string, RepeatableTurn>()
    for (const turn of await readTurnsToRepeat(kernel.db, params.project, ids)) known.set(turn.agent_turn_id, turn)
    const planned = ids.map((id): BulkTurnRow => {
      const turn = known.get(id)
      const why = turn === undefined ? 'there is no such turn in this project' : plan(action, turn)
      return {
        agent_turn_id: id,
        agent_id: turn?.agent_id ?? null,
        status: turn?.status ?? null,
        result: why === null ? 'affected' : 'unaffected',
        reason: why,
        new_turn_id: null,
      }
    })

    async function act(turn: RepeatableTurn): Promise<Partial<BulkTurnRow>> {
      if (action === 'stop') {
        const stopping = { projectId: params.project, agentTurnId: turn.agent_turn_id, stoppedBy: callerName(grant) }
        const what = await kernel.stop({ ...stopping, ...defined({ reason }) })
        return what === 'ended' ? {} : { result: 'unaffected', reason: 'it ended before it could be stopped' }
      }
      const started = await kernel.enqueue({
        projectId: params.project,
        agentId: turn.agent_id,
        correlationId: `retry:${requestId}:${turn.agent_turn_id}`,
        ...defined({
          contextBoxId: turn.context_box_id ?? undefined,
          sessionId: turn.session_id ?? undefined,
          channelId: turn.channel_id ?? undefined,
        }),
      })
      const again = { new_turn_id: started.agentTurnId }
      return started.duplicate
        ? { ...again, result: 'unaffected', reason: 'this request started it again before' }
        : again
    }

    try {
      return await runBulk(request, body, {
        rows: planned,
        more: chosen?.more ?? false,
        atOnce,
        act: (row) => act(known.get(row.agent_turn_id)!),
        alone: ({ agent_turn_id: id, agent_id: agent }) => ({
          method: 'POST',
          path: `${apiBase}/projects/${params.project}/${action === 'stop' ? `turns/${id}/stop` : `agents/${agent}/turns`}`,
        }),
        log,
      })
    } finally {
      tail.wake()
    }
  })
}

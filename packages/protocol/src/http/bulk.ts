/**
 * Bulk actions on turns and tasks. A preview (`dry_run`) decides which rows match and what would happen to each; the action names these rows,
 * or repeats the filter with the number that the preview counted. Every row has its own result, and repeating a request changes no row twice.
 */
import { z } from '../deferred.js'
import { taskChange } from '../task-input.js'
import { bulkMax, bulkResults, bulkTaskActions, bulkTurnActions, outcomes, taskStatuses } from '../vocabulary.js'
import { amount, bodyBytes, flag, id, inProject, integer, list, text, type Route } from './shapes.js'
import { turnFilter } from './turns/filter.js'

const instant = z.iso.datetime({ offset: true })
const costMicros = 'at least this cost, in millionths of a dollar'

/** Filters of tasks that a query and a body share. */
const taskFilter = {
  status: z.enum(taskStatuses).optional(),
  agent: text(128).optional().describe('only tasks of this assignee, or that name this agent'),
  outcome: z.enum(outcomes).optional().describe('only tasks whose last run ended so'),
  since: instant.optional().describe('only tasks that changed at this time or later'),
  until: instant.optional().describe('only tasks that changed before this time'),
  error: text(200).optional().describe('only tasks that are blocked or failed for a reason with this text'),
  text: text(200).optional().describe('only tasks with this text in the id, title, instruction or assignee'),
}
/** Of a query. */
export const taskQuery = { ...taskFilter, done: flag, min_cost_micros: integer(1, 1_000_000_000_000) }

const minCost = amount.min(1).optional().describe(costMicros)
const rowResult = z
  .enum(bulkResults)
  .describe('`unaffected`: the action does not apply to the row, or was done before; `failed`: repeat the request')
const report = {
  dry_run: z.boolean(),
  affected: z.number(),
  unaffected: z.number(),
  failed: z.number(),
  more: z.boolean().describe('more rows match than this response has'),
}
const how = {
  expected_affected: z
    .number()
    .int()
    .min(0)
    .max(bulkMax)
    .optional()
    .describe(
      'with a filter: the number that the preview counted; if the filter now affects another number, nothing changes (409 `count_changed`)',
    ),
  dry_run: z.boolean().default(false).describe('say what would happen, and change nothing'),
  reason: text(2_000).optional(),
}

interface Selection {
  readonly filter?: object | undefined
  readonly dry_run: boolean
  readonly expected_affected?: number | undefined
}
const isCounted = ({ filter, dry_run: isDry, expected_affected: expected }: Selection) =>
  filter === undefined || isDry || expected !== undefined
const notCounted = { error: 'a filter needs dry_run, or expected_affected with the number that the preview counted' }
const oneOf = (first: unknown, second: unknown) => (first === undefined) !== (second === undefined)

const turnRow = z.object({
  agent_turn_id: z.string(),
  agent_id: z.string().nullable().describe('null: there is no such turn'),
  status: z.string().nullable().describe('before the action'),
  result: rowResult,
  reason: z.string().nullable().describe('why the row is unaffected or failed'),
  new_turn_id: z.string().nullable().describe('with `retry`: the turn that was started'),
})
export type BulkTurnRow = z.output<typeof turnRow>

const taskRow = z.object({
  taskId: z.string(),
  title: z.string().nullable().describe('null: there is no such task'),
  status: z.string().nullable().describe('before the action'),
  priority: z.number().nullable().describe('before the action'),
  agent: z.string().nullable().describe('before the action; null: the task names no agent'),
  updatedAt: z.string().nullable().describe('after the action'),
  result: rowResult,
  reason: z.string().nullable().describe('why the row is unaffected or failed'),
})
export type BulkTaskRow = z.output<typeof taskRow>

export const bulkRoutes = {
  'POST /projects/:project/turns/bulk': {
    summary: 'Stop many turns, or run many again',
    description:
      'By ids or by filter, at most 1,000 per request. `stop` by a filter without a status considers only turns that have not ended. The audit log has one line per turn that changed.',
    params: inProject,
    bodyBytesMax: bodyBytes.text,
    body: z
      .strictObject({
        action: z.enum(bulkTurnActions),
        turns: z.array(id).min(1).max(bulkMax).optional(),
        filter: turnFilter.omit({ cursor: true, limit: true }).extend({ min_cost_micros: minCost }).strict().optional(),
        request_id: text(100)
          .optional()
          .describe(
            'with `retry`: a repeated request with the same id starts each turn once; required to change anything',
          ),
        ...how,
      })
      .refine(({ turns, filter }) => oneOf(turns, filter), { error: 'must have either turns or filter' })
      .refine(isCounted, notCounted)
      .refine(({ action, dry_run: isDry, request_id: name }) => action !== 'retry' || isDry || name !== undefined, {
        error: 'retry needs request_id, so that a repeated request starts each turn once',
      }),
    responses: { 200: z.object({ ...report, rows: list(turnRow) }) },
  },
  'POST /board/tasks/bulk': {
    summary: 'Run one action on many tasks, or change fields of many',
    description:
      'By ids or by filter, at most 1,000 per request. A task with `updatedAt` is changed only if it has not changed since. The audit log has one line per task that changed.',
    bodyBytesMax: bodyBytes.text,
    body: z
      .strictObject({
        action: z.enum(bulkTaskActions).optional(),
        change: taskChange
          .pick({ priority: true, agent: true })
          .refine((change) => Object.keys(change).length > 0, 'must name priority or agent')
          .optional(),
        tasks: z
          .array(z.strictObject({ taskId: id, updatedAt: z.string().max(40).optional() }))
          .min(1)
          .max(bulkMax)
          .optional(),
        filter: z.strictObject({ ...taskFilter, done: z.boolean().optional(), min_cost_micros: minCost }).optional(),
        ...how,
      })
      .refine(({ action, change }) => oneOf(action, change), { error: 'must have either action or change' })
      .refine(({ tasks, filter }) => oneOf(tasks, filter), { error: 'must have either tasks or filter' })
      .refine(isCounted, notCounted),
    responses: { 200: z.object({ ...report, rows: list(taskRow) }) },
  },
} as const satisfies Record<string, Route>

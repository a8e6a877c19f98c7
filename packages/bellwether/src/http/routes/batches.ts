/** Fork-join over HTTP: a batch of tasks that no turn waits for, and what became of it. */
import { z } from 'zod'
import type { NewBatch } from '../../kernel/verbs/batches/fork.js'
import { listBatches, readBatchOf } from '../../kernel/reads/batches.js'
import { fieldSpec, id, inProject, limitOf, notFound, text, token, words, type Api, type KernelParts } from '../api.js'
import { defined } from '@bellwether/base'
import { once } from '../idempotency.js'

export const batchShape = z.strictObject({
  tasks: z
    .array(
      z.strictObject({
        target_strategy: z.enum(['new', 'reuse', 'clone']),
        target_ref: token,
        instruction: words.min(1).optional(),
        context_box_id: id.optional(),
        result_fields: z.array(fieldSpec).min(1).max(200).optional(),
      }),
    )
    .min(1)
    .max(2_000),
  fail_fast: z.boolean().optional(),
  deadline_seconds: z.number().positive().max(2_592_000).optional(),
})
const batchBody = batchShape.extend({ channel_id: token.optional(), traceparent: text(100).optional() })

export function batchOf(body: z.output<typeof batchShape>): NewBatch {
  return {
    tasks: body.tasks.map((task) => ({
      targetStrategy: task.target_strategy,
      targetRef: task.target_ref,
      ...defined({
        instruction: task.instruction,
        contextBoxId: task.context_box_id,
        resultFields: task.result_fields?.map((field) => ({ ...defined(field), name: field.name })),
      }),
    })),
    ...defined({ failFast: body.fail_fast, deadlineSeconds: body.deadline_seconds }),
  }
}

export function batchRoutes(app: Api, { kernel, tail }: KernelParts): void {
  const add = { params: inProject, body: batchBody, summary: 'Run many tasks and join their results' }
  app.post('/projects/:project/batches', { schema: add }, (request, reply) => {
    const { params, body } = request
    return once(kernel, request, reply, params.project, async (key) => {
      const forked = await kernel.fork({
        projectId: params.project,
        ...batchOf(body),
        ...defined({ key, channelId: body.channel_id, traceparent: body.traceparent }),
      })
      tail.wake()
      return { status: 202, body: { batch_id: forked.batchId, status: 'open' } }
    })
  })

  const list = {
    params: inProject,
    querystring: z.object({ cursor: text(100).default('0'), limit: limitOf(500, 100) }),
    summary: 'Batches that are not settled yet',
  }
  app.get('/projects/:project/batches', { schema: list }, ({ params, query }) =>
    listBatches(kernel.db, params.project, query.cursor === '0' ? '' : query.cursor, query.limit),
  )

  const one = { params: inProject.extend({ batch: id }), summary: 'A batch and each of its tasks, in their order' }
  app.get('/projects/:project/batches/:batch', { schema: one }, async ({ params }) => {
    const batch = await readBatchOf(kernel.db, params.project, params.batch)
    if (batch === undefined) throw notFound(`batch ${params.batch} in project ${params.project}`)
    return batch
  })
}

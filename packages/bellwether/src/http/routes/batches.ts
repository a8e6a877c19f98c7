/** Fork-join: batches of tasks that no turn waits for. */
import { defined } from '@bellwether/base'
import type { BatchTasks } from '@bellwether/protocol/http'
import { listBatches, readBatch } from '../../kernel/reads/batches.js'
import type { NewBatch } from '../../kernel/verbs/batches/fork.js'
import { notFound, type Api, type KernelParts } from '../api.js'
import { once } from '../idempotency.js'

export function batchOf(body: BatchTasks): NewBatch {
  return {
    tasks: body.tasks.map((task) => ({
      targetStrategy: task.target_strategy,
      targetRef: task.target_ref,
      ...defined({
        instruction: task.instruction,
        contextBoxId: task.context_box_id,
        resultFields: task.result_fields,
      }),
    })),
    ...defined({ failFast: body.fail_fast, deadlineSeconds: body.deadline_seconds }),
  }
}

export function batchRoutes(api: Api, { kernel, tail }: KernelParts): void {
  api('POST /projects/:project/batches', (request, reply) => {
    const { params, body } = request
    return once(kernel, request, reply, params.project, async (key) => {
      const forked = await kernel.fork({
        projectId: params.project,
        ...batchOf(body),
        ...defined({ key, channelId: body.channel_id, traceparent: body.traceparent }),
      })
      tail.wake()
      return { batch_id: forked.batchId, status: 'open' }
    })
  })

  api('GET /projects/:project/batches', ({ params, query }) =>
    listBatches(kernel.db, params.project, query.cursor === '0' ? '' : query.cursor, query.limit),
  )

  api('GET /projects/:project/batches/:batch', async ({ params }) => {
    const batch = await readBatch(kernel.db, params.project, params.batch)
    if (batch === undefined) throw notFound(`Batch ${params.batch} in project ${params.project}`)
    return batch
  })
}

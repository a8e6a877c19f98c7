/** Cards and boxes over HTTP: read by id, of one's own project only; context boxes are made whole and never changed. */
import { z } from 'zod'
import { readBoxOf, readCardOf } from '../../kernel/reads/cards.js'
import { cardOf, id, inProject, limitOf, newCard, notFound, wholeCursor, type Api, type KernelParts } from '../api.js'
import { defined } from '@bellwether/base'
import { once } from '../idempotency.js'

const boxBody = z
  .strictObject({
    pack: z.array(id).min(1).max(100).optional(),
    card_ids: z.array(id).min(1).max(10_000).optional(),
    cards: z.array(newCard).min(1).max(1_000).optional(),
  })
  .refine((body) => Object.keys(body).length > 0, { error: 'give pack, card_ids or cards' })

export function cardRoutes(app: Api, { kernel }: KernelParts): void {
  const card = { params: inProject.extend({ card: id }), summary: 'One card' }
  app.get('/projects/:project/cards/:card', { schema: card }, async ({ params }) => {
    const found = await readCardOf(kernel.db, params.project, params.card)
    if (found === undefined) throw notFound(`card ${params.card} in project ${params.project}`)
    return found
  })

  const box = {
    params: inProject.extend({ box: id }),
    querystring: z.object({ cursor: wholeCursor, limit: limitOf(500, 100) }),
    summary: 'The cards of a box, in order',
  }
  app.get('/projects/:project/boxes/:box/cards', { schema: box }, async ({ params, query }) => {
    const page = await readBoxOf(kernel.db, params.project, params.box, query.cursor ?? 0, query.limit)
    if (page === undefined) throw notFound(`box ${params.box} in project ${params.project}`)
    return { box_id: params.box, ...page }
  })

  const make = {
    params: inProject,
    body: boxBody,
    summary: 'Make a context box: packed boxes first, then cards by id, then new cards',
  }
  app.post('/projects/:project/boxes', { schema: make }, (request, reply) => {
    const { params, body } = request
    return once(kernel, request, reply, params.project, async () => {
      const boxId = await kernel.makeBox({
        projectId: params.project,
        ...defined({ pack: body.pack, cardIds: body.card_ids, cards: body.cards?.map(cardOf) }),
      })
      return { status: 201, body: { box_id: boxId } }
    })
  })
}

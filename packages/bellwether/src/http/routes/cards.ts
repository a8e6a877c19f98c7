/** Cards and boxes, of the named project only. A context box is created complete and never changes. */
import { defined } from '@bellwether/base'
import type { NewCard } from '@bellwether/protocol/http'
import { readBoxOf, readCardOf } from '../../kernel/reads/cards.js'
import { notFound, type Api, type KernelParts } from '../api.js'
import { once } from '../idempotency.js'

export const cardOf = ({ card_id: cardId, type, content, role, metadata }: NewCard) => ({
  type,
  content,
  ...defined({ cardId, role, metadata }),
})

export function cardRoutes(api: Api, { kernel }: KernelParts): void {
  api('GET /projects/:project/cards/:card', async ({ params }) => {
    const card = await readCardOf(kernel.db, params.project, params.card)
    if (card === undefined) throw notFound(`Card ${params.card} in project ${params.project}`)
    return card
  })

  api('GET /projects/:project/boxes/:box/cards', async ({ params, query }) => {
    const page = await readBoxOf(kernel.db, params.project, params.box, query.cursor ?? 0, query.limit)
    if (page === undefined) throw notFound(`Box ${params.box} in project ${params.project}`)
    return { box_id: params.box, ...page }
  })

  api('POST /projects/:project/boxes', (request, reply) => {
    const { params, body } = request
    return once(kernel, request, reply, params.project, async () => {
      const boxId = await kernel.makeBox({
        projectId: params.project,
        ...defined({ pack: body.pack, cardIds: body.card_ids, cards: body.cards?.map(cardOf) }),
      })
      return { box_id: boxId }
    })
  })
}

/** Cards and boxes. */
import { z } from '../deferred.js'
import { bodyBytes, card, id, inProject, limit, list, newCard, numberCursor, type Route } from './shapes.js'

const boxPage = z.object({
  kind: z.enum(['context', 'output']),
  cards: list(card.extend({ position: z.number() })),
  cursor: z.number().nullable(),
})

export type BoxPage = z.input<typeof boxPage>

export const cardRoutes = {
  'GET /projects/:project/cards/:card': {
    summary: 'Read a card',
    params: inProject.extend({ card: id }),
    responses: { 200: card },
  },
  'GET /projects/:project/boxes/:box/cards': {
    summary: 'List the cards of a box in order',
    params: inProject.extend({ box: id }),
    query: z.object({ cursor: numberCursor, limit: limit(500, 100) }),
    responses: { 200: boxPage.extend({ box_id: z.string() }) },
  },
  'POST /projects/:project/boxes': {
    summary: 'Create a context box: packed boxes first, then cards by id, then new cards',
    params: inProject,
    bodyBytesMax: bodyBytes.large,
    body: z
      .strictObject({
        pack: z.array(id).min(1).max(100).optional(),
        card_ids: z.array(id).min(1).max(10_000).optional(),
        cards: z.array(newCard).min(1).max(1_000).optional(),
      })
      .refine((body) => Object.keys(body).length > 0, { error: 'must have pack, card_ids or cards' }),
    responses: { 201: z.object({ box_id: z.string() }) },
  },
} as const satisfies Record<string, Route>

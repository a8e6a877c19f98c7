/** Which turns a list shows. Several filters together narrow it. */
import { z } from '../../deferred.js'
import { turnStatuses } from '../../vocabulary.js'
import { integer, limit, text, token } from '../shapes.js'

const instant = z.iso.datetime({ offset: true }).optional()

export const turnFilter = z.object({
  status: z.enum(turnStatuses).optional(),
  agent: token.optional(),
  since: instant.describe('only turns that were queued at this time or later'),
  until: instant.describe('only turns that were queued before this time'),
  ended_since: instant.describe('only turns that ended at this time or later'),
  ended_until: instant.describe('only turns that ended before this time'),
  error: text(200).optional().describe('only turns whose error starts with this text'),
  min_cost_micros: integer(1, 1_000_000_000_000).describe(
    'only turns whose steps report at least this cost, in millionths of a dollar',
  ),
  text: text(200)
    .optional()
    .describe(
      'only turns with these words in the instruction or the deliverable; `"…"` is a phrase, `-word` excludes a word, and the last word may be the beginning of one',
    ),
  cursor: text(100).optional(),
  limit: limit(500, 50),
})

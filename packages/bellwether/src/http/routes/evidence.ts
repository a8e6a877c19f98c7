/**
 * Is it really there? For a board whose files lie on other hosts (hazard 21): a token for "now", and a look at claimed paths,
 * after a barrier and by a scan that begins after the question. Always: what cannot be told is `not_ready`, also while the
 * view cannot be read; every look ends within its time. What follows from it is the board's.
 */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { viewEvidence } from '../../view/queries/file-evidence.js'
import type { Fusion } from '../../view/fusion.js'
import { mustReach } from '../auth.js'
import { read } from '../query.js'

type OfView = FastifyRequest<{ Params: { view: string } }>

const source = z.string().max(1_024).optional()
export const evidenceSource = z.object({ source })
// As many as acceptance looks at; each is a scan that a sensor is asked for.
const pathsMax = 500
export const evidenceQuestion = z.strictObject({
  paths: z.array(z.string().min(1).max(4_096)).max(pathsMax),
  since: z.string().max(32_768).nullable(),
  source,
  /** Seconds. */
  wait: z.number().min(0.1).max(25).optional(),
})

export function evidenceRoutes(app: FastifyInstance, base: string, fusion: Fusion): void {
  const evidenceOf = (request: OfView, sourceId: string | undefined, waitSeconds = 10) => {
    mustReach(request.grant, request.params.view)
    const view = fusion.view(request.params.view)
    const waitMs = waitSeconds * 1_000
    return viewEvidence({ view, clock: fusion.clock, waitMs, ...(sourceId === undefined ? {} : { sourceId }) })
  }

  app.get(`${base}/:view/evidence`, async (request: OfView) => {
    const { source: sourceId } = read(evidenceSource, request.query, 'query')
    return { token: await evidenceOf(request, sourceId).changeToken() }
  })

  app.post(`${base}/:view/evidence`, async (request: OfView) => {
    const asked = read(evidenceQuestion, request.body, 'question')
    return { files: await evidenceOf(request, asked.source, asked.wait).checkFiles(asked.paths, asked.since) }
  })
}

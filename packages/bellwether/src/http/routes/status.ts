/** Whether the server lives, whether it can work, and numbers for Prometheus. Needs no key, but for the numbers on a public address. */
import { pingDatabase } from '../../kernel/reads/database.js'
import type { Clock } from '@bellwether/base'
import type { Queryable } from '../../ports/database/database.js'
import type { Fusion } from '../../view/fusion.js'
import type { Api } from '../api.js'
import { authorize, type Keys } from '../auth.js'
import { viewMetrics } from './health.js'
import { withTimeout } from '../../ports/retry.js'

export interface StatusParts {
  readonly db: Queryable
  readonly clock: Clock
  readonly keys: Keys
  readonly fusion?: Fusion | undefined
  /** The house's own numbers, as Prometheus reads them. */
  readonly metrics?: (() => Promise<string>) | undefined
  /** Whether others than this machine can reach the server. */
  readonly isPublic: boolean
  readonly draining: () => boolean
}

// A database that takes longer cannot serve a request either.
const probeMs = 2_000

export function statusRoutes(app: Api, parts: StatusParts): void {
  app.get('/healthz', { schema: { hide: true } }, async () => ({ status: 'ok' }))

  app.get('/readyz', { schema: { hide: true } }, async (_request, reply) => {
    const database = await withTimeout(parts.clock, probeMs, 'a look at the database', pingDatabase(parts.db)).then(
      () => true,
      () => false,
    )
    const views = [...(parts.fusion?.views.values() ?? [])].map((view) => [view.name, view.ready] as const)
    const ready = database && !parts.draining()
    // A view that no sensor feeds yet keeps nobody from running turns: it is told and does not count.
    const told = { status: ready ? 'ready' : 'not_ready', database, draining: parts.draining() }
    return reply.code(ready ? 200 : 503).send({ ...told, views: Object.fromEntries(views) })
  })

  app.get('/metrics', { schema: { hide: true } }, async (request, reply) => {
    if (parts.isPublic) await authorize(parts.keys, request.headers)
    const texts = [await parts.metrics?.(), parts.fusion && viewMetrics(parts.fusion)]
    return reply.type('text/plain; version=0.0.4').send(texts.filter((one) => one !== undefined).join(''))
  })
}

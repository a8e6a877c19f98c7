/**
 * Serves the dashboard's static files under a strict content security policy. `/` and everything under `/p/` get the same
 * page, which routes in the browser. No key is needed.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import fastifyStatic from '@fastify/static'
import type { FastifyInstance } from 'fastify'

/** The page may load its own files and call its own server. Text that agents wrote cannot run. */
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; " +
  "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
// File names change with the content.
const assetsMs = 31_536_000_000

/** The page is served at each of its routes, so that links and reloads work. */
const files = new Map([
  ['/', 'index.html'],
  ['/login', 'index.html'],
  ['/login/callback', 'index.html'],
  ['/p/*', 'index.html'],
  ['/bell.svg', 'bell.svg'],
])

/** Undefined if the dashboard is not built. */
export function dashboardPages(folder: string): ((app: FastifyInstance) => Promise<void>) | undefined {
  if (!existsSync(join(folder, 'index.html'))) return undefined
  return async (app) => {
    await app.register(fastifyStatic, {
      root: join(folder, 'assets'),
      prefix: '/assets/',
      immutable: true,
      // The build writes a .gz file beside each file.
      preCompressed: true,
      maxAge: assetsMs,
    })
    app.addHook('onRequest', async (request, reply) => {
      const { url } = request.routeOptions
      if (url === '/assets/*' || files.has(url ?? '')) void reply.header('content-security-policy', policy)
    })
    for (const [path, file] of files)
      app.get(path, (_request, reply) =>
        reply.header('cache-control', 'no-cache').sendFile(file, folder, { cacheControl: false }),
      )
  }
}

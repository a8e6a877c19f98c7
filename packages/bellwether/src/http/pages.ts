/**
 * The dashboard's files for browsers: static, hashed, under the strictest policy. Always: `/` and everything under `/p/` get the one
 * page, which knows its own routes; nothing here reads or needs a key.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import fastifyStatic from '@fastify/static'
import type { FastifyInstance } from 'fastify'

/** What the page may do: load its own files, ask its own server. Everything that agents wrote is text to it. */
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; " +
  "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
// Their names change with their content.
const assetsMs = 31_536_000_000

/** The page itself at each of its own routes, so that a link to one of them, or a reload, finds it. */
const files = new Map([
  ['/', 'index.html'],
  ['/p/*', 'index.html'],
  ['/bell.svg', 'bell.svg'],
])

/** Undefined: the dashboard is not built here. */
export function dashboardPages(folder: string): ((app: FastifyInstance) => Promise<void>) | undefined {
  if (!existsSync(join(folder, 'index.html'))) return undefined
  return async (app) => {
    await app.register(fastifyStatic, {
      root: join(folder, 'assets'),
      prefix: '/assets/',
      immutable: true,
      maxAge: assetsMs,
    })
    app.addHook('onRequest', async (request, reply) => {
      const { url } = request.routeOptions
      if (url === '/assets/*' || files.has(url ?? '')) void reply.header('content-security-policy', policy)
    })
    for (const [path, file] of files)
      app.get(path, { schema: { hide: true } }, (_request, reply) =>
        reply.header('cache-control', 'no-cache').sendFile(file, folder),
      )
  }
}

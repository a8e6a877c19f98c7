/** Keys and the audit log over HTTP, for admins; and who one is, for everybody. A new key is shown in its answer and never again. */
import type { Random } from '@bellwether/base'
import { z } from 'zod'
import { readAudit } from '../../kernel/access/audit-log.js'
import { createKey, keyRoles, listKeys, revokeKey, rotateKey } from '../../kernel/access/api-keys.js'
import type { Kernel } from '../../kernel/kernel.js'
import { id, limitOf, text, token, wholeCursor, type Api } from '../api.js'
import { defined } from '@bellwether/base'
import type { KeyStore } from '../key-store.js'
import { mustBeUnlimited } from '../roles.js'

export interface KeyParts {
  readonly kernel: Kernel
  readonly random: Random
  readonly keys: Pick<KeyStore, 'refresh'>
}

const keyBody = z.strictObject({
  role: z.enum(keyRoles),
  name: text(120).optional(),
  view: z
    .string()
    .regex(/^[a-z0-9][a-z0-9_.-]{0,63}$/i)
    .optional(),
  project: token.optional(),
})
const oneKey = z.object({ key: id })
const rotateBody = z.strictObject({ grace_seconds: z.number().min(0).max(604_800).default(0) })

export function keyRoutes(app: Api, { kernel, random, keys }: KeyParts): void {
  app.get('/me', { schema: { summary: 'Whose key this is' } }, async ({ grant }) => ({
    key_id: grant.keyId,
    name: grant.name ?? null,
    role: grant.role,
    view: grant.view ?? null,
    project: grant.project ?? null,
  }))

  app.get('/keys', { schema: { summary: 'All keys, without their secrets' } }, async ({ grant }) => {
    mustBeUnlimited(grant)
    return { keys: await listKeys(kernel.db) }
  })

  app.post('/keys', { schema: { body: keyBody, summary: 'Make a key' } }, async ({ body, grant }, reply) => {
    mustBeUnlimited(grant)
    const { name, view, project } = body
    const made = await createKey(
      kernel.db,
      { ids: kernel.ids, random },
      { role: body.role, by: grant.keyId, ...defined({ name, view, project }) },
    )
    await keys.refresh()
    return reply.code(201).send({ key_id: made.keyId, key: made.key })
  })

  const rotate = { params: oneKey, body: rotateBody, summary: 'A new secret for a key' }
  app.post('/keys/:key/rotate', { schema: rotate }, async ({ params, body, grant }) => {
    mustBeUnlimited(grant)
    const made = await rotateKey(kernel.db, random, params.key, body.grace_seconds)
    await keys.refresh()
    return { key_id: made.keyId, key: made.key }
  })

  app.delete('/keys/:key', { schema: { params: oneKey, summary: 'Revoke a key' } }, async ({ params, grant }) => {
    mustBeUnlimited(grant)
    await revokeKey(kernel.db, params.key)
    await keys.refresh()
    return { key_id: params.key, status: 'revoked' }
  })

  const audit = {
    querystring: z.object({ actor: text(200).optional(), cursor: wholeCursor, limit: limitOf(500, 100) }),
    summary: 'Who did what, newest first',
  }
  app.get('/audit', { schema: audit }, async ({ query, grant }) => {
    mustBeUnlimited(grant)
    const { rows, cursor } = await readAudit(kernel.db, {
      actor: query.actor,
      before: query.cursor,
      limit: query.limit,
    })
    return { audit: rows, cursor }
  })
}

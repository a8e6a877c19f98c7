/** API keys and the audit log, for admins; the key of the request, for everyone. A new secret is shown in one response only. */
import { defined, type Random } from '@bellwether/base'
import { createKey, listKeys, revokeKey, rotateKey } from '../../kernel/access/api-keys.js'
import { readAudit } from '../../kernel/access/audit-log.js'
import type { Kernel } from '../../kernel/kernel.js'
import type { Api } from '../api.js'
import type { KeyStore } from '../key-store.js'
import { mustBeUnlimited } from '../roles.js'

export interface KeyParts {
  readonly kernel: Kernel
  readonly random: Random
  readonly keys: Pick<KeyStore, 'refresh'>
}

export function keyRoutes(api: Api, { kernel, random, keys }: KeyParts): void {
  api('GET /me', ({ grant }) => ({
    key_id: grant.keyId,
    name: grant.name ?? null,
    role: grant.role,
    view: grant.view ?? null,
    project: grant.project ?? null,
    targets: grant.targets ?? null,
  }))

  api('GET /keys', async ({ grant }) => {
    mustBeUnlimited(grant)
    return { keys: await listKeys(kernel.db) }
  })

  api('POST /keys', async ({ body, grant }) => {
    mustBeUnlimited(grant)
    const { name, view, project, targets } = body
    const created = await createKey(
      kernel.db,
      { ids: kernel.ids, random },
      { role: body.role, by: grant.keyId, ...defined({ name, view, project, targets }) },
    )
    await keys.refresh()
    return { key_id: created.keyId, key: created.key }
  })

  api('POST /keys/:key/rotate', async ({ params, body, grant }) => {
    mustBeUnlimited(grant)
    const created = await rotateKey(kernel.db, random, params.key, body.grace_seconds)
    await keys.refresh()
    return { key_id: created.keyId, key: created.key }
  })

  api('DELETE /keys/:key', async ({ params, grant }) => {
    mustBeUnlimited(grant)
    await revokeKey(kernel.db, params.key)
    await keys.refresh()
    return { key_id: params.key, status: 'revoked' }
  })

  api('GET /audit', async ({ query, grant }) => {
    mustBeUnlimited(grant)
    const { actor, cursor: before, limit } = query
    const { rows, cursor } = await readAudit(kernel.db, { actor, before, limit })
    return { audit: rows, cursor }
  })
}

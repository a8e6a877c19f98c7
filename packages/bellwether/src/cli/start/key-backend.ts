/** The two backends of `bellwether keys`: the database, or a server. Both write the same audit log. */
import { userInfo } from 'node:os'
import { defined, systemClock, systemRandom } from '@bellwether/base'
import type { ResponseOf, KeyLine } from '@bellwether/protocol/http'
import type { Client } from '../../client/client.js'
import { writeAudit } from '../../kernel/access/audit-log.js'
import {
  createKey,
  listKeys,
  revokeKey,
  rotateKey,
  type CreatedKey,
  type NewKey,
} from '../../kernel/access/api-keys.js'
import { migrate } from '../../kernel/schema/migrate.js'
import type { Database } from '../../ports/database/database.js'
import { openDatabase } from '../../ports/database/pool.js'
import { uuidv7 } from '../../ports/ids.js'

export interface KeyBackend {
  create(key: Omit<NewKey, 'by'>): Promise<CreatedKey>
  list(): Promise<readonly KeyLine[]>
  rotate(id: string, graceSeconds: number): Promise<CreatedKey>
  revoke(id: string): Promise<void>
}

export function throughServer(client: Client): KeyBackend {
  const created = ({ key_id: keyId, key }: ResponseOf<'POST /keys'>): CreatedKey => ({ keyId, key })
  return {
    create: async ({ targets, ...key }) =>
      created(await client.ask('POST /keys', { body: { ...key, ...defined({ targets: targets && [...targets] }) } })),
    list: async () => (await client.ask('GET /keys')).keys,
    rotate: async (key, graceSeconds) =>
      created(await client.ask('POST /keys/:key/rotate', { params: { key }, body: { grace_seconds: graceSeconds } })),
    revoke: async (key) => void (await client.ask('DELETE /keys/:key', { params: { key } })),
  }
}

const ports = { ids: uuidv7(systemClock, systemRandom), random: systemRandom }
const actor = () => `cli:${userInfo().username}`

export async function inDatabase<T>(url: string, work: (backend: KeyBackend) => Promise<T>): Promise<T> {
  const db = await openDatabase({ url, applicationName: 'bellwether keys', poolSize: 1 })
  try {
    await migrate(db)
    return await work({
      create: (key) => audited(db, 'CREATE', createKey(db, ports, { ...key, by: actor() })),
      list: async () => JSON.parse(JSON.stringify(await listKeys(db))) as KeyLine[],
      rotate: (id, graceSeconds) => audited(db, 'ROTATE', rotateKey(db, systemRandom, id, graceSeconds)),
      async revoke(id) {
        await revokeKey(db, id)
        await audit(db, 'REVOKE', id)
      },
    })
  } finally {
    await db.close()
  }
}

async function audited(db: Database, method: string, change: Promise<CreatedKey>): Promise<CreatedKey> {
  const response = await change
  await audit(db, method, response.keyId)
  return response
}

async function audit(db: Database, method: string, keyId: string): Promise<void> {
  const entry = { actor: actor(), role: null, address: null, method, path: `/keys/${keyId}`, status: 200, code: null }
  await writeAudit(db, [entry])
}

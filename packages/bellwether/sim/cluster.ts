/** A PostgreSQL for simulations and benchmarks outside the tests, in a temporary folder that is removed afterwards. */
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemRandom } from '@bellwether/base'
import { startEmbedded } from '../src/ports/database/embedded.js'
import { openDatabase } from '../src/ports/database/pool.js'

export interface OwnCluster {
  readonly url: string
  /** Creates an empty database and returns its URL. */
  database(): Promise<string>
  remove(): Promise<void>
}

export async function ownCluster(
  settings: Readonly<Record<string, string>> = { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' },
): Promise<OwnCluster> {
  const folder = await mkdtemp(join(tmpdir(), 'bellwether-own-'))
  await chmod(folder, 0o755)
  const log = {
    info: () => undefined,
    warn: (fields: object, message: string) => void process.stderr.write(`${message} ${JSON.stringify(fields)}\n`),
  }
  const embedded = await startEmbedded({ dataDir: join(folder, 'postgres'), settings, log })
  return {
    url: embedded.url,
    async database() {
      const name = `own_${Buffer.from(systemRandom.bytes(6)).toString('hex')}`
      const admin = await openDatabase({ url: embedded.url, poolSize: 1 })
      try {
        await admin.query({ text: `create database ${name}` })
      } finally {
        await admin.close()
      }
      const url = new URL(embedded.url)
      url.pathname = `/${name}`
      return url.toString()
    },
    async remove() {
      await embedded.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/**
 * Where the demo's database lives: in the folder it is told, or, when root's PostgreSQL account cannot reach that one, in a
 * folder under /tmp that belongs to it for good, so that the next start finds the same server again.
 */
import { createHash } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { Terminal } from '@bellwether/protocol'
import { startEmbedded, type Embedded } from '../ports/database/embedded.js'
import type { Log } from '../ports/log.js'

export interface Place {
  readonly database: Embedded
  readonly dataDir: string
}

/** The folder beside the database: logs, and where the children run. */
export async function besideOf(dataDir: string): Promise<string> {
  const folder = dirname(resolve(dataDir))
  await mkdir(folder, { recursive: true })
  return folder
}

export async function openPlace(wanted: string, log: Log, notice: (sentence: string) => void): Promise<Place> {
  const dataDir = resolve(wanted)
  try {
    return { database: await startEmbedded({ dataDir, log }), dataDir }
  } catch (error) {
    if (!(error instanceof Terminal) || error.code !== 'folder_unreachable') throw error
    const elsewhere = join(
      tmpdir(),
      `bellwether-demo-${createHash('sha256').update(dataDir).digest('hex').slice(0, 12)}`,
    )
    notice(`${error.message}; using ${elsewhere} instead`)
    return { database: await startEmbedded({ dataDir: elsewhere, log }), dataDir: elsewhere }
  }
}

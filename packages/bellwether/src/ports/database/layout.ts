/**
 * Where the embedded cluster keeps its files. The folder is the cluster's alone: a folder that holds anything else is
 * refused before it is touched, since its owner and mode are about to change.
 */
import { mkdir, readdir } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { Terminal } from '@bellwether/protocol'

export interface Layout {
  readonly dataDir: string
  readonly lock: string
  /** PostgreSQL's own data directory. */
  readonly cluster: string
  /** Ours, inside the cluster so that both appear in one rename: password and system identifier. */
  readonly identity: string
  readonly conf: string
  readonly lastPort: string
  readonly log: string
  readonly socketDir: string
}

export const newClusterPrefix = 'cluster.new-'
/** A copy of the programs, where root's account cannot reach the installed ones. */
export const nativePrefix = 'native-'
const names = new Set(['cluster', 'lock', 'port', 'server.log', 'server.log.1', 'socket'])

export function layoutOf(folder: string): Layout {
  const dataDir = resolve(folder)
  const cluster = join(dataDir, 'cluster')
  return {
    dataDir,
    cluster,
    lock: join(dataDir, 'lock'),
    identity: join(cluster, 'bellwether.json'),
    conf: join(cluster, 'bellwether.conf'),
    lastPort: join(dataDir, 'port'),
    log: join(dataDir, 'server.log'),
    socketDir: join(dataDir, 'socket'),
  }
}

export async function makeFolder({ dataDir }: Layout): Promise<void> {
  // Two steps: only the folder itself is private, its new parents stay open for the account that runs the server.
  await mkdir(dirname(dataDir), { recursive: true })
  await mkdir(dataDir, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
  const isOurs = (name: string) => names.has(name) || name.startsWith(newClusterPrefix) || name.startsWith(nativePrefix)
  const strangers = (await readdir(dataDir)).filter((name) => !isOurs(name))
  if (strangers.length === 0) return
  throw new Terminal(
    `${dataDir} holds other files (${strangers.slice(0, 3).join(', ')}), so no database is made there`,
    {
      code: 'folder_not_ours',
      hint: 'Name a folder that is empty or does not exist yet, with --data DIR.',
    },
  )
}

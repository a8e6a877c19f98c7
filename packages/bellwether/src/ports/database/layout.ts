/**
 * The paths of the embedded cluster's files. The folder belongs to the cluster alone: a folder that contains other files is
 * rejected before anything changes, because a start changes its owner and mode.
 */
import { mkdir, readdir } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { Terminal } from '@bellwether/protocol'

export interface Layout {
  readonly dataDir: string
  readonly lock: string
  /** PostgreSQL's own data directory. */
  readonly cluster: string
  /** Password and system identifier; inside the cluster, so that one rename creates both. */
  readonly identity: string
  readonly conf: string
  readonly lastPort: string
  readonly log: string
  readonly socketDir: string
}

export const newClusterPrefix = 'cluster.new-'
/** A copy of the programs, for an account that cannot reach the installed ones. */
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
  // Two steps: only the folder itself is private; the account that runs the server must be able to enter its new parents.
  await mkdir(dirname(dataDir), { recursive: true })
  await mkdir(dataDir, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
  const isOurs = (name: string) => names.has(name) || name.startsWith(newClusterPrefix) || name.startsWith(nativePrefix)
  const foreign = (await readdir(dataDir)).filter((name) => !isOurs(name))
  if (foreign.length === 0) return
  throw new Terminal(
    `Cannot create a database in "${dataDir}": it contains other files (${foreign.slice(0, 3).join(', ')})`,
    { code: 'folder_not_ours', hint: 'Choose an empty or new folder with --data DIR.' },
  )
}

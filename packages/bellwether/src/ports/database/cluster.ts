/**
 * Creates and checks the cluster's files. Creation is atomic: initdb works in a temporary folder, which is then renamed. An
 * identity file in the cluster records its password and system identifier. Called only under the folder lock.
 */
import { open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { endianness } from 'node:os'
import { basename, join } from 'node:path'
import { systemRandom } from '@bellwether/base'
import { Terminal } from '@bellwether/protocol'
import type { Binaries } from './binaries.js'
import { newClusterPrefix, type Layout } from './layout.js'
import { writeOwnFile } from './own-file.js'
import { runProgram, type Account } from './program.js'
import { confText, type Settings } from './settings.js'

export interface Identity {
  readonly systemIdentifier: string
  readonly password: string
}

export const superuser = 'bellwether'
const initdbMs = 120_000 // one second on a laptop, much longer on slow disks and under emulation

export async function clusterExists({ cluster }: Layout): Promise<boolean> {
  return (await readIfExists(join(cluster, 'PG_VERSION'))) !== undefined
}

export async function createCluster(
  layout: Layout,
  account: Account,
  binaries: Binaries,
  settings: Settings,
): Promise<void> {
  // Left by a start that crashed in initdb; no server ever ran in them.
  for (const name of await readdir(layout.dataDir)) {
    if (name.startsWith(newClusterPrefix)) await rm(join(layout.dataDir, name), { recursive: true, force: true })
  }
  const making = join(layout.dataDir, newClusterPrefix + hex(4))
  const passwordFile = `${making}.password`
  const password = hex(24)
  try {
    await writeOwnFile(passwordFile, `${password}\n`, { account })
    const ran = await runProgram(
      binaries.initdb,
      [
        `--pgdata=${making}`,
        `--username=${superuser}`,
        `--pwfile=${passwordFile}`,
        '--auth=scram-sha-256',
        '--encoding=UTF8',
        '--locale=C',
        '--locale-provider=builtin',
        '--builtin-locale=C.UTF-8',
        '--data-checksums',
        '--no-instructions',
        ...(settings['fsync'] === 'off' ? ['--no-sync'] : []),
      ],
      { as: account, cwd: layout.dataDir, timeoutMs: initdbMs },
    )
    if (!ran.ok) throw initdbFailed(ran.stderr || ran.stdout)
    const systemIdentifier = await readSystemIdentifier(making)
    const identity: Identity = { systemIdentifier, password }
    await writeOwnFile(join(making, basename(layout.identity)), `${JSON.stringify(identity)}\n`, { account })
    await writeOwnFile(join(making, 'postgresql.conf'), `\ninclude_if_exists = '${basename(layout.conf)}'\n`, {
      way: 'append',
    })
    await rename(making, layout.cluster)
    await syncFolder(layout.dataDir)
  } finally {
    await rm(passwordFile, { force: true })
    await rm(making, { recursive: true, force: true })
  }
}

/** The identity of the cluster on disk; throws if it is not ours or does not match these binaries. */
export async function readIdentity(layout: Layout, binaries: Binaries): Promise<Identity> {
  const major = Number(await readFile(join(layout.cluster, 'PG_VERSION'), 'utf8'))
  if (major !== binaries.major) throw wrongMajor(layout.cluster, major, binaries.major)
  const text = await readIfExists(layout.identity)
  if (text === undefined) throw notOurs(layout.cluster, 'bellwether.json is missing')
  const identity = JSON.parse(text) as Identity
  if ((await readSystemIdentifier(layout.cluster)) !== identity.systemIdentifier) {
    throw notOurs(layout.cluster, 'the system identifier belongs to another cluster')
  }
  return identity
}

export async function writeConf(layout: Layout, account: Account, settings: Settings): Promise<void> {
  await writeOwnFile(`${layout.conf}.new`, confText(settings), { account })
  await rename(`${layout.conf}.new`, layout.conf)
}

/** The first eight bytes of pg_control in native byte order; `pg_control_system()` returns the same over SQL. */
async function readSystemIdentifier(cluster: string): Promise<string> {
  const control = await readFile(join(cluster, 'global', 'pg_control'))
  return String(endianness() === 'LE' ? control.readBigUInt64LE(0) : control.readBigUInt64BE(0))
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

export async function readIfExists(path: string): Promise<string | undefined> {
  return readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
}

function hex(bytes: number): string {
  return Buffer.from(systemRandom.bytes(bytes)).toString('hex')
}

function initdbFailed(output: string): Terminal {
  const full = output.includes('No space left on device')
  return new Terminal(`Cannot create the database: ${output.slice(-2_000)}`, {
    code: full ? 'disk_full' : 'initdb_failed',
    hint: full
      ? 'Free some disk space, then start again. Partial files were removed.'
      : 'Correct the cause, then start again. Partial files were removed.',
  })
}

function wrongMajor(cluster: string, found: number, needed: number): Terminal {
  return new Terminal(
    `Cannot open "${cluster}": PostgreSQL ${found} created it, and this Bellwether contains PostgreSQL ${needed}`,
    {
      code: 'cluster_version',
      hint: `Start the Bellwether version that created it, run pg_dump, and restore the dump into a new folder (--data DIR).`,
    },
  )
}

function notOurs(cluster: string, why: string): Terminal {
  return new Terminal(`Cannot open "${cluster}": Bellwether did not create it (${why})`, {
    code: 'folder_not_ours',
    hint: 'Restore the complete folder, or choose another one with --data DIR.',
  })
}

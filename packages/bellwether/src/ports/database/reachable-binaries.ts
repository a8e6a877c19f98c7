/**
 * If root starts Bellwether, PostgreSQL runs as another account, which may not reach the programs that npm installed (for
 * example in root's home). Then they are copied atomically into the database folder, once per version. Called only under the
 * folder lock, after grantFolder.
 */
import { cp, readdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { canAccess } from './account.js'
import type { Binaries } from './binaries.js'
import { nativePrefix, type Layout } from './layout.js'
import type { Account } from './program.js'

export async function reachableBinaries(account: Account, layout: Layout, binaries: Binaries): Promise<Binaries> {
  if (!account.ids || (await canAccess(account, binaries.postgres, ['-x']))) return binaries
  const native = dirname(dirname(binaries.postgres))
  // Size and modification time identify the installation.
  const { mtimeMs, size } = await stat(binaries.postgres)
  const wanted = `${nativePrefix}${binaries.major}-${size}-${Math.floor(mtimeMs)}`
  const copy = join(layout.dataDir, wanted)
  const present = (await readdir(layout.dataDir)).filter((name) => name.startsWith(nativePrefix))
  if (!present.includes(wanted)) {
    await cp(native, `${copy}.new`, { recursive: true, verbatimSymlinks: true, force: true })
    await rename(`${copy}.new`, copy)
  }
  for (const name of present)
    if (name !== wanted) await rm(join(layout.dataDir, name), { recursive: true, force: true })
  return { ...binaries, initdb: join(copy, 'bin/initdb'), postgres: join(copy, 'bin/postgres') }
}

/** Removes folders that have not changed for a long time, such as those of old runs. */
import { lstat, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { hasCode } from '@bellwether/base'

// Keeps one sweep short; the next sweep removes the rest.
const sweepMax = 500

/** Removes folders directly under `parent` (never a link) that last changed before `beforeMs`; returns their names. */
export async function removeOldFolders(
  parent: string,
  beforeMs: number,
  keep: (name: string) => boolean,
): Promise<readonly string[]> {
  const removed: string[] = []
  let names: string[]
  try {
    names = await readdir(parent)
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return removed
    throw error
  }
  for (const name of names) {
    if (removed.length === sweepMax) break
    if (keep(name)) continue
    const path = join(parent, name)
    const stat = await lstat(path)
    if (!stat.isDirectory() || stat.mtimeMs >= beforeMs) continue
    await rm(path, { recursive: true, force: true })
    removed.push(name)
  }
  return removed
}

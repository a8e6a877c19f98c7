/** Retention for folders that are made one after the other: those that nobody touched for long are removed, whole. */
import { lstat, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'

// One sweep stays short; what is left is the next sweep's.
const sweepMax = 500

/** Removes folders directly under `parent` (never a link) that were last changed before `beforeMs`; answers their names. */
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
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return removed
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

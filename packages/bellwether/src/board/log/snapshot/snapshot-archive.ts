/**
 * The last snapshots, kept as state/tasks.snapshot.<timestamp>.json (H4.1). Always: what is about to be replaced is kept first
 * unless it is kept already; the newest seven stay; a name from outside is never used as a path. A restored snapshot may be
 * older than the log: that is fine, it is only a cache.
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { InvalidInput } from '@bellwether/protocol'
import type { Disk } from '../../../ports/disk/disk.js'
import { explainDisk, type TaskRoot } from '../root.js'

export const archivedMax = 7
const pattern = /^tasks\.snapshot\.(\d{8}T\d{6}\.\d{3}Z)\.json$/

export interface ArchivedSnapshot {
  readonly name: string
  readonly timestamp: string
  readonly size: number
}

/** The newest first. */
export async function listArchived(root: TaskRoot, disk: Disk): Promise<readonly ArchivedSnapshot[]> {
  const kept: ArchivedSnapshot[] = []
  for (const name of await explainDisk(root.state, () => disk.list(root.state))) {
    const timestamp = pattern.exec(name)?.[1]
    if (timestamp === undefined) continue
    const entry = await disk.stat(join(root.state, name))
    if (entry !== 'missing' && entry.kind === 'file') kept.push({ name, timestamp, size: entry.size })
  }
  return kept.sort((a, b) => (a.timestamp < b.timestamp ? 1 : -1))
}

const stamp = (ms: number): string => new Date(ms).toISOString().replaceAll(/[-:]/g, '')
const nameOf = (ms: number): string => `tasks.snapshot.${stamp(ms)}.json`

/** Gives the live snapshot a second name, and lets the oldest go. Returns the name; undefined: there was nothing to keep. */
export async function archiveLive(root: TaskRoot, disk: Disk, nowMs: number): Promise<string | undefined> {
  const live = await disk.stat(root.snapshot)
  if (live === 'missing' || live.kind !== 'file') return undefined
  const before = await listArchived(root, disk)
  const newest = before[0]
  if (newest !== undefined && (await same(join(root.state, newest.name), root.snapshot, disk))) return newest.name
  // Never before the newest one: a clock that was set back must not make this one the first to go.
  let ms = Math.max(nowMs, newest === undefined ? 0 : parseStamp(newest.timestamp) + 1)
  // A second name for the same file: the live one is replaced and never written into, so the kept one cannot change.
  while ((await explainDisk(root.state, () => disk.link(root.snapshot, join(root.state, nameOf(ms))))) === 'taken')
    ms += 1
  await clearDrafts(root.state, await disk.list(root.state), nowMs, disk)
  for (const old of before.slice(archivedMax - 1)) await disk.remove(join(root.state, old.name))
  return nameOf(ms)
}

function parseStamp(text: string): number {
  return Date.parse(text.replace(/^(\d{4})(\d{2})(\d{2})T(\d{2})(\d{2})(\d{2})/, '$1-$2-$3T$4:$5:$6'))
}

async function same(a: string, b: string, disk: Disk): Promise<boolean> {
  const [one, other] = [await disk.stat(a), await disk.stat(b)]
  if (one === 'missing' || other === 'missing' || one.size !== other.size) return false
  return one.identity === other.identity || (await hashOf(a, disk)) === (await hashOf(b, disk))
}

const chunkBytes = 2 ** 20

async function hashOf(path: string, disk: Disk): Promise<string> {
  const file = await disk.openLog(path, 'read')
  if (file === 'missing') return ''
  try {
    const hash = createHash('sha256')
    const chunk = Buffer.allocUnsafe(chunkBytes)
    for (let at = 0; ;) {
      const got = await file.read(chunk, at)
      if (got === 0) return hash.digest('hex')
      hash.update(chunk.subarray(0, got))
      at += got
    }
  } finally {
    await file.close()
  }
}

// Whoever writes a draft is done within seconds.
const draftMaxMs = 3_600_000

/** Takes away what writers that died left half done. */
export async function clearDrafts(folder: string, names: readonly string[], nowMs: number, disk: Disk): Promise<void> {
  for (const name of names) {
    if (!name.endsWith('.draft')) continue
    const entry = await disk.stat(join(folder, name))
    if (entry !== 'missing' && entry.kind === 'file' && nowMs - entry.changedAtMs > draftMaxMs)
      await disk.remove(join(folder, name))
  }
}

/** The kept one that `wanted` names; without a name the newest. */
export function chooseArchived(kept: readonly ArchivedSnapshot[], wanted: string | undefined): ArchivedSnapshot {
  const found =
    wanted === undefined
      ? kept[0]
      : kept.find((one) => one.name === wanted || one.timestamp === wanted.replace(/\.json$/, ''))
  if (found !== undefined) return found
  throw new InvalidInput(wanted === undefined ? 'no snapshot is kept here' : `no kept snapshot is called ${wanted}`, {
    code: 'no_such_snapshot',
    hint:
      kept.length === 0
        ? 'See: bellwether rebuild-snapshot --apply'
        : `There are: ${kept.map((one) => one.name).join(', ')}`,
  })
}

/**
 * Archives the last seven snapshots as state/tasks.snapshot.<timestamp>.json (H4.1). The live snapshot is archived before it
 * is replaced, unless it already is. A name from a user is compared, never used as a path. A restored snapshot may be older
 * than the log: it is only a cache.
 */
import { join } from 'node:path'
import { InvalidInput } from '@bellwether/protocol'
import type { Disk } from '../../../ports/disk/disk.js'
import { explainDisk, type TaskRoot } from '../root.js'
import { hashUpTo } from './snapshot.js'

const archivedMax = 7
const pattern = /^tasks\.snapshot\.(\d{8}T\d{6}\.\d{3}Z)\.json$/

export interface ArchivedSnapshot {
  readonly name: string
  readonly timestamp: string
  readonly size: number
}

/** Newest first. */
export async function listArchived(root: TaskRoot, disk: Disk): Promise<readonly ArchivedSnapshot[]> {
  const archived: ArchivedSnapshot[] = []
  for (const name of await explainDisk(root.state, () => disk.list(root.state))) {
    const timestamp = pattern.exec(name)?.[1]
    if (timestamp === undefined) continue
    const entry = await disk.stat(join(root.state, name))
    if (entry !== 'missing' && entry.kind === 'file') archived.push({ name, timestamp, size: entry.size })
  }
  return archived.sort((a, b) => (a.timestamp < b.timestamp ? 1 : -1))
}

const stamp = (ms: number): string => new Date(ms).toISOString().replaceAll(/[-:]/g, '')
const nameOf = (ms: number): string => `tasks.snapshot.${stamp(ms)}.json`

/** Archives the live snapshot and removes the oldest. Returns the archive name; undefined: there is no live snapshot. */
export async function archiveLive(root: TaskRoot, disk: Disk, nowMs: number): Promise<string | undefined> {
  const live = await disk.stat(root.snapshot)
  if (live === 'missing' || live.kind !== 'file') return undefined
  const before = await listArchived(root, disk)
  const newest = before[0]
  if (newest !== undefined && (await same(join(root.state, newest.name), root.snapshot, disk))) return newest.name
  // Never older than the newest one: after the clock was set back, this one must not be the first to be removed.
  let ms = Math.max(nowMs, newest === undefined ? 0 : parseStamp(newest.timestamp) + 1)
  // A hard link: the live file is replaced and never written into, so the archived one cannot change.
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

async function hashOf(path: string, disk: Disk): Promise<string | undefined> {
  const file = await disk.openLog(path, 'read')
  if (file === 'missing') return undefined
  try {
    return await hashUpTo(file, await file.size())
  } finally {
    await file.close()
  }
}

// A live writer finishes its draft within seconds.
const draftMaxMs = 3_600_000

/** Removes the drafts of writers that died. */
export async function clearDrafts(folder: string, names: readonly string[], nowMs: number, disk: Disk): Promise<void> {
  for (const name of names) {
    if (!name.endsWith('.draft')) continue
    const entry = await disk.stat(join(folder, name))
    if (entry !== 'missing' && entry.kind === 'file' && nowMs - entry.changedAtMs > draftMaxMs)
      await disk.remove(join(folder, name))
  }
}

/** The archived snapshot called `wanted`; without a name the newest. */
export function chooseArchived(archived: readonly ArchivedSnapshot[], wanted: string | undefined): ArchivedSnapshot {
  const found =
    wanted === undefined
      ? archived[0]
      : archived.find((snapshot) => snapshot.name === wanted || snapshot.timestamp === wanted.replace(/\.json$/, ''))
  if (found !== undefined) return found
  throw new InvalidInput(
    wanted === undefined ? 'There is no archived snapshot.' : `There is no archived snapshot "${wanted}".`,
    {
      code: 'no_such_snapshot',
      hint:
        archived.length === 0
          ? 'Run bellwether rebuild-snapshot --apply.'
          : `Name one of: ${archived.map((snapshot) => snapshot.name).join(', ')}`,
    },
  )
}

/**
 * Is a live snapshot wrong, or only older than the log? Snapshots are written now and then, so a busy board's is nearly always
 * behind; it is wrong when it does not say what the log said up to the place it names. Nothing is written here.
 */
import { z } from 'zod'
import type { Disk, LogFile } from '../../ports/disk/disk.js'
import { Reader } from '../log/replay.js'
import type { RebuildReport } from './rebuild.js'
import { contentHash, taskLines } from '../log/snapshot/snapshot.js'

export type SnapshotStatus = 'same' | 'missing' | 'behind' | 'mismatch'

const metaShape = z.object({ replay: z.object({ position: z.number().int().min(0) }) })
// The meta comes last and is a few hundred bytes, or a few thousand with every kind of problem counted.
const tailBytes = 65_536

export async function snapshotStatus(report: RebuildReport, logPath: string, disk: Disk): Promise<SnapshotStatus> {
  if (report.match) return 'same'
  if (report.live === 'missing') return 'missing'
  if (report.live !== 'ours' || report.liveHash === null) return 'mismatch'
  const position = await positionIn(report.snapshot, disk)
  if (position === null) return 'mismatch'
  const log = await disk.openLog(logPath, 'read')
  if (log === 'missing') return 'mismatch'
  try {
    if (position > (await log.size())) return 'mismatch'
    const reader = new Reader()
    await reader.read(upTo(log, position), { complete: true })
    return contentHash(taskLines(reader.fold.tasks()), reader.fold.control) === report.liveHash ? 'behind' : 'mismatch'
  } finally {
    await log.close()
  }
}

function upTo(log: LogFile, end: number): LogFile {
  return {
    ...log,
    size: async () => Math.min(end, await log.size()),
    read: (buffer, position) => log.read(buffer.subarray(0, Math.max(0, end - position)), position),
  }
}

async function positionIn(snapshot: string, disk: Disk): Promise<number | null> {
  const file = await disk.openLog(snapshot, 'read')
  if (file === 'missing') return null
  try {
    const size = await file.size()
    const from = Math.max(0, size - tailBytes)
    const buffer = Buffer.alloc(size - from)
    const got = await file.read(buffer, from)
    const text = buffer.toString('utf8', 0, got)
    const at = text.lastIndexOf('\n"meta":')
    if (at < 0) return null
    const meta: unknown = JSON.parse(text.slice(at + '\n"meta":'.length).replace(/\}\s*$/, ''))
    return metaShape.safeParse(meta).data?.replay.position ?? null
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  } finally {
    await file.close()
  }
}

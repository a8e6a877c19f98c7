/**
 * Checks whether a live snapshot is wrong or only older than the log. The snapshot of a busy board is nearly always behind; it
 * is wrong if it differs from the log up to the position that it names. Read only.
 */
import { z } from 'zod'
import type { Disk, LogFile } from '../../ports/disk/disk.js'
import { Reader } from '../log/fold/replay.js'
import { readMeta } from '../log/resume.js'
import type { RebuildReport } from './rebuild.js'
import { contentHash, taskLines } from '../log/snapshot/snapshot.js'

export type SnapshotStatus = 'same' | 'missing' | 'behind' | 'mismatch'

const metaShape = z.object({ replay: z.object({ position: z.number().int().min(0) }) })
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
    return contentHash(taskLines(reader.fold), reader.fold.control) === report.liveHash ? 'behind' : 'mismatch'
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
    return metaShape.safeParse((await readMeta(file))?.meta).data?.replay.position ?? null
  } finally {
    await file.close()
  }
}

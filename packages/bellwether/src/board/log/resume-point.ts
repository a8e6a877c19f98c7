/**
 * The data that a snapshot needs so that reading a log can resume from it: a mark that identifies the log, the file with the
 * ids of its events, and a seal over all of it. The same log gives the same data. resume.ts checks it.
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import type { Disk, LogFile } from '../../ports/disk/disk.js'
import { buildIdRecords, type IdRecords } from './fold/event-id-index.js'
import type { Fold } from './fold/fold.js'

/** Reading a shorter log takes no longer than opening a snapshot, so no resume data is written for it. */
export const resumeMinBytes = 2 ** 20

export interface ResumeData {
  /** Complete lines of the log, including blank ones. */
  readonly lineNumber: number
  readonly unfenced: number
  /** A hash of samples of the log up to the position; another log has another mark. */
  readonly mark: string
  readonly ids: { readonly file: string; readonly count: number; readonly sha256: string }
}

interface Sealed {
  readonly version: number
  readonly updatedAt: string | null
  readonly replay: unknown
  readonly hash: string
}

/** A hash over everything that the hash of the tasks does not cover. */
export function sealOf({ version, updatedAt, replay, hash }: Sealed, data: ResumeData): string {
  const { lineNumber, unfenced, mark, ids } = data
  const sealed = [version, updatedAt, replay, hash, lineNumber, unfenced, mark, ids.file, ids.count, ids.sha256]
  return createHash('sha256').update(JSON.stringify(sealed)).digest('hex')
}

const idsFileOf = ({ sha256 }: Pick<IdRecords, 'sha256'>): string => `tasks.snapshot.${sha256.slice(0, 16)}.ids`
export const isIdsFile = (name: string): boolean => /^tasks\.snapshot\.[0-9a-f]{16}\.ids$/.test(name)

const sampleBytes = 4_096
const samples = 32
const lastBytes = 65_536

/** Identifies a log by its start, its last lines and samples between. Hashing every byte would mean reading the log. */
export async function markOf(log: Pick<LogFile, 'read'>, position: number): Promise<string> {
  const hash = createHash('sha256')
  const take = async (from: number, length: number) => {
    const bytes = Buffer.alloc(length)
    for (let at = 0; at < length;) {
      const bytesRead = await log.read(bytes.subarray(at), from + at)
      if (bytesRead === 0) break
      at += bytesRead
    }
    hash.update(bytes)
  }
  for (let sample = 0; sample < samples; sample += 1) {
    const from = Math.floor((position / samples) * sample)
    await take(from, Math.min(sampleBytes, position - from))
  }
  const from = Math.max(0, position - lastBytes)
  await take(from, position - from)
  return hash.update(`${position}`).digest('hex')
}

interface LogPosition {
  readonly fold: Fold
  readonly position: number
  readonly lineNumber: number
  /** The last line has no newline yet, or is torn: reading cannot resume from there. */
  readonly openEnd: boolean
}

/** Writes the index file of ids unless it exists. Undefined: reading cannot resume from this position. */
export async function writeResumeData(
  at: LogPosition,
  log: LogFile,
  state: string,
  { disk, draftId, minBytes = resumeMinBytes }: { disk: Disk; draftId: string; minBytes?: number | undefined },
): Promise<ResumeData | undefined> {
  if (at.openEnd || at.position < minBytes) return undefined
  const records = await buildIdRecords((visit) => at.fold.eachId(visit), at.fold.idIndex)
  const { count, sha256 } = records
  const file = idsFileOf(records)
  const path = join(state, file)
  const there = await disk.stat(path)
  if (there === 'missing' || there.size !== records.bytes.length) {
    const draft = join(state, `.${file}.${draftId}.draft`)
    await disk.writeDraft(draft, [records.bytes])
    await disk.replace(path, draft)
  }
  const { lineNumber, position, fold } = at
  return { lineNumber, unfenced: fold.unfenced, mark: await markOf(log, position), ids: { file, count, sha256 } }
}

/** Removes the index files that the live snapshot does not name. */
export async function dropOldIds(state: string, keep: string | undefined, disk: Disk): Promise<void> {
  for (const name of await disk.list(state)) if (isIdsFile(name) && name !== keep) await disk.remove(join(state, name))
}

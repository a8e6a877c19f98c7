/**
 * Resumes reading a log from its snapshot. The snapshot must be intact (hash and seal), of this version, of this log, and
 * have its index of event ids; otherwise the reason is returned and the caller reads the log from its start, with the same
 * result. Read only.
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { parseJson } from '@bellwether/base'
import type { Disk, LogFile } from '../../ports/disk/disk.js'
import { integer, nullable, object, oneOf, record, text, valid } from '../../settings/shape.js'
import { EventIdIndex } from './fold/event-id-index.js'
import { Fold, type Problem } from './fold/fold.js'
import { Reader } from './fold/replay.js'
import { isIdsFile, markOf, sealOf } from './resume-point.js'
import type { TaskRoot } from './root.js'
import { withoutReferenceKeys } from './snapshot/snapshot.js'
import type { Task } from './task.js'

const count = integer(0)
// More than there are kinds of problems.
const kindsMax = 1_000
const metaShape = object({
  version: oneOf([2]),
  updatedAt: nullable(text()),
  replay: object({ events: count, lines: count, position: count, token: count, problems: record(count, kindsMax) }),
  hash: text(),
  resume: object({
    lineNumber: count,
    unfenced: count,
    mark: text(),
    ids: object({ file: text({ accepts: isIdsFile }), count, sha256: text() }),
    seal: text(),
  }),
})
export type ResumeResult =
  | { readonly reader: Reader }
  /** `unusable`: there is a snapshot to resume from, but it is damaged or of another log. */
  | { readonly reason: string; readonly unusable: boolean }

const fullRead = (reason: string, unusable: boolean): ResumeResult => ({ reason, unusable })

/** Never throws because of a damaged snapshot or index: the log has everything. */
export async function resume(root: TaskRoot, log: LogFile, disk: Disk): Promise<ResumeResult> {
  try {
    return await fromSnapshot(root, log, disk)
  } catch (error) {
    const why = error instanceof Error && 'code' in error ? String(error.code) : String(error)
    return fullRead(`cannot read the snapshot (${why})`, true)
  }
}

async function fromSnapshot(root: TaskRoot, log: LogFile, disk: Disk): Promise<ResumeResult> {
  const file = await disk.openLog(root.snapshot, 'read')
  if (file === 'missing') return fullRead('no snapshot', false)
  let ids: LogFile | 'missing' = 'missing'
  let used = false
  try {
    const found = await readMeta(file)
    const meta = valid(metaShape, found?.meta)
    if (found === undefined || meta === undefined) return fullRead('the snapshot has no resume data', false)
    const { replay, resume: data } = meta
    if (data.seal !== sealOf(meta, data)) return fullRead('the seal of the snapshot does not match', true)
    if (replay.position > (await log.size()))
      return fullRead('the log is shorter than when the snapshot was written', true)
    if ((await markOf(log, replay.position)) !== data.mark)
      return fullRead('the snapshot belongs to another log, or the log was changed since', true)
    ids = await disk.openLog(join(root.state, data.ids.file), 'read')
    if (ids === 'missing') return fullRead('the event id index is missing', true)
    const idIndex = data.ids.count === replay.events ? await EventIdIndex.open(ids, log, data.ids) : undefined
    if (idIndex === undefined) return fullRead('the event id index does not match the snapshot', true)
    const content = await contentOf(file, found.contentEnd, meta.hash)
    if (content === undefined) return fullRead('the hash of the snapshot does not match', true)
    const { events, token, position, lines } = replay
    const { unfenced, lineNumber } = data
    const fold = Fold.from({ ...content, events, token, unfenced, lastEventAt: meta.updatedAt, idIndex })
    const counts = replay.problems as Partial<Record<Problem, number>>
    used = true
    return { reader: Reader.from(fold, { position, lineNumber, lines, counts }) }
  } finally {
    await file.close()
    if (ids !== 'missing' && !used) await ids.close()
  }
}

// The meta comes last: about 1,000 bytes, or a few thousand if every kind of problem occurred.
const tailBytes = 65_536
const metaStart = ',\n"meta":'

/** The meta of a snapshot in our layout, and where its content ends. */
export async function readMeta(
  file: LogFile,
): Promise<{ readonly meta: unknown; readonly contentEnd: number } | undefined> {
  const size = await file.size()
  const from = Math.max(0, size - tailBytes)
  const tail = Buffer.alloc(size - from)
  await file.read(tail, from)
  const at = tail.lastIndexOf(metaStart)
  if (at < 0) return undefined
  const text = tail.toString('utf8', at + metaStart.length).replace(/\}\s*$/, '')
  return { meta: parseJson(text), contentEnd: from + at }
}

interface Content {
  readonly tasks: readonly Task[]
  readonly control: Readonly<Record<string, unknown>>
}

const chunkBytes = 2 ** 20
const newline = 0x0a

/** The tasks, one per line, and the control. Undefined: the content does not have the expected hash. */
async function contentOf(file: LogFile, end: number, expected: string): Promise<Content | undefined> {
  const hash = createHash('sha256')
  const tasks: Task[] = []
  let control: Readonly<Record<string, unknown>> | undefined
  let chunk = Buffer.allocUnsafe(chunkBytes)
  let pending = 0
  const take = (start: number, stop: number): boolean => {
    const text = chunk.toString('utf8', start, stop)
    if (text === '{"tasks":{' || text === '' || text === '},') return true
    if (text.startsWith(controlStart)) {
      control = parseJson(text.slice(controlStart.length)) as Content['control'] | undefined
      return control !== undefined
    }
    const at = text.indexOf(taskStart)
    const task = at < 0 ? undefined : parseJson(text.slice(at + 1, text.endsWith(',') ? -1 : undefined))
    if (task === undefined) return false
    tasks.push(withoutReferenceKeys(task as Task))
    return true
  }
  for (let at = 0; at < end;) {
    if (pending === chunk.length) chunk = Buffer.concat([chunk], chunk.length * 2)
    const bytesRead = await file.read(chunk.subarray(pending, Math.min(chunk.length, pending + end - at)), at)
    if (bytesRead === 0) return undefined
    hash.update(chunk.subarray(pending, pending + bytesRead))
    at += bytesRead
    const filled = pending + bytesRead
    let start = 0
    for (let stop = chunk.indexOf(newline, pending); stop >= 0 && stop < filled; stop = chunk.indexOf(newline, start)) {
      if (!take(start, stop)) return undefined
      start = stop + 1
    }
    pending = filled - start
    if (start > 0) chunk.copy(chunk, 0, start, filled)
  }
  const isComplete = take(0, pending) && control !== undefined
  return isComplete && hash.digest('hex') === expected ? { tasks, control: control! } : undefined
}

const controlStart = '"control":'
const taskStart = ':{"taskId":'

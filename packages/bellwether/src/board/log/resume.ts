/**
 * Going on from a snapshot instead of reading the whole log again. Always: only from one that is whole (its hash, and a seal
 * over what it says of itself), of this version, with the ids of its events beside it, and whose place still lies in this very
 * log; otherwise the reason is told and the log is read from its start. What comes of it is the same either way. Nothing is
 * written here.
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { z } from 'zod'
import type { Disk, LogFile } from '../../ports/disk/disk.js'
import { EventIdIndex } from './event-id-index.js'
import { Fold, type Problem } from './fold.js'
import { Reader } from './replay.js'
import { isIdsFile, markOf, sealOf } from './resume-point.js'
import type { TaskRoot } from './root.js'
import type { Task } from './task.js'

const count = z.number().int().min(0)
const metaShape = z.object({
  version: z.literal(2),
  updatedAt: z.string().nullable(),
  replay: z.object({
    events: count,
    lines: count,
    position: count,
    token: count,
    problems: z.record(z.string(), count),
  }),
  hash: z.string(),
  resume: z.object({
    lineNumber: count,
    unfenced: count,
    mark: z.string(),
    ids: z.object({ file: z.string().refine(isIdsFile), count, sha256: z.string() }),
    seal: z.string(),
  }),
})
type Meta = z.output<typeof metaShape>

export type ResumeResult =
  | { readonly reader: Reader }
  /** `odd`: there was something to go on from, and it cannot be used. */
  | { readonly instead: string; readonly odd: boolean }

const fullRead = (why: string, odd: boolean): ResumeResult => ({ instead: why, odd })

/** Never throws for what is wrong with the snapshot or its ids: the log is there, and says it all. */
export async function resume(root: TaskRoot, log: LogFile, disk: Disk): Promise<ResumeResult> {
  try {
    return await fromSnapshot(root, log, disk)
  } catch (error) {
    const why = error instanceof Error && 'code' in error ? String(error.code) : String(error)
    return fullRead(`the snapshot cannot be read (${why})`, true)
  }
}

async function fromSnapshot(root: TaskRoot, log: LogFile, disk: Disk): Promise<ResumeResult> {
  const file = await disk.openLog(root.snapshot, 'read')
  if (file === 'missing') return fullRead('there is no snapshot', false)
  let ids: LogFile | 'missing' = 'missing'
  let used = false
  try {
    const found = await metaIn(file)
    if (found === undefined) return fullRead('the snapshot does not say how to go on from it', false)
    const { meta, contentEnd } = found
    const { replay, resume: facts } = meta
    if (facts.seal !== sealOf(meta, facts)) return fullRead('the seal of the snapshot is broken', true)
    if (replay.position > (await log.size())) return fullRead('the log is shorter than the snapshot says', true)
    if ((await markOf(log, replay.position)) !== facts.mark)
      return fullRead('the snapshot is of another log, or of one that was changed since', true)
    ids = await disk.openLog(join(root.state, facts.ids.file), 'read')
    if (ids === 'missing') return fullRead('the ids of the snapshot’s events are missing', true)
    const earlier = facts.ids.count === replay.events ? await EventIdIndex.open(ids, log, facts.ids) : undefined
    if (earlier === undefined) return fullRead('the ids of the snapshot’s events are not those that it names', true)
    const content = await contentOf(file, contentEnd, meta.hash)
    if (content === undefined) return fullRead('the snapshot is not what its hash says', true)
    const { events, token, position, lines } = replay
    const { unfenced, lineNumber } = facts
    const fold = Fold.from({ ...content, events, token, unfenced, lastEventAt: meta.updatedAt, idIndex: earlier })
    const counts = replay.problems as Partial<Record<Problem, number>>
    used = true
    return { reader: Reader.from(fold, { position, lineNumber, lines, counts }) }
  } finally {
    await file.close()
    if (ids !== 'missing' && !used) await ids.close()
  }
}

// The meta comes last and is a thousand bytes, or a few thousand with every kind of problem counted.
const tailBytes = 65_536
const metaStart = ',\n"meta":'

async function metaIn(file: LogFile): Promise<{ readonly meta: Meta; readonly contentEnd: number } | undefined> {
  const size = await file.size()
  const from = Math.max(0, size - tailBytes)
  const tail = Buffer.alloc(size - from)
  await file.read(tail, from)
  const at = tail.lastIndexOf(metaStart)
  if (at < 0) return undefined
  const text = tail.toString('utf8', at + metaStart.length).replace(/\}\s*$/, '')
  const meta = metaShape.safeParse(parsed(text)).data
  return meta === undefined ? undefined : { meta, contentEnd: from + at }
}

interface Content {
  readonly tasks: readonly Task[]
  readonly control: Readonly<Record<string, unknown>>
}

const chunkBytes = 2 ** 20
const newline = 0x0a

/** The tasks, a line each, and the control; undefined: not what the hash promises. */
async function contentOf(file: LogFile, end: number, promised: string): Promise<Content | undefined> {
  const hash = createHash('sha256')
  const tasks: Task[] = []
  let control: Readonly<Record<string, unknown>> | undefined
  let chunk = Buffer.allocUnsafe(chunkBytes)
  let kept = 0
  const take = (start: number, stop: number): boolean => {
    const text = chunk.toString('utf8', start, stop)
    if (text === '{"tasks":{' || text === '' || text === '},') return true
    if (text.startsWith(controlStart)) {
      control = parsed(text.slice(controlStart.length)) as Content['control'] | undefined
      return control !== undefined
    }
    const at = text.indexOf(taskStart)
    const task = at < 0 ? undefined : parsed(text.slice(at + 1, text.endsWith(',') ? -1 : undefined))
    if (task === undefined) return false
    tasks.push(task as Task)
    return true
  }
  for (let at = 0; at < end;) {
    if (kept === chunk.length) chunk = Buffer.concat([chunk], chunk.length * 2)
    const got = await file.read(chunk.subarray(kept, Math.min(chunk.length, kept + end - at)), at)
    if (got === 0) return undefined
    hash.update(chunk.subarray(kept, kept + got))
    at += got
    const filled = kept + got
    let start = 0
    for (let stop = chunk.indexOf(newline, kept); stop >= 0 && stop < filled; stop = chunk.indexOf(newline, start)) {
      if (!take(start, stop)) return undefined
      start = stop + 1
    }
    kept = filled - start
    if (start > 0) chunk.copy(chunk, 0, start, filled)
  }
  const whole = take(0, kept) && control !== undefined
  return whole && hash.digest('hex') === promised ? { tasks, control: control! } : undefined
}

const controlStart = '"control":'
const taskStart = ':{"taskId":'

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

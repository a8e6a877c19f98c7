/**
 * Compares a rebuilt snapshot with the live one (H3.2): two hashes without the meta, and the tasks that were added, removed
 * or changed. A live snapshot in our layout is read line by line to save memory; another layout (the reference's, or edited
 * by hand) is parsed as a whole, up to a size. An unreadable one counts as different.
 */
import { isObject, parseJson, type JsonObject } from '@bellwether/base'
import type { Disk, LogFile } from '../../../ports/disk/disk.js'
import type { Fold } from '../fold/fold.js'
import { contentHash, hashUpTo, head, isReferenceRoot, taskLine } from './snapshot.js'
import type { Task } from '../task.js'

export interface Diff {
  readonly added: number
  readonly removed: number
  readonly changed: number
  /** The first ids of each kind. */
  readonly sampleAdded: readonly string[]
  readonly sampleRemoved: readonly string[]
  readonly sampleChanged: readonly string[]
}

export interface Comparison {
  readonly live: 'missing' | 'unreadable' | 'ours' | 'other' | 'reference'
  readonly liveHash: string | null
  readonly diff: Diff
}

const sampleMax = 20
// Parsing takes several times the file size in memory.
const parseMaxBytes = 48 * 2 ** 20
const chunkBytes = 2 ** 20

class Differences {
  readonly #tasks: Map<string, Task>
  readonly #counts = { added: 0, removed: 0, changed: 0 }
  readonly #samples = { added: [] as string[], removed: [] as string[], changed: [] as string[] }

  constructor(fold: Fold) {
    this.#tasks = new Map(fold.tasks().map((task) => [task.taskId, task]))
  }

  /** Compares one task of the live snapshot; each id once. */
  live(taskId: string, isSame: (task: Task) => boolean): void {
    const task = this.#tasks.get(taskId)
    if (task === undefined) this.#note('removed', taskId)
    else if (!isSame(task)) this.#note('changed', taskId)
    this.#tasks.delete(taskId)
  }

  end(): Diff {
    for (const taskId of this.#tasks.keys()) this.#note('added', taskId)
    const { added, removed, changed } = this.#samples
    return { ...this.#counts, sampleAdded: added, sampleRemoved: removed, sampleChanged: changed }
  }

  #note(kind: 'added' | 'removed' | 'changed', taskId: string): void {
    this.#counts[kind] += 1
    if (this.#samples[kind].length < sampleMax) this.#samples[kind].push(taskId)
  }
}

export async function compareLive(path: string, fold: Fold, rebuiltHash: string, disk: Disk): Promise<Comparison> {
  const file = await disk.openLog(path, 'read')
  if (file === 'missing') return { live: 'missing', liveHash: null, diff: new Differences(fold).end() }
  try {
    const ours = await compareLines(file, fold, rebuiltHash)
    return ours ?? (await compareParsed(file, fold))
  } finally {
    await file.close()
  }
}

/** Undefined: the live snapshot has another layout. */
async function compareLines(file: LogFile, fold: Fold, rebuiltHash: string): Promise<Comparison | undefined> {
  const liveHash = await hashOurs(file)
  if (liveHash === undefined) return undefined
  if (liveHash === rebuiltHash)
    return {
      live: 'ours',
      liveHash,
      diff: { added: 0, removed: 0, changed: 0, sampleAdded: [], sampleRemoved: [], sampleChanged: [] },
    }
  const differences = new Differences(fold)
  const forReference = isReferenceRoot(fold.control)
  for await (const line of lines(file)) {
    if (line === head.slice(0, -1)) continue
    if (line === '},') break
    const text = line.endsWith(',') ? line.slice(0, -1) : line
    const taskId = idOf(text)
    if (taskId === undefined) return undefined
    differences.live(taskId, (task) => taskLine(task, forReference) === text)
  }
  return { live: 'ours', liveHash, diff: differences.end() }
}

function idOf(line: string): string | undefined {
  const key = /^"(?:[^"\\]|\\.)*"(?=:\{)/.exec(line)?.[0]
  return key === undefined ? undefined : (parseJson(key) as string | undefined)
}

/** The hash of everything before the meta. Undefined: not in our layout. */
async function hashOurs(file: LogFile): Promise<string | undefined> {
  const size = await file.size()
  const [start, end] = [Buffer.alloc(head.length), Buffer.alloc(Math.min(size, 65_536))]
  await file.read(start, 0)
  await file.read(end, size - end.length)
  const metaAt = end.lastIndexOf('\n"meta":{') - 1
  if (
    start.toString('latin1') !== head ||
    metaAt < 0 ||
    end[metaAt] !== 0x2c ||
    !end.toString('latin1').endsWith('}\n')
  )
    return undefined
  return hashUpTo(file, size - end.length + metaAt)
}

async function* lines(file: LogFile): AsyncGenerator<string> {
  const chunk = Buffer.allocUnsafe(chunkBytes)
  let rest: Buffer = Buffer.alloc(0)
  for (let at = 0; ;) {
    const bytesRead = await file.read(chunk, at)
    if (bytesRead === 0) break
    at += bytesRead
    const text = rest.length === 0 ? chunk.subarray(0, bytesRead) : Buffer.concat([rest, chunk.subarray(0, bytesRead)])
    let start = 0
    for (let stop = text.indexOf(0x0a); stop >= 0; stop = text.indexOf(0x0a, start)) {
      yield text.toString('utf8', start, stop)
      start = stop + 1
    }
    rest = Buffer.from(text.subarray(start))
  }
  if (rest.length > 0) yield rest.toString('utf8')
}

async function compareParsed(file: LogFile, fold: Fold): Promise<Comparison> {
  const differences = new Differences(fold)
  const parsed = await parseFile(file)
  const tasks = parsed?.['tasks']
  if (!isObject(tasks)) return { live: 'unreadable', liveHash: null, diff: differences.end() }
  const entries = Object.entries(tasks)
  const control = isObject(parsed?.['control']) ? parsed['control'] : {}
  const reference = entries.some(([, task]) => isObject(task) && 'history' in task && !('runs' in task))
  const lineOf = ([taskId, task]: readonly [string, unknown]) => `${JSON.stringify(taskId)}:${JSON.stringify(task)}`
  const liveHash = contentHash(entries.map(lineOf), control)
  for (const entry of entries) {
    const isSame = (mine: Task) =>
      reference ? sameAsReference(mine, entry[1]) : taskLine(mine, isReferenceRoot(fold.control)) === lineOf(entry)
    differences.live(entry[0], isSame)
  }
  return { live: reference ? 'reference' : 'other', liveHash, diff: differences.end() }
}

/** The reference uses other keys, and its times are those of its snapshot, not of its events. */
function sameAsReference(mine: Task, theirs: unknown): boolean {
  if (!isObject(theirs)) return false
  const { title, status, owner, blockedReason } = theirs
  const reason = mine.status === 'blocked' ? mine.reason : null
  const theirReason = status === 'blocked' ? (blockedReason ?? null) : null
  return title === mine.title && status === mine.status && (owner ?? null) === mine.assignee && theirReason === reason
}

async function parseFile(file: LogFile): Promise<JsonObject | undefined> {
  const size = await file.size()
  if (size > parseMaxBytes) return undefined
  const bytes = Buffer.alloc(size)
  await file.read(bytes, 0)
  const value = parseJson(bytes.toString('utf8'))
  return isObject(value) ? value : undefined
}

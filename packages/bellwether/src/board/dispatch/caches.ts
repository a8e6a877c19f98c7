/**
 * The state files that other programs read: state/recovery.state.json and state/budget.state.json. Always: made from the log
 * alone and replaced whole; deleting one costs nothing. A cache that cannot be written is reported and stops nobody. A large
 * one is written now and then and at the end, not at every step.
 */
import { join } from 'node:path'
import type { Log } from '@bellwether/base'
import type { Disk } from '../../ports/disk/disk.js'
import type { Ids } from '../../ports/ids.js'
import { incremental, type IncrementalIndex } from '../tasks/incremental.js'
import { budgetCacheFile, budgetEntries } from '../policies/budget.js'
import { cacheText, type Named } from '../policies/entries.js'
import { recoveryCacheFile, recoveryEntries } from '../policies/recovery.js'
import type { Board, BoardState, Task } from '../log/task.js'

export interface CachePorts {
  readonly disk: Pick<Disk, 'read' | 'stat' | 'writeDraft' | 'replace' | 'remove'>
  readonly ids: Ids
  readonly log: Log
}

// A file larger than this was not written by us; it is simply replaced.
const readMaxBytes = 256 * 2 ** 20
// Up to this many entries a file takes a millisecond or two: written at every step. Above it, after a part of them has changed.
const smallEntries = 1_000
const everyPart = 20

/** The entries of one file, by task. */
class Entries implements IncrementalIndex {
  readonly #of: (task: Task) => readonly Named[]
  readonly #byTask = new Map<string, readonly Named[]>()
  /** Tasks that changed since the file was written; what is written first counts as all. */
  changed = Number.POSITIVE_INFINITY
  /** How long the file was that was written last, and what the log's last event was then. */
  written: { readonly bytes: number; readonly eventCount: number } | null = null

  constructor(of: (task: Task) => readonly Named[]) {
    this.#of = of
  }

  rebuild(state: BoardState): void {
    for (const task of state.tasks.values()) this.#look(task)
  }

  update(_state: BoardState, tasks: readonly Task[]): void {
    for (const task of tasks) this.#look(task)
    this.changed += tasks.length
  }

  #look(task: Task): void {
    const entries = this.#of(task)
    if (entries.length === 0) this.#byTask.delete(task.taskId)
    else this.#byTask.set(task.taskId, entries)
  }

  get size(): number {
    return this.#byTask.size
  }

  text(state: BoardState): string {
    return cacheText([...this.#byTask.values()].flat(), state.lastEventAt)
  }
}

const files = [
  [recoveryCacheFile, incremental<null, Entries>(() => new Entries(recoveryEntries))],
  [budgetCacheFile, incremental<null, Entries>(() => new Entries(budgetEntries))],
] as const

/** Answers which files were written. `now`: large ones, too. */
export async function writeCaches(
  board: Pick<Board, 'root' | 'state'>,
  ports: CachePorts,
  when: 'now' | 'sometimes' = 'sometimes',
): Promise<readonly string[]> {
  const written: string[] = []
  const { state } = board
  for (const [file, keep] of files) {
    const entries = keep(state, null)
    const path = join(board.root, file)
    const draft = `${path}.${ports.ids.next()}.draft`
    try {
      if (!(await isDue(entries, path, state, ports, when))) continue
      const text = entries.text(state)
      const bytes = Buffer.from(text)
      const there = entries.written === null ? await ports.disk.read(path, readMaxBytes) : null
      const isSame = there?.found === 'bytes' && there.bytes.equals(bytes)
      if (!isSame) {
        await ports.disk.writeDraft(draft, [bytes])
        await ports.disk.replace(path, draft)
        written.push(file)
      }
      entries.written = { bytes: bytes.length, eventCount: state.eventCount }
      entries.changed = 0
    } catch (error) {
      ports.log.warn({ err: error, file }, 'a cache could not be written; the log has what it would have said')
      await ports.disk
        .remove(draft)
        .catch((left: unknown) => ports.log.warn({ err: left, draft }, 'a draft is left behind'))
    }
  }
  return written
}

async function isDue(
  entries: Entries,
  path: string,
  state: BoardState,
  { disk }: CachePorts,
  when: 'now' | 'sometimes',
): Promise<boolean> {
  const { written, size, changed } = entries
  if (written === null) return true
  const there = await disk.stat(path)
  // Somebody deleted or replaced it.
  if (there === 'missing' || there.size !== written.bytes) return true
  if (written.eventCount === state.eventCount) return false
  return when === 'now' || size <= smallEntries || changed >= size / everyPart
}

/**
 * Writes the state files for other programs: state/recovery.state.json and state/budget.state.json. They are derived from the
 * log and replaced atomically, so deleting one loses nothing. A file that cannot be written is only a warning. A large file
 * is not written at every step, but from time to time and at the end.
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

// Bellwether never writes a larger file; such a file is replaced.
const readMaxBytes = 256 * 2 ** 20
// A file with up to this many entries takes 1 to 2 ms and is written at every step; a larger one after 1/20 has changed.
const smallEntries = 1_000
const everyPart = 20

/** The entries of one file, by task. */
class Entries implements IncrementalIndex {
  readonly #of: (task: Task) => readonly Named[]
  readonly #byTask = new Map<string, readonly Named[]>()
  /** Tasks that changed since the file was written; infinite before the first write. */
  changed = Number.POSITIVE_INFINITY
  /** The size of the last written file, and the number of events it covers. */
  written: { readonly bytes: number; readonly eventCount: number } | null = null

  constructor(of: (task: Task) => readonly Named[]) {
    this.#of = of
  }

  rebuild(state: BoardState): void {
    for (const task of state.tasks.values()) this.#refresh(task)
  }

  update(_state: BoardState, tasks: readonly Task[]): void {
    for (const task of tasks) this.#refresh(task)
    this.changed += tasks.length
  }

  #refresh(task: Task): void {
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

/** Returns the files that were written. `now`: also large ones. */
export async function writeCaches(
  board: Pick<Board, 'root' | 'state'>,
  ports: CachePorts,
  when: 'now' | 'sometimes' = 'sometimes',
): Promise<readonly string[]> {
  const written: string[] = []
  const { state } = board
  for (const [file, entriesOf] of files) {
    const entries = entriesOf(state, null)
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
      ports.log.warn({ err: error, file }, 'cannot write a state file; the log is complete')
      await ports.disk
        .remove(draft)
        .catch((left: unknown) => ports.log.warn({ err: left, draft }, 'cannot remove a draft'))
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
  // The file was deleted or replaced.
  if (there === 'missing' || there.size !== written.bytes) return true
  if (written.eventCount === state.eventCount) return false
  return when === 'now' || size <= smallEntries || changed >= size / everyPart
}

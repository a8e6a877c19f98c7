/** A board in memory on the real fold. Several boards share one log, like processes that share one root. */
import type { Clock } from '@bellwether/base'
import { prepare } from '../../../src/board/log/lines/prepare-events.js'
import { Fold } from '../../../src/board/log/fold/fold.js'
import type { Board, BoardChange, BoardState, TaskEvent } from '../../../src/board/log/task.js'
import type { Ids } from '../../../src/ports/ids.js'

export interface MemoryRoot {
  readonly events: TaskEvent[]
  lock: Promise<unknown>
}

export const memoryRoot = (): MemoryRoot => ({ events: [], lock: Promise.resolve() })

export function openMemoryBoard(
  shared: MemoryRoot,
  { clock, ids }: { clock: Clock; ids: Ids },
  root = '/memory',
): Board {
  const fold = new Fold()
  const listeners = new Set<(how: BoardChange) => void>()
  const notify = (how: BoardChange) => listeners.forEach((listener) => listener(how))
  let seen = 0
  const take = (event: TaskEvent): string | undefined => {
    const bytes = Buffer.from(JSON.stringify(event))
    return fold.take(bytes, 0, bytes.length, 0)
  }
  const sync = (): BoardState => {
    for (; seen < shared.events.length; seen += 1) {
      const problem = take(shared.events[seen]!)
      if (problem !== undefined) throw new Error(`line ${seen + 1}: ${problem}`)
    }
    return fold.state()
  }
  const board: Board = {
    root,
    get state() {
      return fold.state()
    },
    async sync() {
      const before = fold.state()
      if (sync() !== before) notify('read')
      return fold.state()
    },
    async history(taskId, max) {
      const events = shared.events.filter((event) => event.taskId === taskId)
      return { createdBy: events[0]?.actor ?? null, events: events.slice(-max), left: Math.max(0, events.length - max) }
    },
    async write(decide) {
      const before = shared.lock
      let free = () => {}
      shared.lock = new Promise<void>((resolve) => (free = resolve))
      await before
      try {
        const before = fold.state()
        const state = sync()
        if (state !== before) notify('read')
        const drafts = decide(state)
        if (drafts.length === 0) return []
        const at = new Date(clock.wallMs()).toISOString()
        const { events: lines } = prepare(drafts, state, new Map(), { at, token: 0, nextId: () => ids.next() })
        shared.events.push(...lines)
        sync()
        notify('written')
        return lines
      } finally {
        free()
      }
    },
    onChange(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    close: async () => {},
  }
  return board
}

/**
 * The events of a board after a cursor, for `task watch` and the event stream. Only lines that count are returned, each
 * once, in log order. A cursor is the number of events before it. If the log was replaced by a shorter one, the page says
 * `reset` instead of hiding a gap. One reader serves any number of listeners.
 */
import { parseJson } from '@bellwether/base'
import type { Disk, LogFile } from '../../ports/disk/disk.js'
import { Reader } from './fold/replay.js'
import { scanLines } from './lines/scan.js'
import type { TaskEvent } from './task.js'

interface Page {
  readonly events: readonly TaskEvent[]
  readonly cursor: number
  /** The cursor does not belong to this log: the page begins at its start. */
  readonly reset: boolean
  /** Whether the next page is available now. */
  readonly more: boolean
}

export interface Feed {
  /** `cursor` null: from now on. */
  since(cursor: number | null, max?: number): Promise<Page>
  close(): Promise<void>
}

// The offset of every 256th event is remembered: a page then reads a few hundred lines, not the whole log.
const markEvery = 256
const pageMax = 1_000

export async function openFeed(path: string, disk: Disk): Promise<Feed> {
  let file: LogFile | 'missing' = 'missing'
  let identity = ''
  let reader = new Reader()
  let marks: number[] = []

  async function sync(): Promise<void> {
    const entry = await disk.stat(path)
    const replaced = entry !== 'missing' && (entry.identity !== identity || entry.size < reader.position)
    if (file === 'missing' || replaced) {
      if (file !== 'missing') await file.close()
      reader = new Reader()
      marks = []
      file = await disk.openLog(path, 'read')
      if (file === 'missing') return
      identity = await file.identity()
    }
    let count = reader.fold.eventCount
    try {
      await reader.read(file, {
        onCounted: () => {
          if (count % markEvery === 0) marks.push(reader.position)
          count += 1
        },
      })
    } catch (error) {
      // An abandoned read may still write to the reader's buffer: the next page starts with a new file and reader.
      const before = file
      file = 'missing'
      await before.close()
      throw error
    }
  }

  /** The counted lines from a mark on: those that the fold knows at exactly this offset. */
  async function* lines(log: LogFile, from: number): AsyncGenerator<TaskEvent> {
    for await (const { place, bytes } of scanLines(log, from, reader.position)) {
      const event = counted(bytes, place)
      if (event !== undefined) yield event
    }
  }

  function counted(bytes: Buffer, place: number): TaskEvent | undefined {
    // Broken lines do not count; rebuild-snapshot reports them.
    const event = parseJson(bytes.toString('utf8')) as TaskEvent | null | undefined
    if (typeof event?.eventId !== 'string' || reader.fold.placeOf(event.eventId) !== place) return undefined
    return event
  }

  return {
    async since(cursor, max = pageMax) {
      await sync()
      const all = reader.fold.eventCount
      if (cursor === null) return { events: [], cursor: all, reset: false, more: false }
      const reset = !Number.isSafeInteger(cursor) || cursor < 0 || cursor > all
      let at = reset ? 0 : cursor
      const events: TaskEvent[] = []
      if (file === 'missing' || at === all) return { events, cursor: at, reset, more: false }
      let skip = at % markEvery
      for await (const event of lines(file, marks[Math.floor(at / markEvery)] ?? 0)) {
        if (skip > 0) {
          skip -= 1
          continue
        }
        events.push(event)
        at += 1
        if (events.length === Math.min(max, pageMax)) break
      }
      return { events, cursor: at, reset, more: at < all }
    },
    async close() {
      if (file !== 'missing') await file.close()
      file = 'missing'
    },
  }
}

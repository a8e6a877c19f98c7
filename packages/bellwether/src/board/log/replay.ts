/**
 * A log read from a place to its end, line by line, into a fold. Always: memory is bounded by the longest line that is allowed
 * and not by the file; every line is either counted or reported by its number; a last line without a newline counts when it
 * is whole, and is told as torn when it is not. Nothing is written here.
 */
import type { LogFile } from '../../ports/disk/disk.js'
import { Fold, type Problem } from './fold.js'
import { lineReadMaxBytes } from './line.js'

export interface LineIssue {
  readonly line: number
  readonly kind: Problem
  readonly detail: string
}

export interface ReplayReport {
  /** Lines that hold anything. */
  lines: number
  counts: Partial<Record<Problem, number>>
  /** The first ones; `counts` has them all. */
  issues: LineIssue[]
  /** Whether the log ends in a piece of a line. */
  torn: boolean
}

// Enough to see what is wrong; a log of garbage must not fill the memory with complaints.
const issuesMax = 1_000
// Large enough that reading is cheap, small enough that a server can answer between two of them.
const chunkBytes = 2 ** 20
const newline = 0x0a
// A short line of ours: what room is made for is rather too much than too little.
const lineBytes = 220

/** Where a reader is in a log. A new one is at the start. */
export class Reader {
  readonly fold: Fold
  readonly report: ReplayReport = { lines: 0, counts: {}, issues: [], torn: false }
  /** Up to here everything has been taken, whole lines only. */
  position = 0
  /** Whole lines up to `position`, empty ones too. */
  lineNumber = 0
  /** The last line counted already, although its newline is still missing. */
  openEnd = false
  #chunk = Buffer.allocUnsafe(chunkBytes)

  constructor(fold = new Fold()) {
    this.fold = fold
  }

  /** A reader that stands where another stood, at the end of a whole line. */
  static from(
    fold: Fold,
    past: Pick<ReplayReport, 'lines' | 'counts'> & { position: number; lineNumber: number },
  ): Reader {
    const reader = new Reader(fold)
    reader.report.lines = past.lines
    reader.report.counts = { ...past.counts }
    reader.position = past.position
    reader.lineNumber = past.lineNumber
    return reader
  }

  /**
   * Takes what has been appended since. `onCounted` sees the bytes of each line that counted; `onProgress` how far it got;
   * with `whole` a last line without newline is taken as a line also when it is broken: nobody will complete it.
   */
  async read(
    log: LogFile,
    {
      onCounted,
      onProgress,
      complete: whole = false,
    }: {
      readonly onCounted?: (bytes: Buffer, start: number, end: number) => Promise<void> | void
      readonly onProgress?: (position: number, size: number) => void
      readonly complete?: boolean
    } = {},
  ): Promise<void> {
    const size = await log.size()
    if (this.position === 0) this.fold.expect(size / lineBytes)
    // What stands in `chunk` from `kept` bytes before the place that is read next.
    let kept = 0
    let skipping = 0
    let at = this.position
    this.report.torn = false
    while (at < size) {
      if (kept === this.#chunk.length) this.#chunk = Buffer.concat([this.#chunk], this.#chunk.length * 2)
      const got = await log.read(this.#chunk.subarray(kept), at)
      if (got === 0) break
      at += got
      const end = kept + got
      const chunk = this.#chunk
      let start = 0
      for (let stop = chunk.indexOf(newline, kept); stop >= 0 && stop < end; stop = chunk.indexOf(newline, start)) {
        if (skipping > 0) {
          this.#tooLong(skipping + stop - start)
          skipping = 0
        } else if (this.openEnd) {
          this.openEnd = false
          // Another program went on in the line instead of beginning one.
          if (!isBlank(chunk, start, stop)) this.#note('broken_json', 'text after the end of the line before')
        } else {
          const taken = this.#take(chunk, start, stop)
          // Awaited only where it must be: a million lines would pay for it.
          if (taken === 'unsure' ? await this.#resolveUnsure(chunk, start, stop) : taken) {
            const done = onCounted?.(chunk, start, stop)
            if (done !== undefined) await done
          }
        }
        this.lineNumber += 1
        start = stop + 1
        this.position = at - (end - start)
      }
      kept = end - start
      if (kept > lineReadMaxBytes) {
        // Too long to be a line of ours: count its bytes and let them go.
        skipping += kept
        kept = 0
      } else if (start > 0 && kept > 0) chunk.copy(chunk, 0, start, end)
      onProgress?.(at, size)
    }
    if (this.#chunk.length > chunkBytes && kept < chunkBytes) {
      const rest = this.#chunk.subarray(0, kept)
      this.#chunk = Buffer.allocUnsafe(chunkBytes)
      rest.copy(this.#chunk)
    }
    if (kept > 0 || skipping > 0) await this.#end(kept, skipping, whole, onCounted)
  }

  /** What comes after the last newline. A whole object is a whole line: no piece of a line is one. */
  async #end(
    kept: number,
    skipping: number,
    whole: boolean,
    onCounted: ((bytes: Buffer, start: number, end: number) => Promise<void> | void) | undefined,
  ): Promise<void> {
    if (this.openEnd) return
    const last = this.#chunk.subarray(0, kept)
    const closed = skipping === 0 && last.lastIndexOf('}') >= 0 && isWhole(last)
    if (closed) {
      const taken = this.#take(last, 0, kept)
      if (taken === 'unsure' ? await this.#resolveUnsure(last, 0, kept) : taken) await onCounted?.(last, 0, kept)
      this.openEnd = true
      this.position += kept
      return
    }
    this.report.torn = true
    if (!whole) return
    if (skipping > 0) this.#tooLong(skipping + kept)
    else if (this.#take(last, 0, kept) === 'unsure') await this.#resolveUnsure(last, 0, kept)
    this.lineNumber += 1
    this.position += skipping + kept
  }

  #take(bytes: Buffer, start: number, end: number): boolean | 'unsure' {
    const stop = end > start && bytes[end - 1] === 0x0d ? end - 1 : end
    if (isBlank(bytes, start, stop)) return false
    this.report.lines += 1
    const problem = this.fold.take(bytes, start, stop, this.position)
    if (problem === undefined) return true
    if (problem === 'unsure') return problem
    this.#note(problem, this.fold.detail)
    return false
  }

  /** The line's id looks like one of long ago: the log itself tells whether it is. */
  async #resolveUnsure(bytes: Buffer, start: number, end: number): Promise<boolean> {
    const id = this.fold.detail
    const stop = bytes[end - 1] === 0x0d ? end - 1 : end
    const known = (await this.fold.idIndex?.find(id)) !== undefined
    const problem = known ? 'duplicate_event_id' : this.fold.take(bytes, start, stop, this.position, true)
    if (problem === undefined || problem === 'unsure') return true
    this.#note(problem, known ? id : this.fold.detail)
    return false
  }

  #tooLong(bytes: number): void {
    this.report.lines += 1
    this.#note('too_long', `${bytes} bytes; the most is ${lineReadMaxBytes}`)
  }

  #note(kind: Problem, detail: string): void {
    const { counts, issues: troubles } = this.report
    counts[kind] = (counts[kind] ?? 0) + 1
    if (troubles.length < issuesMax) troubles.push({ line: this.lineNumber + 1, kind, detail })
  }
}

function isBlank(bytes: Buffer, start: number, end: number): boolean {
  for (let i = start; i < end; i += 1) if (bytes[i] !== 0x20 && bytes[i] !== 0x09) return false
  return true
}

function isWhole(bytes: Buffer): boolean {
  try {
    JSON.parse(bytes.toString('utf8'))
    return true
  } catch (error) {
    if (error instanceof SyntaxError) return false
    throw error
  }
}

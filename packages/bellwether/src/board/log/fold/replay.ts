/**
 * Reads a log from a position to its end into a fold. Memory is bounded by the longest allowed line. Every line is counted
 * or reported with its number. A last line without a newline counts if it is complete JSON, and else is reported as torn.
 */
import { parseJson } from '@bellwether/base'
import type { LogFile } from '../../../ports/disk/disk.js'
import { damagedKinds, Fold, type Problem } from './fold.js'
import { lineReadMaxBytes } from '../lines/line.js'

export interface LineIssue {
  readonly line: number
  readonly kind: Problem
  readonly detail: string
}

export interface ReplayReport {
  /** Lines that are not blank. */
  lines: number
  counts: Partial<Record<Problem, number>>
  /** The first ones; `counts` covers all. */
  issues: LineIssue[]
  /** Whether the log ends in an incomplete line. */
  torn: boolean
}

// Enough to see what is wrong; a damaged log must not fill the memory with reports.
const issuesMax = 1_000
// Large enough for cheap reads, small enough that a server can answer between two chunks.
const chunkBytes = 2 ** 20
const newline = 0x0a
// The size of a short line: the tables are allocated rather too large than too small.
const lineBytes = 220

/** A position in a log with the fold up to it. A new reader is at the start. */
export class Reader {
  readonly fold: Fold
  readonly report: ReplayReport = { lines: 0, counts: {}, issues: [], torn: false }
  /** The byte up to which complete lines have been read. */
  position = 0
  /** Complete lines up to `position`, including blank ones. */
  lineNumber = 0
  /** The last line has counted, although its newline is still missing. */
  openEnd = false
  #chunk = Buffer.allocUnsafe(chunkBytes)

  constructor(fold = new Fold()) {
    this.fold = fold
  }

  /** Continues where another reader stopped, at the end of a complete line. */
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
   * Reads what was appended since. `onCounted` gets the bytes of each line that counted. With `complete` a broken last line
   * without a newline is reported as a line: the caller knows that its writer is gone.
   */
  async read(
    log: LogFile,
    {
      onCounted,
      onProgress,
      complete = false,
    }: {
      readonly onCounted?: (bytes: Buffer, start: number, end: number) => Promise<void> | void
      readonly onProgress?: (position: number, size: number) => void
      readonly complete?: boolean
    } = {},
  ): Promise<void> {
    const size = await log.size()
    if (this.position === 0) this.fold.expect(size / lineBytes)
    // Bytes at the start of the chunk that belong to a line whose end has not been read yet.
    let pending = 0
    let skipping = 0
    let at = this.position
    this.report.torn = false
    while (at < size) {
      if (pending === this.#chunk.length) this.#chunk = Buffer.concat([this.#chunk], this.#chunk.length * 2)
      const bytesRead = await log.read(this.#chunk.subarray(pending), at)
      if (bytesRead === 0) break
      at += bytesRead
      const end = pending + bytesRead
      const chunk = this.#chunk
      let start = 0
      for (let stop = chunk.indexOf(newline, pending); stop >= 0 && stop < end; stop = chunk.indexOf(newline, start)) {
        if (skipping > 0) {
          this.#tooLong(skipping + stop - start)
          skipping = 0
        } else if (this.openEnd) {
          this.openEnd = false
          // Another program continued the line instead of starting a new one.
          if (!isBlank(chunk, start, stop))
            this.#note('broken_json', 'text after the end of the line before', chunk.subarray(start, stop))
        } else {
          const taken = this.#take(chunk, start, stop)
          // Await only if necessary: it would cost time for each of a million lines.
          if (taken === 'unsure' ? await this.#resolveUnsure(chunk, start, stop) : taken) {
            const done = onCounted?.(chunk, start, stop)
            if (done !== undefined) await done
          }
        }
        this.lineNumber += 1
        start = stop + 1
        this.position = at - (end - start)
      }
      pending = end - start
      if (pending > lineReadMaxBytes) {
        // Longer than any allowed line: count its bytes and skip them.
        skipping += pending
        pending = 0
      } else if (start > 0 && pending > 0) chunk.copy(chunk, 0, start, end)
      onProgress?.(at, size)
    }
    if (this.#chunk.length > chunkBytes && pending < chunkBytes) {
      const rest = this.#chunk.subarray(0, pending)
      this.#chunk = Buffer.allocUnsafe(chunkBytes)
      rest.copy(this.#chunk)
    }
    if (pending > 0 || skipping > 0) await this.#end(pending, skipping, complete, onCounted)
  }

  /** The bytes after the last newline. Complete JSON is a complete line: no prefix of a line is valid JSON. */
  async #end(
    pending: number,
    skipping: number,
    complete: boolean,
    onCounted: ((bytes: Buffer, start: number, end: number) => Promise<void> | void) | undefined,
  ): Promise<void> {
    if (this.openEnd) return
    const last = this.#chunk.subarray(0, pending)
    const closed = skipping === 0 && last.lastIndexOf('}') >= 0 && parseJson(last.toString('utf8')) !== undefined
    if (closed) {
      const taken = this.#take(last, 0, pending)
      if (taken === 'unsure' ? await this.#resolveUnsure(last, 0, pending) : taken) await onCounted?.(last, 0, pending)
      this.openEnd = true
      this.position += pending
      return
    }
    this.report.torn = true
    if (!complete) return
    if (skipping > 0) this.#tooLong(skipping + pending)
    else if (this.#take(last, 0, pending) === 'unsure') await this.#resolveUnsure(last, 0, pending)
    this.lineNumber += 1
    this.position += skipping + pending
  }

  #take(bytes: Buffer, start: number, end: number): boolean | 'unsure' {
    const stop = end > start && bytes[end - 1] === 0x0d ? end - 1 : end
    if (isBlank(bytes, start, stop)) return false
    this.report.lines += 1
    const problem = this.fold.take(bytes, start, stop, this.position)
    if (problem === undefined) return this.#counted()
    if (problem === 'unsure') return problem
    this.#note(problem, this.fold.detail, bytes.subarray(start, stop))
    return false
  }

  /** The id may be that of an earlier event: the index looks it up in the log. */
  async #resolveUnsure(bytes: Buffer, start: number, end: number): Promise<boolean> {
    const id = this.fold.detail
    const stop = bytes[end - 1] === 0x0d ? end - 1 : end
    const known = (await this.fold.idIndex?.find(id)) !== undefined
    const problem = known ? 'duplicate_event_id' : this.fold.take(bytes, start, stop, this.position, true)
    if (problem === undefined || problem === 'unsure') return this.#counted()
    this.#note(problem, known ? id : this.fold.detail, bytes.subarray(start, stop))
    return false
  }

  #counted(): true {
    if (this.fold.isReopening && Object.keys(this.report.counts).some(isFlaw))
      this.fold.holdReopened(this.lineNumber + 1)
    return true
  }

  #tooLong(bytes: number): void {
    this.report.lines += 1
    this.#note('too_long', `${bytes} bytes; the maximum is ${lineReadMaxBytes}`, undefined)
  }

  #note(kind: Problem, detail: string, bytes: Buffer | undefined): void {
    this.fold.holdTasks(kind, this.lineNumber + 1, bytes)
    const { counts, issues } = this.report
    counts[kind] = (counts[kind] ?? 0) + 1
    if (issues.length < issuesMax) issues.push({ line: this.lineNumber + 1, kind, detail })
  }
}

const isFlaw = (kind: string) => kind === 'invalid_transition' || damagedKinds.has(kind as Problem)

function isBlank(bytes: Buffer, start: number, end: number): boolean {
  for (let i = start; i < end; i += 1) if (bytes[i] !== 0x20 && bytes[i] !== 0x09) return false
  return true
}

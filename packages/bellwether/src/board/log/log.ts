/**
 * Reads and appends state/tasks.jsonl. An append returns only after fsync and reading it back; if that fails, the group is appended
 * again with the same ids, which count once. No line is ever cut: its writer may be alive. The caller holds the lock.
 */
import { join } from 'node:path'
import { type Log, parseJson } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import type { Disk, LogFile } from '../../ports/disk/disk.js'
import { EventIdIndex, EventIdIndexLost } from './fold/event-id-index.js'
import type { Fold } from './fold/fold.js'
import { lineAt } from './lines/line-at.js'
import { Reader, type ReplayReport } from './fold/replay.js'
import { resume } from './resume.js'
import { resumeMinBytes, writeResumeData, type ResumeData } from './resume-point.js'
import { explainDisk, type TaskRoot } from './root.js'
import { scanLines } from './lines/scan.js'
import type { TaskEvent, TaskHistory } from './task.js'

const newline = 0x0a
// Enough to find the place in the file; rebuild-snapshot lists all of them.
const linesShown = 5

export class TaskLog {
  readonly #path: string
  readonly #disk: Disk
  readonly #log: Log
  #file: LogFile
  #identity: string
  #reader = new Reader()
  #resumedEvents = 0
  /** A call timed out and may still write to the reader's buffer: the next read starts with a new file and reader. */
  #abandoned = false

  readonly #root: TaskRoot
  readonly #access: 'read' | 'write'
  readonly #minBytes: number

  private constructor(root: TaskRoot, options: LogOptions, file: LogFile, identity: string) {
    const { disk, log, access, minBytes = resumeMinBytes } = options
    this.#root = root
    this.#path = root.log
    this.#access = access
    this.#disk = disk
    this.#log = log
    this.#minBytes = minBytes
    this.#file = file
    this.#identity = identity
  }

  static async open(root: TaskRoot, options: LogOptions): Promise<TaskLog> {
    const file = await openFile(root.log, options)
    const opened = new TaskLog(root, options, file, await file.identity())
    await opened.#start()
    await opened.sync()
    opened.#logProblems()
    return opened
  }

  /** Positions the reader behind a valid snapshot, or at the start of the log. */
  async #start(): Promise<void> {
    this.#reader = new Reader()
    this.#resumedEvents = 0
    const path = this.#path
    const size = await explainDisk(path, () => this.#file.size())
    // A short log is read in full anyway.
    if (size < this.#minBytes) return
    const found = await resume(this.#root, this.#file, this.#disk)
    if ('reader' in found) {
      this.#reader = found.reader
      this.#resumedEvents = found.reader.fold.eventCount
      this.#log.info({ path, position: this.position, size }, 'log resumed from the snapshot')
    } else if (found.unusable)
      this.#log.warn({ path, reason: found.reason }, 'snapshot not usable; reading the whole log')
    else this.#log.info({ path, reason: found.reason }, 'reading the whole log')
  }

  /** How many events the snapshot covered from which reading resumed; 0: the log was read from its start. */
  get resumedEvents(): number {
    return this.#resumedEvents
  }

  get fold(): Fold {
    return this.#reader.fold
  }

  get report(): ReplayReport {
    return this.#reader.report
  }

  /** The byte up to which the log has been read. */
  get position(): number {
    return this.#reader.position
  }

  /** Reads what was appended since. If the file was replaced or truncated, reads it from the start. */
  async sync(): Promise<void> {
    const entry = await this.#disk.stat(this.#path)
    const replaced = entry === 'missing' || entry.identity !== this.#identity
    if (replaced || entry.size < this.#reader.position || this.#abandoned) {
      const message = this.#abandoned
        ? 'log file was reopened after a timeout'
        : 'log file was replaced; reading it again'
      this.#log.warn({ path: this.#path }, message)
      this.#abandoned = false
      await this.#reopen()
    }
    await this.#read()
  }

  /** Appends complete lines and reads them back; the fold then knows whether they counted. */
  async append(lines: Buffer): Promise<void> {
    try {
      await explainDisk(this.#path, () => this.#write(lines))
      await this.#file.flush()
    } catch (error) {
      if (error instanceof Retryable) throw error
      this.#log.error({ err: error, path: this.#path }, 'append failed; reopening the log')
      await this.#retryAppend(lines, error)
    }
    await this.#read()
  }

  #read(): Promise<void> {
    return this.#withIdIndex(() => explainDisk(this.#path, () => this.#reader.read(this.#file))).catch(
      (error: unknown) => {
        this.#abandoned ||= error instanceof Retryable && error.code === 'timeout'
        throw error
      },
    )
  }

  /** Retries `work` after a full read if the index of event ids cannot be read any more. */
  async #withIdIndex<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      if (!(error instanceof EventIdIndexLost)) throw error
      this.#log.warn({ err: error, path: this.#path }, 'event id index lost; reading the whole log')
      await this.#reader.fold.idIndex?.close()
      this.#reader = new Reader()
      await explainDisk(this.#path, () => this.#reader.read(this.#file))
      return work()
    }
  }

  /** After a failed fsync the kernel may have dropped dirty pages without an error: only a new append is safe. */
  async #retryAppend(lines: Buffer, first: unknown): Promise<void> {
    try {
      await this.#reopen()
      await this.#read()
      await this.#write(lines)
      await this.#file.flush()
    } catch (error) {
      throw new Retryable(`Cannot confirm the append to ${this.#path}: the disk failed twice.`, {
        code: 'write_unconfirmed',
        cause: new AggregateError([first, error]),
        afterMs: 1_000,
        hint: 'Check the disk, then retry with the same event ids: they count once.',
      })
    }
  }

  async #write(lines: Buffer): Promise<void> {
    const { openEnd, report, position, lineNumber } = this.#reader
    const open = openEnd || report.torn
    if (report.torn) {
      this.#log.warn({ path: this.#path, line: lineNumber + 1, position }, 'closed a torn line with a newline')
    }
    // One write with the lines: no other writer can get between the newline and the first line.
    let rest = open ? Buffer.concat([Buffer.of(newline), lines]) : lines
    while (rest.length > 0) {
      const taken = await this.#file.append(rest)
      if (taken === 0) throw Object.assign(new Error('the append wrote 0 bytes'), { code: 'ENOSPC' })
      rest = rest.subarray(taken)
    }
  }

  async #reopen(): Promise<void> {
    const [before, file] = [this.#file, await openFile(this.#path, { disk: this.#disk, access: this.#access })]
    this.#file = file
    this.#identity = await file.identity()
    await this.#reader.fold.idIndex?.close()
    await this.#start()
    await before.close()
  }

  async has(eventId: string): Promise<boolean> {
    return (await this.#placeOf(eventId)) !== undefined
  }

  #placeOf(eventId: string): Promise<number | undefined> {
    return this.#withIdIndex(async () => this.fold.placeOf(eventId) ?? this.fold.idIndex?.find(eventId))
  }

  /** The counted event with this id. */
  async find(eventId: string): Promise<TaskEvent | undefined> {
    const place = await this.#placeOf(eventId)
    return place === undefined ? undefined : (JSON.parse(await lineAt(this.#file, place)) as TaskEvent)
  }

  /** The lines of a task that count. Only lines that contain its id are parsed, unless a writer may have escaped the id. */
  async history(taskId: string, max: number): Promise<TaskHistory> {
    const isPlain = /^[\x20-\x7e]*$/.test(taskId) && !/["\\/]/.test(taskId)
    const events: TaskEvent[] = []
    let createdBy: string | null = null
    let count = 0
    const text = Buffer.from(isPlain ? JSON.stringify(taskId) : '')
    for await (const { place, bytes } of scanLines(this.#file, 0, this.#reader.position, text)) {
      const event = parseJson(bytes.toString('utf8')) as TaskEvent | null | undefined
      if (event?.taskId !== taskId || (await this.#placeOf(event.eventId)) !== place) continue
      createdBy ??= event.actor
      count += 1
      events.push(event)
      if (events.length > max) events.shift()
    }
    return { createdBy, events, left: count - events.length }
  }

  /** Writes the data that a snapshot needs to resume from here, and frees the ids that are now in its index file. */
  async resumeData(draftId: string): Promise<ResumeData | undefined> {
    const { fold, position, lineNumber, openEnd } = this.#reader
    const at = { fold, position, lineNumber, openEnd }
    const { state } = this.#root
    const ports = { disk: this.#disk, draftId, minBytes: this.#minBytes }
    const data = await writeResumeData(at, this.#file, state, ports)
    if (data === undefined) return undefined
    const file = await this.#disk.openLog(join(state, data.ids.file), 'read')
    const idIndex = file === 'missing' ? undefined : await EventIdIndex.open(file, this.#file, data.ids)
    if (idIndex === undefined) return undefined
    const before = fold.idIndex
    fold.moveIdsTo(idIndex)
    await before?.close()
    return data
  }

  #logProblems(): void {
    const { counts, issues, torn } = this.report
    if (Object.keys(counts).length > 0)
      this.#log.warn(
        { path: this.#path, counts, lines: issues.slice(0, linesShown).map(({ line, kind }) => `${line} (${kind})`) },
        'some lines of the log do not count; run bellwether rebuild-snapshot to list them',
      )
    let heldTasks = 0
    for (const { damage } of this.fold.tasks()) if (damage !== undefined) heldTasks += 1
    if (heldTasks > 0)
      this.#log.warn(
        { path: this.#path, tasks: heldTasks },
        'tasks are held for a person because of damaged lines of the log',
      )
    if (torn) this.#log.warn({ path: this.#path, position: this.position }, 'log ends in a torn line')
  }

  async close(): Promise<void> {
    await this.#reader.fold.idIndex?.close()
    await this.#file.close()
  }
}

interface LogOptions {
  readonly disk: Disk
  readonly log: Log
  readonly access: 'read' | 'write'
  readonly minBytes?: number
}

async function openFile(path: string, { disk, access }: Pick<LogOptions, 'disk' | 'access'>): Promise<LogFile> {
  const file = await explainDisk(path, () => disk.openLog(path, access === 'read' ? 'read' : 'append'))
  if (file !== 'missing') return file
  throw new Retryable(`Cannot open ${path}: the file or its folder no longer exists.`, {
    code: 'no_such_root',
    afterMs: 1_000,
    hint: 'Restore the task root, or name another one with --root DIR.',
  })
}

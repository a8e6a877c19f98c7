/**
 * state/tasks.jsonl, open for one process. Always: it is read on from the snapshot where that holds, else from its start, with
 * the same result; an append is on the disk and read back before it is told as done; a torn last line is closed with
 * a newline, never cut, because its writer may be alive; after a failed fsync the file is opened and read again, and the group is appended once more (the same ids count once). Who may append is left to the lock, what lines
 * mean to the fold.
 */
import { join } from 'node:path'
import type { Log } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import type { Disk, LogFile } from '../../ports/disk/disk.js'
import { EventIdIndex, EventIdIndexLost } from './event-id-index.js'
import type { Fold } from './fold.js'
import { lineAt } from './line-at.js'
import { Reader, type ReplayReport } from './replay.js'
import { resume } from './resume.js'
import { resumeMinBytes, writeResumeData, type ResumeData } from './resume-point.js'
import { explainDisk, type TaskRoot } from './root.js'
import type { TaskEvent } from './task.js'

const newline = 0x0a

export class TaskLog {
  readonly #path: string
  readonly #disk: Disk
  readonly #log: Log
  #file: LogFile
  #identity: string
  #reader = new Reader()
  #resumedEvents = 0

  readonly #root: TaskRoot
  readonly #minBytes: number

  private constructor({ root, disk, log, minBytes }: LogOptions, file: LogFile, identity: string) {
    this.#root = root
    this.#path = root.log
    this.#disk = disk
    this.#log = log
    this.#minBytes = minBytes
    this.#file = file
    this.#identity = identity
  }

  static async open(root: TaskRoot, disk: Disk, log: Log, minBytes = resumeMinBytes): Promise<TaskLog> {
    const file = await openFile(root.log, disk)
    const opened = new TaskLog({ root, disk, log, minBytes }, file, await file.identity())
    await opened.#start()
    await opened.sync()
    opened.#logProblems()
    return opened
  }

  /** From the snapshot, or from the start of the log. */
  async #start(): Promise<void> {
    this.#reader = new Reader()
    this.#resumedEvents = 0
    const path = this.#path
    const size = await explainDisk(path, () => this.#file.size())
    // Said only where it costs anybody anything.
    if (size < this.#minBytes) return
    const found = await resume(this.#root, this.#file, this.#disk)
    if ('reader' in found) {
      this.#reader = found.reader
      this.#resumedEvents = found.reader.fold.eventCount
      this.#log.info({ path, position: this.position, size }, 'the log is read on from the snapshot')
    } else if (found.odd) this.#log.warn({ path, why: found.instead }, `the whole log is read: ${found.instead}`)
    else this.#log.info({ path, why: found.instead }, `the whole log is read: ${found.instead}`)
  }

  /** How many events the snapshot had that was gone on from; 0: the log was read from its start. */
  get resumedEvents(): number {
    return this.#resumedEvents
  }

  get fold(): Fold {
    return this.#reader.fold
  }

  get report(): ReplayReport {
    return this.#reader.report
  }

  /** Up to here the log has been read. */
  get position(): number {
    return this.#reader.position
  }

  /** Reads what has been appended since. Whether the file was another one, and everything was read anew. */
  async sync(): Promise<void> {
    const entry = await this.#disk.stat(this.#path)
    const replaced = entry === 'missing' || entry.identity !== this.#identity
    if (replaced || entry.size < this.#reader.position) {
      this.#log.warn({ path: this.#path }, 'the log is another file than before and is read anew')
      await this.#reopen()
    }
    await this.#read()
  }

  /** Appends whole lines and reads them back; the fold then knows whether they counted. The caller holds the lock. */
  async append(lines: Buffer): Promise<void> {
    try {
      await explainDisk(this.#path, () => this.#write(lines))
      await this.#file.flush()
    } catch (error) {
      if (error instanceof Retryable) throw error
      this.#log.error({ err: error, path: this.#path }, 'an append failed: the log is opened again')
      await this.#retryAppend(lines, error)
    }
    await this.#read()
  }

  #read(): Promise<void> {
    return this.#withIdIndex(() => explainDisk(this.#path, () => this.#reader.read(this.#file)))
  }

  /** Once more from the start of the log, when the ids of earlier events are lost. */
  async #withIdIndex<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      if (!(error instanceof EventIdIndexLost)) throw error
      this.#log.warn({ err: error, path: this.#path }, 'the whole log is read: the ids of earlier events are lost')
      await this.#reader.fold.idIndex?.close()
      this.#reader = new Reader()
      await explainDisk(this.#path, () => this.#reader.read(this.#file))
      return work()
    }
  }

  /** What the disk has forgotten after a failed fsync nobody knows: only new pages are certain to be written. */
  async #retryAppend(lines: Buffer, first: unknown): Promise<void> {
    try {
      await this.#reopen()
      await this.#read()
      await this.#write(lines)
      await this.#file.flush()
    } catch (error) {
      throw new Retryable(`nobody knows whether ${this.#path} holds what was appended`, {
        code: 'write_unconfirmed',
        cause: new AggregateError([first, error]),
        afterMs: 1_000,
        hint: 'Look at the disk. The same event ids may be appended again: they count once.',
      })
    }
  }

  async #write(lines: Buffer): Promise<void> {
    const { openEnd, report, position, lineNumber } = this.#reader
    const open = openEnd || report.torn
    if (report.torn) {
      this.#log.warn({ path: this.#path, line: lineNumber + 1, position }, 'a torn line was closed with a newline')
    }
    // In one write with what follows: the end of the file and our first line cannot be parted by another writer.
    let rest = open ? Buffer.concat([Buffer.of(newline), lines]) : lines
    while (rest.length > 0) {
      const taken = await this.#file.append(rest)
      if (taken === 0) throw Object.assign(new Error('nothing was taken'), { code: 'ENOSPC' })
      rest = rest.subarray(taken)
    }
  }

  async #reopen(): Promise<void> {
    const [before, file] = [this.#file, await openFile(this.#path, this.#disk)]
    this.#file = file
    this.#identity = await file.identity()
    await this.#reader.fold.idIndex?.close()
    await this.#start()
    await before.close()
  }

  /** Whether an event with this id counted. */
  async has(eventId: string): Promise<boolean> {
    return (await this.#placeOf(eventId)) !== undefined
  }

  #placeOf(eventId: string): Promise<number | undefined> {
    return this.#withIdIndex(async () => this.fold.placeOf(eventId) ?? this.fold.idIndex?.find(eventId))
  }

  /** The event with this id that counted, if there is one. */
  async find(eventId: string): Promise<TaskEvent | undefined> {
    const place = await this.#placeOf(eventId)
    return place === undefined ? undefined : (JSON.parse(await lineAt(this.#file, place)) as TaskEvent)
  }

  /** What a snapshot of this moment says for those who go on from it; also lets go of the ids that its file has now. */
  async resumeData(draftId: string): Promise<ResumeData | undefined> {
    const { fold, position, lineNumber, openEnd } = this.#reader
    const at = { fold, position, lineNumber, openEnd }
    const { state } = this.#root
    const ports = { disk: this.#disk, draftId, minBytes: this.#minBytes }
    const facts = await writeResumeData(at, this.#file, state, ports)
    if (facts === undefined) return undefined
    const file = await this.#disk.openLog(join(state, facts.ids.file), 'read')
    const earlier = file === 'missing' ? undefined : await EventIdIndex.open(file, this.#file, facts.ids)
    if (earlier === undefined) return undefined
    const before = fold.idIndex
    fold.forgetIds(earlier)
    await before?.close()
    return facts
  }

  #logProblems(): void {
    const { counts, torn } = this.report
    if (Object.keys(counts).length > 0)
      this.#log.warn({ path: this.#path, counts }, 'some lines of the log do not count')
    if (torn) this.#log.warn({ path: this.#path, position: this.position }, 'the log ends in a torn line')
  }

  async close(): Promise<void> {
    await this.#reader.fold.idIndex?.close()
    await this.#file.close()
  }
}

interface LogOptions {
  readonly root: TaskRoot
  readonly disk: Disk
  readonly log: Log
  readonly minBytes: number
}

async function openFile(path: string, disk: Disk): Promise<LogFile> {
  const file = await explainDisk(path, () => disk.openLog(path, 'append'))
  if (file !== 'missing') return file
  throw new Retryable(`the folder of ${path} is gone`, { code: 'no_such_root', afterMs: 1_000 })
}

/**
 * state/tasks.jsonl, open for one process. Always: an append is on the disk and read back before it is told as done; a torn
 * last line is closed with a newline, never cut, because its writer may be alive; after a failed fsync the file is opened and
 * read again, and the group is appended once more (the same ids count once). Who may append is left to the lock, what lines
 * mean to the fold.
 */
import { Retryable } from '@bellwether/protocol'
import type { Disk, LogFile } from '../ports/disk/disk.js'
import type { Log } from '../ports/log.js'
import type { Fold } from './fold.js'
import { Reader, type ReplayReport } from './replay.js'
import { explainDisk } from './root.js'

const newline = 0x0a
// A line is read back by its place: one of ours is shorter, and a longer one is read in steps.
const lookBytes = 65_536

export class TaskLog {
  readonly #path: string
  readonly #disk: Disk
  readonly #log: Log
  #file: LogFile
  #identity: string
  #reader = new Reader()

  private constructor(path: string, disk: Disk, log: Log, file: LogFile, identity: string) {
    this.#path = path
    this.#disk = disk
    this.#log = log
    this.#file = file
    this.#identity = identity
  }

  static async open(path: string, disk: Disk, log: Log): Promise<TaskLog> {
    const file = await openFile(path, disk)
    const opened = new TaskLog(path, disk, log, file, await file.identity())
    await opened.sync()
    opened.#tell()
    return opened
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
    const entry = await this.#disk.look(this.#path)
    const replaced = entry === 'missing' || entry.identity !== this.#identity
    if (replaced || entry.size < this.#reader.position) {
      this.#log.warn({ path: this.#path }, 'the log is another file than before and is read anew')
      await this.#reopen()
    }
    await explainDisk(this.#path, () => this.#reader.read(this.#file))
  }

  /** Appends whole lines and reads them back; the fold then knows whether they counted. The caller holds the lock. */
  async append(lines: Buffer): Promise<void> {
    try {
      await explainDisk(this.#path, () => this.#write(lines))
      await this.#file.flush()
    } catch (error) {
      if (error instanceof Retryable) throw error
      this.#log.error({ err: error, path: this.#path }, 'an append failed: the log is opened again')
      await this.#again(lines, error)
    }
    await explainDisk(this.#path, () => this.#reader.read(this.#file))
  }

  /** What the disk has forgotten after a failed fsync nobody knows: only new pages are certain to be written. */
  async #again(lines: Buffer, first: unknown): Promise<void> {
    try {
      await this.#reopen()
      await this.#reader.read(this.#file)
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
    this.#reader = new Reader()
    await before.close()
  }

  /** The line that begins at `place`. */
  async lineAt(place: number): Promise<string> {
    for (let size = lookBytes; ; size *= 4) {
      const buffer = Buffer.alloc(size)
      const got = await this.#file.read(buffer, place)
      const end = buffer.subarray(0, got).indexOf(newline)
      if (end >= 0 || got < size) return buffer.toString('utf8', 0, end >= 0 ? end : got)
    }
  }

  #tell(): void {
    const { counts, torn } = this.report
    if (Object.keys(counts).length > 0)
      this.#log.warn({ path: this.#path, counts }, 'some lines of the log do not count')
    if (torn) this.#log.warn({ path: this.#path, position: this.position }, 'the log ends in a torn line')
  }

  close(): Promise<void> {
    return this.#file.close()
  }
}

async function openFile(path: string, disk: Disk): Promise<LogFile> {
  const file = await explainDisk(path, () => disk.openLog(path, 'append'))
  if (file !== 'missing') return file
  throw new Retryable(`the folder of ${path} is gone`, { code: 'no_such_root', afterMs: 1_000 })
}

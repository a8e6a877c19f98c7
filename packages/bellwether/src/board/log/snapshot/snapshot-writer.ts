/**
 * Decides when an open board writes its snapshot: from time to time while the log grows, and on close. A snapshot that
 * cannot be written is only a warning, because the log has everything.
 */
import { archiveLive, listArchived } from './snapshot-archive.js'
import type { LockPorts } from '../locks/locks.js'
import type { TaskLog } from '../log.js'
import { dropOldIds } from '../resume-point.js'
import type { TaskRoot } from '../root.js'
import { writeSnapshot } from './snapshot.js'

// A large board writes megabytes each time, so it waits for this many events and for this part of all events: writing stays
// a small part of the work, and the next start reads little of the log. A small board is written often for its readers.
const everyEvents = 1_000
const everyPart = 50
const smallTasks = 2_000
const smallEveryMs = 5_000
// Seven copies of the last minute would not help.
const archiveEveryMs = 3_600_000

export class SnapshotWriter {
  readonly #root: TaskRoot
  readonly #ports: LockPorts
  #eventsThen = -1
  #writtenMs = Number.NEGATIVE_INFINITY

  constructor(root: TaskRoot, ports: LockPorts) {
    this.#root = root
    this.#ports = ports
  }

  async afterWrite(log: TaskLog): Promise<void> {
    const { fold } = log
    // After a resume, count from that snapshot: many short processes must write one, too.
    if (this.#eventsThen < 0) this.#eventsThen = Math.min(log.resumedEvents, fold.eventCount - 1)
    const small = fold.tasks().length <= smallTasks
    const due = small && this.#ports.clock.monotonicMs() - this.#writtenMs >= smallEveryMs
    if (due || fold.eventCount - this.#eventsThen >= Math.max(everyEvents, fold.eventCount / everyPart))
      await this.#write(log)
  }

  async onClose(log: TaskLog): Promise<void> {
    const { fold } = log
    const small = fold.tasks().length <= smallTasks
    if (small && this.#eventsThen >= 0 && fold.eventCount > this.#eventsThen) await this.#write(log)
  }

  async #write(log: TaskLog): Promise<void> {
    const { disk, clock, ids } = this.#ports
    this.#eventsThen = log.fold.eventCount
    this.#writtenMs = clock.monotonicMs()
    try {
      const newest = (await listArchived(this.#root, disk))[0]
      const entry = newest === undefined ? 'missing' : await disk.stat(`${this.#root.state}/${newest.name}`)
      const keep = entry === 'missing' || Math.abs(clock.wallMs() - entry.changedAtMs) >= archiveEveryMs
      if (keep) await archiveLive(this.#root, disk, clock.wallMs())
      const resumeData = await log.resumeData(ids.next())
      await writeSnapshot(this.#root.snapshot, log, { disk, draftId: ids.next(), resumeData })
      await dropOldIds(this.#root.state, resumeData?.ids.file, disk)
    } catch (error) {
      this.#ports.log.warn({ err: error }, 'cannot write the snapshot; the log is complete')
    }
  }
}

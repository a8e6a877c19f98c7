/**
 * Runs the commands of heartbeat responses. Each command runs at once and concurrently, in any state of the pipe, and sends its
 * rows directly instead of through the bus. Its failure affects nothing else. Unknown commands are logged and skipped.
 */
import { defined, linkAbort } from '@bellwether/base'
import type { PipeCommand } from '@bellwether/protocol'
import { pipeCommand } from '@bellwether/protocol/pipe'
import { isValidPath, parentOf } from '../disk/disk.js'
import { endBody, rowsBody, type PipeContext, type Session } from './context.js'
import { ingest } from './ingest.js'
import type { Realtime } from './realtime.js'
import { shortMessage } from './recovery.js'

export interface CommandActions {
  readonly realtime: Realtime
  readonly requestSnapshot: () => void
  readonly requestAudit: () => void
}

// A barrier is not confirmed after this time; the reader's own limit is shorter.
const barrierMs = 60_000
// For directories that other hosts created: longer than the usual directory cache of NFS (30 to 60 s).
const watchTries = 4
const watchPauseMs = 20_000
// Concurrent scans, each with its own threads: more would only compete for the disk.
const scansMax = 4
// Queued scans: as many as a server may have open. Further scans are rejected.
const waitingMax = 256

export interface Commands {
  run(session: Session, raw: unknown, signal: AbortSignal): Promise<void>
  readonly active: number
}

export function openCommands(context: PipeContext, actions: CommandActions): Commands {
  const { clock, log, scanner, watcher } = context
  let scans = 0
  const waiting: (() => void)[] = []

  /** Runs a task when fewer than `scansMax` others run, in the order of arrival. */
  async function withScanSlot(task: () => Promise<void>): Promise<void> {
    if (scans < scansMax) scans += 1
    else if (waiting.length >= waitingMax) throw new Error(`${waitingMax} scans are already waiting`)
    else await new Promise<void>((resolve) => waiting.push(resolve))
    try {
      await task()
    } finally {
      // The next task takes over this slot.
      const next = waiting.shift()
      if (next === undefined) scans -= 1
      else next()
    }
  }

  /** Reports the path and what is below. For a missing path, the listing of its nearest directory shows that it is missing. */
  async function walk(session: Session, command: PipeCommand & { type: 'scan' }, signal: AbortSignal): Promise<void> {
    const metadata = { job_id: command.job_id }
    const send = (rows: Buffer) =>
      ingest(context, session, rowsBody('on_demand_job', rows, clock.wallMs(), metadata), signal)
    const [found] = await scanner.statPaths([command.path], signal)
    if (found?.row !== undefined && found.isDirectory !== true) return void (await send(Buffer.from(found.row)))
    const isThere = found?.row !== undefined
    await scanner.scan({
      mode: 'job',
      from: [isThere ? command.path : await nearestDirectory(command.path, signal)],
      recursive: isThere && command.recursive,
      signal,
      onRows: async (rows) => void (await send(rows)),
    })
  }

  /** The nearest existing directory above a missing path. */
  async function nearestDirectory(path: string, signal: AbortSignal): Promise<string> {
    const ups: string[] = []
    for (let up = parentOf(path); up !== '/'; up = parentOf(up)) ups.push(up)
    const stats = await scanner.statPaths(ups, signal)
    return stats.find(({ isDirectory }) => isDirectory === true)?.path ?? '/'
  }

  async function scan(session: Session, command: PipeCommand & { type: 'scan' }, signal: AbortSignal): Promise<void> {
    let error: string | undefined
    const isExcluded = isValidPath(command.path) && context.isExcluded(command.path)
    try {
      if (isExcluded) throw new Error(`the sensor excludes ${JSON.stringify(command.path.slice(0, 200))}`)
      if (!isValidPath(command.path)) throw new Error(`invalid path ${JSON.stringify(command.path.slice(0, 200))}`)
      await withScanSlot(() => walk(session, command, signal))
    } catch (problem) {
      error = shortMessage(problem)
      throw problem
    } finally {
      const metadata = {
        job_id: command.job_id,
        complete: error === undefined,
        ...defined({ error, excluded: isExcluded || undefined }),
      }
      await ingest(context, session, endBody('job_complete', metadata), signal)
    }
  }

  /** A network filesystem may show a directory of another host only after its cache has expired. */
  async function watch({ directories }: PipeCommand & { type: 'watch' }, signal: AbortSignal): Promise<void> {
    let left = directories.filter(({ path }) => isValidPath(path))
    for (let tries = 0; left.length > 0 && tries < watchTries && !signal.aborted; tries += 1) {
      if (tries > 0) await clock.sleep(watchPauseMs, signal)
      const stats = await scanner.statPaths(
        left.map(({ path }) => path),
        signal,
      )
      const found = left.filter((_, at) => stats[at]?.isDirectory === true)
      watcher.follow(found.map(({ path, modified_time: mtime }) => ({ path, mtime })))
      left = left.filter((_, at) => stats[at]?.miss === 'gone')
    }
  }

  async function barrier(id: string, signal: AbortSignal): Promise<void> {
    const limit = linkAbort(signal)
    const timer = clock.sleep(barrierMs, limit.signal).then(() => limit.abort())
    try {
      await watcher.watching(limit.signal)
      await watcher.sync(limit.signal)
      actions.realtime.barrier(id)
    } finally {
      limit.abort()
      await timer
    }
  }

  return {
    get active() {
      return scans + waiting.length
    },
    async run(session, raw, signal) {
      const read = pipeCommand.safeParse(raw)
      if (!read.success) {
        log.warn({ pipe: context.name, command: JSON.stringify(raw)?.slice(0, 200) }, 'unknown command skipped')
        return
      }
      const command = read.data
      try {
        if (command.type === 'scan') await scan(session, command, signal)
        else if (command.type === 'barrier') await barrier(command.barrier_id, signal)
        else if (command.type === 'watch') await watch(command, signal)
        else if (command.type === 'snapshot') actions.requestSnapshot()
        else actions.requestAudit()
      } catch (error) {
        log.warn({ pipe: context.name, command: command.type, error: shortMessage(error) }, 'command failed')
      }
    },
  }
}

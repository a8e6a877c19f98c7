/**
 * Commands from the heartbeat's answer. Always: each runs at once, beside everything else, in whatever state the pipe is,
 * and answers directly, past the bus; its failure is its own. A type that nobody knows is skipped.
 */
import { pipeCommand, type PipeCommand } from '@bellwether/protocol'
import { isPlain, parentOf } from '../disk/disk.js'
import { endBody, rowsBody, type PipeContext, type Session } from './context.js'
import { ingest } from './ingest.js'
import type { Realtime } from './realtime.js'
import { textOf } from './recovery.js'

export interface CommandDoors {
  readonly realtime: Realtime
  readonly wantSnapshot: () => void
  readonly wantAudit: () => void
}

// A barrier that the source cannot pass within this time is not confirmed; the reader's own limit is shorter.
const barrierMs = 60_000
// Scans at the same time, each with threads of its own: more would only take the disk from each other.
const scansMax = 4
// Scans that wait for their turn: as many as a server has open. One more gets the answer that it was refused.
const waitingMax = 256

export interface Commands {
  run(session: Session, raw: unknown, signal: AbortSignal): Promise<void>
  readonly active: number
}

export function openCommands(context: PipeContext, doors: CommandDoors): Commands {
  const { clock, log, scanner, source } = context
  let scans = 0
  const waiting: (() => void)[] = []

  /** Runs it when fewer than `scansMax` others are under way, in the order of asking. */
  async function inTurn(task: () => Promise<void>): Promise<void> {
    if (scans < scansMax) scans += 1
    else if (waiting.length >= waitingMax) throw new Error(`${waitingMax} scans are waiting`)
    else await new Promise<void>((resolve) => waiting.push(resolve))
    try {
      await task()
    } finally {
      // The next one takes over this one's place.
      const next = waiting.shift()
      if (next === undefined) scans -= 1
      else next()
    }
  }

  /** Looks at the path itself, then walks what is below. One that is gone is shown to be gone by what is around it. */
  async function walk(session: Session, command: PipeCommand & { type: 'scan' }, signal: AbortSignal): Promise<void> {
    const metadata = { job_id: command.job_id }
    const send = (rows: Buffer) =>
      ingest(context, session, rowsBody('on_demand_job', rows, clock.wallMs(), metadata), signal)
    const [found] = await scanner.look([command.path], signal)
    if (found?.row !== undefined && found.isDirectory !== true) return void (await send(Buffer.from(found.row)))
    const isThere = found?.row !== undefined
    await scanner.scan({
      mode: 'job',
      from: [isThere ? command.path : await nearest(command.path, signal)],
      recursive: isThere && command.recursive,
      signal,
      onRows: async (rows) => void (await send(rows)),
    })
  }

  /** The directory whose listing shows that the path is not there. */
  async function nearest(path: string, signal: AbortSignal): Promise<string> {
    const ups: string[] = []
    for (let up = parentOf(path); up !== '/'; up = parentOf(up)) ups.push(up)
    const looks = await scanner.look(ups, signal)
    return looks.find((look) => look.isDirectory === true)?.path ?? '/'
  }

  async function scan(session: Session, command: PipeCommand & { type: 'scan' }, signal: AbortSignal): Promise<void> {
    let error: string | undefined
    try {
      if (!isPlain(command.path)) throw new Error('no such path can be under the root')
      await inTurn(() => walk(session, command, signal))
    } catch (problem) {
      error = textOf(problem)
      throw problem
    } finally {
      const said = { job_id: command.job_id, complete: error === undefined, ...(error === undefined ? {} : { error }) }
      await ingest(context, session, endBody('job_complete', said), signal)
    }
  }

  async function barrier(id: string, signal: AbortSignal): Promise<void> {
    const limit = new AbortController()
    const stop = () => limit.abort()
    signal.addEventListener('abort', stop, { once: true })
    const timer = clock.sleep(barrierMs, limit.signal).then(stop)
    try {
      await source.watching(limit.signal)
      await source.sync(limit.signal)
      doors.realtime.barrier(id)
    } finally {
      signal.removeEventListener('abort', stop)
      stop()
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
        log.warn({ pipe: context.name, command: JSON.stringify(raw)?.slice(0, 200) }, 'a command was not understood')
        return
      }
      const command = read.data
      try {
        if (command.type === 'scan') await scan(session, command, signal)
        else if (command.type === 'barrier') await barrier(command.barrier_id, signal)
        else if (command.type === 'snapshot') doors.wantSnapshot()
        else doors.wantAudit()
      } catch (error) {
        log.warn({ pipe: context.name, command: command.type, error: textOf(error) }, 'a command failed')
      }
    },
  }
}

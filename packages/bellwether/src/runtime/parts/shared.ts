/**
 * What the parts of one process share: the tail of the outbox, and the board of a task root with its dispatcher. `up` opens each
 * once for its server and its autopilot, so that a change by one part is known to the other. Maintenance of the board runs wherever
 * the board is open.
 */
import { hostname } from 'node:os'
import { resolve } from 'node:path'
import { linkAbort, systemClock } from '@bellwether/base'
import { subjects } from '@bellwether/protocol'
import type { Dispatcher } from '../../board/dispatch/dispatcher.js'
import { runMaintenance } from '../../board/repair/maintenance.js'
import { openTail, type Tail } from '../../http/tail.js'
import type { PartContext } from '../process.js'
import { openKernelDispatcher, openMaintenance, openTaskRoot, type OpenRoot } from './board.js'

export interface BoardPart extends OpenRoot {
  readonly projectId: string
  /** The dispatcher with this actor in its log lines. All of them share the runs that this process works on. */
  as(actor: string): Dispatcher
}

export interface Shared {
  readonly tail: Tail
  /** Absent: the process has no task root. */
  readonly board: BoardPart | undefined
}

export interface SharedOptions {
  readonly folder: string
  /** The task root; absent: no board is opened. */
  readonly root: string | undefined
  /** The project whose agents do the tasks. */
  readonly projectId: string
  /** What the process is, for the owner that locks name. */
  readonly role: string
}

/** Opens the tail and the board, runs `work`, and closes both. */
export async function withShared(
  context: PartContext,
  options: SharedOptions,
  work: (shared: Shared) => Promise<number>,
): Promise<number> {
  const { runtime, log } = context
  const stopping = linkAbort(context.signal)
  const { signal } = stopping
  const tail = openTail({ db: runtime.kernel.db, clock: systemClock, log })
  const listening = await runtime.bell.listen(subjects.anyEvent, () => tail.wake())
  try {
    const board = await openBoardPart(context, options, tail)
    const maintenance = board && runMaintenance(openMaintenance(board), { clock: systemClock, log }, signal)
    const background = Promise.all([tail.run(signal), maintenance])
    try {
      return await work({ tail, board })
    } finally {
      stopping.abort()
      await background
      await board?.alerts.settled()
      await board?.board.close()
    }
  } finally {
    stopping.release()
    await listening.stop()
  }
}

async function openBoardPart(
  context: PartContext,
  { folder, root, projectId, role }: SharedOptions,
  tail: Tail,
): Promise<BoardPart | undefined> {
  if (root === undefined) return undefined
  const { settings, log, signal } = context
  const owner = `${role}:${hostname()}-${process.pid}`
  const opened = await openTaskRoot({ root: resolve(folder, root), owner, settings: settings.board, log, signal })
  const dispatcher = openKernelDispatcher(opened, context, { projectId, tail })
  return { ...opened, projectId, as: (actor) => ({ ...dispatcher, actor }) }
}

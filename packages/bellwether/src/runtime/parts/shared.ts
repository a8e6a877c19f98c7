/**
 * What the parts of one process share: the tail of the outbox, the workspace views, and the board of a task root with its
 * dispatcher. `up` opens each of them once, so that its server, sensor and autopilot see each other's changes at once.
 * Maintenance of the board runs wherever the board is open.
 */
import { hostname } from 'node:os'
import { resolve } from 'node:path'
import { defined, linkAbort, systemClock } from '@bellwether/base'
import { subjects } from '@bellwether/protocol'
import type { Dispatcher } from '../../board/dispatch/dispatcher.js'
import { runMaintenance } from '../../board/repair/maintenance.js'
import { openTail, type Tail } from '../../http/tail.js'
import type { PartContext } from '../process.js'
import type { Fusion } from '../../view/fusion.js'
import { openKernelDispatcher, openMaintenance } from './board/board.js'
import { openTaskRoot, type OpenRoot } from './board/task-root.js'
import { openEvidence, type OwnView } from './board/evidence.js'
import { storeAlerts } from './store-alerts.js'
import { openViews } from './views.js'

export interface BoardPart extends OpenRoot {
  readonly projectId: string
  /** The dispatcher with this actor in its log lines. All of these dispatchers share the runs that this process works on. */
  as(actor: string): Dispatcher
}

export interface Shared {
  readonly tail: Tail
  /** Absent: the process serves no views. */
  readonly fusion: Fusion | undefined
  /** Absent: the process has no task root. */
  readonly board: BoardPart | undefined
}

export interface SharedOptions {
  readonly folder: string
  /** The task root; absent: no board is opened. */
  readonly root: string | undefined
  /** The project whose agents do the tasks. */
  readonly projectId: string
  /** The role of the process, for the owner in lock files. */
  readonly role: string
  /** Names of the views to serve. */
  readonly views?: readonly string[]
  /** The view of this process that shows the task root, unless [board] names one. */
  readonly evidenceView?: Omit<OwnView, 'fusion'> | undefined
  /** The folder whose config/ has the policies. Default: the task root. */
  readonly policyRoot?: string | undefined
  /** The folder of run-time files. Default: that of the task root. */
  readonly dataDir?: string | undefined
}

/** Opens the shared parts, runs `work`, and closes them. */
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
    const { views = [] } = options
    const { ids } = runtime.kernel
    const fusion =
      views.length === 0 ? undefined : openViews({ names: views, settings: context.settings.view, ids, log })
    const board = await openBoardPart(context, options, tail, fusion)
    const maintenance =
      board && runMaintenance(openMaintenance(board, board.as('maintenance')), { clock: systemClock, log }, signal)
    const background = Promise.all([tail.run(signal), fusion?.run(signal), maintenance])
    try {
      return await work({ tail, fusion, board })
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
  { folder, root, projectId, role, evidenceView, policyRoot, dataDir }: SharedOptions,
  tail: Tail,
  fusion: Fusion | undefined,
): Promise<BoardPart | undefined> {
  if (root === undefined) return undefined
  const { settings, log, signal } = context
  const owner = `${role}:${hostname()}-${process.pid}`
  const opened = await openTaskRoot({
    root: resolve(folder, root),
    owner,
    settings: settings.board,
    log,
    signal,
    policyRoot,
    ...defined({ storeAlert: storeAlerts(context.runtime.kernel, settings.notify, projectId) }),
  })
  const { board, ids } = opened
  const own = fusion && { fusion, ...evidenceView }
  const evidence = openEvidence({ settings: settings.board, root: board.root, ids, own })
  const dispatcher = openKernelDispatcher(opened, context, { projectId, tail, evidence, dataDir })
  return { ...opened, projectId, as: (actor) => ({ ...dispatcher, actor }) }
}

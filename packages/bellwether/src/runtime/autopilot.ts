/** `bellwether task autopilot`: opens a task root and runs its autopilot and its maintenance. Any number may run on one root. */
import { hostname } from 'node:os'
import { resolve } from 'node:path'
import { systemClock } from '@bellwether/base'
import { token } from '@bellwether/protocol'
import { startAutopilot } from '../board/dispatch/autopilot.js'
import { runMaintenance } from '../board/repair/maintenance.js'
import { openMaintenance, openKernelDispatcher, openTaskRoot } from './parts/board.js'
import { type PartContext, type ProcessOptions, runProcess } from './process.js'

export interface AutopilotOptions extends ProcessOptions {
  /** The task root. Default: [board] root, else the folder. */
  readonly root?: string
  /** The project whose agents do the tasks. */
  readonly projectId: string
}

export function runAutopilotProcess(options: AutopilotOptions): Promise<number> {
  const projectId = token(options.projectId, 'project')
  return runProcess(options, 'autopilot', (context) => runAutopilotPart(context, { ...options, projectId }))
}

/** The autopilot on an open runtime; resolves after the signal aborts. */
export async function runAutopilotPart(context: PartContext, options: AutopilotOptions): Promise<number> {
  const { settings, log, signal } = context
  const { projectId } = options
  const opened = await openTaskRoot({
    root: resolve(options.folder, options.root ?? settings.board.root ?? '.'),
    owner: `autopilot:${hostname()}-${process.pid}`,
    settings: settings.board,
    log,
    signal,
  })
  try {
    const dispatcher = openKernelDispatcher(opened, context, { projectId, actor: 'autopilot' })
    const autopilot = startAutopilot(dispatcher, opened.caches, signal)
    const maintenance = runMaintenance(openMaintenance(opened), { clock: systemClock, log }, signal)
    const { root } = opened.board
    options.onReady?.({ ready: true, role: 'autopilot', root, pid: process.pid })
    log.info({ root, project: projectId }, 'autopilot is ready')
    await Promise.all([autopilot.ended, maintenance])
    return 0
  } finally {
    await opened.alerts.settled()
    await opened.board.close()
  }
}

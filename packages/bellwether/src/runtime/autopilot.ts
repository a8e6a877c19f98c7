/**
 * `bellwether task autopilot`: runs the autopilot of a task root, which also adds the tasks of schedules. Any number may run
 * on one root.
 */
import { systemClock } from '@bellwether/base'
import { token } from '@bellwether/protocol'
import { startAutopilot } from '../board/dispatch/autopilot.js'
import { runScheduledTasks } from './parts/board/scheduled-tasks.js'
import { type BoardPart, withShared } from './parts/shared.js'
import { boardCounters, startProcessTelemetry } from './parts/telemetry.js'
import { type PartContext, type ProcessOptions, runProcess } from './process.js'

export interface AutopilotOptions extends ProcessOptions {
  /** The task root. Default: [board] root, else the folder. */
  readonly root?: string
  /** The project whose agents do the tasks. */
  readonly projectId: string
}

export function runAutopilotProcess(options: AutopilotOptions): Promise<number> {
  const projectId = token(options.projectId, 'project')
  const { folder } = options
  return runProcess(options, 'autopilot', async (context) => {
    const root = options.root ?? context.settings.board.root ?? '.'
    const shared = { folder, root, projectId, role: 'autopilot' }
    return withShared(context, shared, async ({ board }) => {
      const telemetry = await startProcessTelemetry({ ...context, traces: false, ...boardCounters(board) })
      try {
        return await runAutopilotPart(context, board!, options.onReady)
      } finally {
        await telemetry.close()
      }
    })
  })
}

/** The autopilot of an open board; resolves after the signal aborts. */
export async function runAutopilotPart(
  { runtime, log, signal }: PartContext,
  part: BoardPart,
  onReady?: ProcessOptions['onReady'],
): Promise<number> {
  const autopilot = startAutopilot(part.as('autopilot'), part.caches, signal)
  const scheduled = runScheduledTasks({
    ...{ db: runtime.kernel.db, projectId: part.projectId, dispatcher: part.as('schedule') },
    ...{ clock: systemClock, log, signal },
  })
  const { root } = part.board
  onReady?.({ ready: true, role: 'autopilot', root, pid: process.pid })
  log.info({ root, project: part.projectId }, 'autopilot is ready')
  await Promise.all([autopilot.ended, scheduled])
  return 0
}

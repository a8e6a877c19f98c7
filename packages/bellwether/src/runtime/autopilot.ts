/** The board's autopilot and its chores on an open house: opens the task root, runs until it is told to stop, closes it. */
import { hostname } from 'node:os'
import { resolve } from 'node:path'
import { type Log, systemClock } from '@bellwether/base'
import { startAutopilot } from '../board/dispatch/autopilot.js'
import { runMaintenance } from '../board/repair/maintenance.js'
import type { Settings } from '../settings/schema.js'
import { openMaintenance, openDispatcher, openTaskRoot } from './board.js'
import type { House } from './runtime.js'
import { evidenceOf } from './remote-evidence.js'
import { kernelSpawner } from './spawner.js'

export interface AutopilotPartOptions {
  readonly house: House
  readonly settings: Settings
  readonly log: Log
  readonly signal: AbortSignal
  readonly folder: string
  /** The task root; absent: [board] root, else the folder. */
  readonly root?: string
  readonly projectId: string
  readonly onReady?: (facts: Readonly<Record<string, unknown>>) => void
}

const dayMs = 86_400_000

export async function runAutopilotPart(options: AutopilotPartOptions): Promise<number> {
  const { house, settings, log, signal, projectId } = options
  const root = resolve(options.folder, options.root ?? settings.board.root ?? '.')
  const owner = `autopilot:${hostname()}-${process.pid}`
  const opened = await openTaskRoot({ root, owner, settings: settings.board, log, signal })
  try {
    const dispatcher = openDispatcher(opened, {
      spawner: kernelSpawner({
        kernel: house.kernel,
        projectId,
        clock: systemClock,
        log,
        keepsMs: settings.pmo.retention_days * dayMs,
      }),
      evidence: evidenceOf(settings.board, opened.board.root, opened.ids),
      actor: 'autopilot',
    })
    const autopilot = startAutopilot(dispatcher, opened.caches, signal)
    const chores = runMaintenance(openMaintenance(opened), { clock: systemClock, log }, signal)
    options.onReady?.({ ready: true, role: 'autopilot', root: opened.board.root, pid: process.pid })
    log.info({ root: opened.board.root, project: projectId }, 'the autopilot is ready')
    await Promise.all([autopilot.ended, chores])
    return 0
  } finally {
    await opened.alerts.settled()
    await opened.board.close()
  }
}

/**
 * Keeps the control files of a running `up` in force: the gate, the roster of its agents, its schedules, and the HTTP tools of `tools.json`. Workers
 * read the accepted files and do not write the roster.
 */
import { existsSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import { defined, type Log, onAbort, systemClock } from '@bellwether/base'
import { readTurnsDuring } from '../../kernel/reads/turns-during.js'
import { watchFolder } from '../../ports/disk/watch-folder.js'
import { loop, makeWake } from '../../ports/loop.js'
import type { Settings } from '../../settings/schema.js'
import { functionRefusal } from '../../worker/roster/agent-file.js'
import { openAgentFolder } from '../../worker/roster/folder.js'
import { openRoster } from '../../worker/roster/roster.js'
import { agentsFolder, configFolder, controlFolder, mcpFile, schedulesFolder } from '../paths.js'
import { declareTool, ownTools } from '../parts/tools.js'
import { originOf } from '../parts/worker/file-agents.js'
import type { Runtime } from '../runtime.js'
import { pathOf, type ControlFiles } from './files.js'
import { openGate, type Gate } from './gate.js'
import { openScheduleFiles } from './schedules.js'

export interface ControlOptions {
  readonly runtime: Runtime
  readonly settings: Settings
  readonly folder: string
  readonly root: string
  readonly dataDir: string
  readonly projectId: string
  readonly agentsFile?: string | undefined
  readonly files: ControlFiles
  /** The folder of the record of trust. */
  readonly home: string
  readonly log: Log
}

export interface Control extends Pick<Gate, 'folder' | 'held'> {
  /** Follows changes until the signal aborts. `onChange` is called after each step. */
  run(signal: AbortSignal, onChange: () => Promise<void>): Promise<void>
  /** Decides about changes that the last turns made. */
  step(): Promise<void>
}

// For network filesystems, which do not report changes.
const pollMs = 5_000
// Clocks of the filesystem and the database may differ a little, and a turn ends shortly after its last process.
const marginMs = 1_000

export async function openControl(options: ControlOptions): Promise<Control> {
  const { runtime, settings, folder, root, dataDir, projectId, log } = options
  const { kernel } = runtime
  const project = { folder, root, agentsFile: options.agentsFile }
  const accepted = join(dataDir, controlFolder)
  const refuse = options.agentsFile === undefined ? functionRefusal : undefined
  const agents = openAgentFolder({ folder: join(accepted, agentsFolder), log, ...defined({ refuse }) })
  // The agents of the last start show which of the open turns can write files.
  if (existsSync(join(accepted, agentsFolder))) await agents.scan()

  /** Whether the agent's turns can change files in the project. */
  function writesFiles(agentId: string): boolean {
    const executor = agents.agents.get(agentId)?.settings.executor
    if (executor === 'model') return options.files.has(mcpFile)
    return executor !== 'person'
  }

  async function turnsAt(ms: number): Promise<readonly string[]> {
    const [from, to] = [new Date(ms - marginMs), new Date(ms + marginMs)]
    const turns = await readTurnsDuring(kernel.db, projectId, from, to)
    return turns.filter((turn) => writesFiles(turn.agent_id)).map((turn) => turn.agent_turn_id)
  }

  const gate = await openGate({ project, dataDir, home: options.home, files: options.files, turnsAt, log })
  const origin = originOf(realpathSync(folder))
  const roster = openRoster({ kernel, projectId, folder: agents, origin, log, executor: () => undefined })
  await roster.step()
  // After the roster: a schedule names an agent.
  const schedules = openScheduleFiles({ kernel, projectId, folder: gate.folder, origin, log })
  await schedules.step()
  const silentSeconds = settings.worker.inbox_processing_timeout_seconds
  for (const tool of ownTools({ control: gate.folder, functions: [], log }))
    await declareTool(kernel, projectId, tool, silentSeconds)

  async function step(): Promise<void> {
    await gate.step()
    await roster.step()
    await schedules.step()
  }

  return {
    folder: gate.folder,
    held: gate.held,
    step,
    async run(signal, onChange) {
      const wake = makeWake(systemClock)
      const watches = [agentsFolder, configFolder, schedulesFolder].map((name) => {
        const path = pathOf(project, `${name}/`)
        // The folder may not exist yet; the loop polls.
        return watchFolder(
          path,
          () => wake.now(),
          (error) => log.info({ err: error, folder: path }, 'cannot watch a folder; polling it instead'),
        )
      })
      onAbort(signal, () => watches.forEach((watch) => watch.close()))
      const timing = { clock: systemClock, log, signal }
      await loop(
        { ...timing, name: 'control files', intervalMs: pollMs, steady: true },
        async () => {
          await step()
          await onChange()
        },
        wake,
      )
    },
  }
}

/**
 * Keeps the control files of a running `up` in force: the gate, the roster of its agents, its schedules, and the HTTP tools of `tools.json`. Workers
 * read the accepted files and do not write the roster.
 */
import { existsSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import { defined, hasCode, type Log, makeWake, onAbort, systemClock } from '@bellwether/base'
import { readTurnsDuring } from '../../kernel/reads/turns/turns-during.js'
import { watchFolder } from '../../ports/disk/watch-folder.js'
import { loop } from '../../ports/loop.js'
import type { Settings } from '../../settings/schema.js'
import { functionRefusal } from '../../worker/roster/agent-file.js'
import { openAgentFolder } from '../../worker/roster/folder.js'
import { openRoster } from '../../worker/roster/roster.js'
import {
  agentsFolder,
  agentsOrigin,
  configFolder,
  controlFolder,
  declaredToolFiles,
  evalsFolder,
  schedulesFolder,
} from '../paths.js'
import type { Runtime } from '../runtime.js'
import { canWriteFiles, pathOf, type ControlFiles } from './files.js'
import { openGate, type Gate } from './gate.js'
import { openEvalFiles, openEvalPart, readVariants } from './evals.js'
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
  /** What is on the disk, with the files that are held back. */
  readonly found: ControlFiles
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
// A turn of an evaluation takes seconds; a run that a person starts begins within a second.
const evalMs = 250
const evalQuietMs = 1_000
// Without a suite: only the runs of a suite that was deleted are left.
const noSuitesMs = 10_000
// Clocks of the filesystem and the database may differ a little, and a turn ends shortly after its last process.
const marginMs = 1_000

export async function openControl(options: ControlOptions): Promise<Control> {
  const { runtime, settings, folder, root, dataDir, projectId, log } = options
  const { kernel } = runtime
  const project = { folder, root, agentsFile: options.agentsFile }
  const accepted = join(dataDir, controlFolder)
  const refuse = options.agentsFile === undefined ? functionRefusal : undefined
  const agents = openAgentFolder({
    folder: join(accepted, agentsFolder),
    log,
    derived: () => readVariants(accepted),
    ...defined({ refuse }),
  })
  // The agents of the last start show which of the open turns can write files.
  if (existsSync(join(accepted, agentsFolder))) await agents.scan()

  const writesFiles = (agentId: string) =>
    canWriteFiles(agents.agents.get(agentId)?.settings.executor, accepted, options.agentsFile)

  async function turnsAt(ms: number): Promise<readonly string[]> {
    const [from, to] = [new Date(ms - marginMs), new Date(ms + marginMs)]
    const turns = await readTurnsDuring(kernel.db, projectId, from, to)
    return turns.filter((turn) => writesFiles(turn.agent_id)).map((turn) => turn.agent_turn_id)
  }

  const gate = await openGate({
    project,
    dataDir,
    home: options.home,
    files: options.files,
    found: options.found,
    turnsAt,
    log,
  })
  const origin = agentsOrigin(realpathSync(folder))
  const roster = openRoster({ kernel, projectId, folder: agents, origin, log, executor: () => undefined })
  await roster.step()
  // After the roster: a schedule names an agent.
  const schedules = openScheduleFiles({ kernel, projectId, folder: gate.folder, origin, log })
  await schedules.step()
  const evalOptions = { runtime, projectId, accepted: gate.folder, folder, origin, log }
  const evals = openEvalFiles(evalOptions)
  await evals.step()
  const evaluations = openEvalPart({ ...evalOptions, files: evals, settings, dataDir })
  const silentSeconds = settings.worker.inbox_processing_timeout_seconds
  // The code that reads and hosts tools is large, and most projects declare none.
  if (declaredToolFiles.some((name) => existsSync(join(gate.folder, name)))) {
    const { declareTool, declaredTools } = await import('../parts/tools.js')
    for (const tool of declaredTools({ control: gate.folder, log }))
      await declareTool(kernel, projectId, tool, silentSeconds)
  }

  async function step(): Promise<void> {
    await gate.step()
    await roster.step()
    await schedules.step()
    await evals.step()
  }

  return {
    folder: gate.folder,
    held: gate.held,
    step,
    async run(signal, onChange) {
      const wake = makeWake(systemClock)
      const watches = [agentsFolder, configFolder, schedulesFolder, evalsFolder].map((name) => {
        const path = pathOf(project, `${name}/`)
        return watchFolder(
          path,
          () => wake.now(),
          (error) => {
            // A folder that does not exist yet is not a problem: the loop polls.
            if (!hasCode(error, 'ENOENT'))
              log.info({ err: error, folder: path }, 'cannot watch a folder; polling it instead')
          },
        )
      })
      onAbort(signal, () => watches.forEach((watch) => watch.close()))
      const timing = { clock: systemClock, log, signal }
      const firstSuite = makeWake(systemClock)
      const driving = {
        ...timing,
        name: 'evaluations',
        intervalMs: evalMs,
        get quietMaxMs() {
          return evals.hasSuites() ? evalQuietMs : noSuitesMs
        },
      }
      const driven = loop(driving, () => evaluations.step(signal), firstSuite)
      await loop(
        { ...timing, name: 'control files', intervalMs: pollMs, steady: true },
        async () => {
          const hadSuites = evals.hasSuites()
          await step()
          if (!hadSuites && evals.hasSuites()) firstSuite.now()
          await onChange()
        },
        wake,
      )
      await driven
    },
  }
}

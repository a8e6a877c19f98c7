/**
 * What the demo and chaos both need: the folder with its project, the fake model provider and tools, and the running server.
 * `close` releases everything in reverse order, also when opening fails half way.
 */
import { execFile } from 'node:child_process'
import { appendFileSync, existsSync } from 'node:fs'
import { truncate } from 'node:fs/promises'
import { resolve } from 'node:path'
import { promisify } from 'node:util'
import { errorMessage, systemClock, systemRandom, type Log } from '@bellwether/base'
import { Terminal } from '@bellwether/protocol'
import { openFakeServer } from './fakes/server.js'
import { openFakeTools, type FakeToolsOptions } from './fakes/tools.js'
import { folderInTmp, openFolder, writeProject, type DemoFolder } from './folder.js'
import { openServer, type Server } from './server.js'

export interface SetupOptions extends Pick<FakeToolsOptions, 'behaviour' | 'reportAgain'> {
  readonly dataDir: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** Node's arguments that run the command line: flags and script. */
  readonly program: readonly string[]
  /** The project's files, by path. */
  readonly files: Readonly<Record<string, string>>
  /** Ends the retries of a start. */
  readonly signal: AbortSignal
  /** Whether `close` may abandon running turns instead of draining them. */
  stopAtOnce(): boolean
  say(sentence: string): void
}

export interface Setup {
  readonly folder: DemoFolder
  readonly server: Server
  readonly log: Log
  /** The environment of the server, also for processes that run beside it. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** Adds a step to the start of `close`. */
  onClose(step: () => Promise<unknown>): void
  /** A second call does nothing. */
  close(): Promise<void>
}

/** As root, PostgreSQL runs under another account; if that account cannot reach the folder, the demo moves to /tmp. */
export async function openSetup(options: SetupOptions): Promise<Setup> {
  const wanted = resolve(options.dataDir)
  try {
    return await openIn(wanted, options)
  } catch (error) {
    if (!(error instanceof Terminal) || error.code !== 'folder_unreachable') throw error
    const folder = await folderInTmp(wanted)
    options.say(`${error.message}; using ${folder} instead`)
    return openIn(folder, options)
  }
}

async function openIn(path: string, options: SetupOptions): Promise<Setup> {
  const folder = await openFolder(path)
  const log = fileLog(folder.logFile)
  const steps: (() => Promise<unknown>)[] = [() => folder.unlock()]
  const onClose = (step: () => Promise<unknown>) => void steps.push(step)
  const close = async () => {
    for (const step of steps.splice(0).toReversed()) {
      await step().catch((error: unknown) => log.error({ error: errorMessage(error) }, 'part of the demo did not stop'))
    }
  }
  try {
    appendFileSync(folder.logFile, '')
    await truncate(folder.logFile)
    await writeProject(folder.project, options.files)
    await acceptFiles(folder, options)
    const ports = { clock: systemClock, random: systemRandom }
    const tool = openFakeTools({ ...ports, ...options, folder: folder.project })
    const fakes = await openFakeServer({ ...ports, log, tool })
    onClose(() => fakes.close())
    const env = { ...withoutSettings(options.env), ...fakes.env }
    const { program, signal } = options
    const server = openServer({ folder, program, env, clock: systemClock, signal })
    onClose(() => server.stop(options.stopAtOnce()))
    options.say(`starting bellwether up in ${folder.project}`)
    await server.start()
    return { folder, server, log, env, onClose, close }
  } catch (error) {
    await close()
    throw error
  }
}

const acceptMs = 60_000

/** `up` would hold back the files that the demo wrote while turns of a killed demo are open. */
async function acceptFiles({ project, dataDir }: DemoFolder, { program, env }: SetupOptions): Promise<void> {
  if (!existsSync(dataDir)) return
  const args = [...program, 'trust', '--yes', '--data', dataDir]
  await promisify(execFile)(process.execPath, args, { cwd: project, env: withoutSettings(env), timeout: acceptMs })
}

/** The demo has its own settings; those of the user's environment do not apply. */
function withoutSettings(env: SetupOptions['env']): Record<string, string | undefined> {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('BELLWETHER')))
}

/** One JSON object per line, in the log file of the server. */
function fileLog(file: string): Log {
  const write = (level: string) => (fields: object, message: string) =>
    appendFileSync(file, `${JSON.stringify({ level, role: 'demo', msg: message, ...fields })}\n`)
  return { info: write('info'), warn: write('warn'), error: write('error') }
}

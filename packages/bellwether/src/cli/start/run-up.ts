/** What `bellwether up` does: it runs everything on this machine until shutdown. */
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { defined, environment, systemClock } from '@bellwether/base'
import { Terminal } from '@bellwether/protocol'
import { openDataFolder } from '../../runtime/data-folder.js'
import { tuneForWork } from '../../runtime/heap-tuning.js'
import { agentsFolder } from '../../runtime/paths.js'
import { settingsFile } from '../../settings/load.js'
import { isAccepted, requireTrust } from './accept.js'
import { isUnsafe, localUpIn } from '../shared/local-up.js'
import { version } from '../../settings/version.js'
import { asTyped, printLine } from '../shared/output.js'

export interface UpFlags {
  readonly host?: string
  readonly port?: number
  readonly data?: string
  readonly agents?: string
  readonly project: string
  readonly sessionTimeout?: number
  readonly trust?: boolean
  readonly verbose?: boolean
  readonly json?: boolean
  readonly parentPipe?: boolean
}

export async function runUp(flags: UpFlags): Promise<number> {
  const folder = process.cwd()
  await offerInit(folder, flags)
  const project = await requireTrust(folder, flags.trust ?? false, flags)
  const dataDir = openDataFolder(folder, flags.data)
  const screen = await openScreenFor(flags, folder, dataDir)
  const { runUpProcess } = await import('../../runtime/up.js')
  const print = flags.json === true ? printLine : screen === undefined ? printReady : screen.ready
  try {
    return await runUpProcess({
      folder,
      project,
      dataDir,
      projectId: flags.project,
      program: [...process.execArgv, process.argv[1] ?? ''],
      onReady(facts) {
        tuneForWork()
        print(facts)
      },
      host: flags.host,
      port: flags.port,
      sessionTimeoutSeconds: flags.sessionTimeout,
      terminal: screen,
      ...defined({ parentPipe: flags.parentPipe }),
    })
  } catch (error) {
    throw explainLock(error, dataDir)
  } finally {
    await screen?.close()
  }
}

/** The lock of the database names a process only. If that is an `up`, a person needs to know where it is. */
function explainLock(error: unknown, dataDir: string): unknown {
  const found = localUpIn(dataDir)
  if (!(error instanceof Terminal) || error.code !== 'folder_in_use' || found === undefined || isUnsafe(found))
    return error
  return new Terminal(`Bellwether already runs here: process ${found.pid ?? 'unknown'}, ${found.url}`, {
    code: 'folder_in_use',
    cause: error,
    hint: 'To see it: bellwether open. To stop it: Ctrl-C in its terminal, or end its process. A second one needs another folder for its data: --data DIR.',
  })
}

/** A folder without settings and agents has nothing to run: on a terminal, `up` asks whether to create them. */
async function offerInit(folder: string, { json }: UpFlags): Promise<void> {
  if ([settingsFile, agentsFolder].some((name) => existsSync(join(folder, name)))) return
  const text = `${folder} has no bellwether.toml and no agents`
  if (json === true || !process.stdin.isTTY || !process.stderr.isTTY) {
    if (json !== true) process.stderr.write(asTyped(`${text}. To create them: bellwether init\n`))
    return
  }
  process.stderr.write(`${text}.\n`)
  if (!(await isAccepted('Create settings and example agents here (bellwether init)?'))) return
  const { initFolder } = await import('./init-folder.js')
  initFolder(folder, environment())
}

/** Undefined unless a person watches: a redirected stderr gets the log. */
async function openScreenFor({ json, verbose = false }: UpFlags, folder: string, dataDir: string) {
  if (json === true || !process.stdout.isTTY || !process.stderr.isTTY) return undefined
  const [{ openUpScreen }, { openLogFile }] = await Promise.all([
    import('./up-terminal.js'),
    import('../../runtime/parts/log-file.js'),
  ])
  const logFile = openLogFile(dataDir)
  const screen = openUpScreen({ folder, version: version(), logFile, clock: systemClock, verbose })
  if (!verbose) return { ...screen, close: async () => undefined }
  const [{ followLines }, { readableLine }] = await Promise.all([
    import('../shared/log-lines.js'),
    import('../../runtime/log-line.js'),
  ])
  const over = new AbortController()
  const show = (line: string) => void process.stderr.write(`${readableLine(line)}\n`)
  const ports = { clock: systemClock, signal: over.signal }
  const following = followLines(logFile.path, statSync(logFile.path).size, show, ports)
  return {
    ...screen,
    async close() {
      over.abort()
      await following
    },
  }
}

function printReady(facts: Readonly<Record<string, unknown>>): void {
  const { url, adminKey, adminKeyFile, loginUrl, dataDir } = facts as Readonly<Record<string, string | undefined>>
  const lines = [
    `Bellwether is running on ${url}`,
    ...(loginUrl === undefined ? [] : [`Dashboard (the link works once, for a few minutes): ${loginUrl}`]),
    ...(adminKey === undefined ? [] : [`Administrator's key (shown only now; also in ${adminKeyFile}): ${adminKey}`]),
    `Run-time files: ${dataDir}`,
    'Press Ctrl-C to drain and stop everything.',
  ]
  process.stdout.write(`${lines.join('\n')}\n`)
}

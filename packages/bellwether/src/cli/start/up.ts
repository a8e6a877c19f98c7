/** `bellwether up`: runs everything on this machine until shutdown. */
import { accessSync, chmodSync, constants, mkdirSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { defined, errorMessage } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { Command } from 'commander'
import { allowYoungGenerationGrowth, limitYoungGeneration } from '../../runtime/heap-tuning.js'
import { dataFolder } from '../../runtime/paths.js'
import { parentPipe, portMax, wholeUpTo } from '../shared/options.js'
import { printLine } from '../shared/output.js'

interface Flags {
  readonly host?: string
  readonly port?: number
  readonly data: string
  readonly project: string
  readonly sessionTimeout?: number
  readonly json?: boolean
  readonly parentPipe?: boolean
}

export function upCommand(finish: (code: number) => void): Command {
  return new Command('up')
    .description('run everything here: database, PMO, workers, board, workspace view, HTTP and dashboard')
    .option('--host <address>', 'the address to listen on (default: server.host)')
    .option('--port <n>', 'the port; 0 picks a free one (default: server.port)', wholeUpTo(portMax))
    .option('--data <dir>', 'the folder of the database, keys and run-time files', dataFolder)
    .option('--project <name>', 'the project of the agents in folder agents/', 'default')
    .option(
      '--session-timeout <s>',
      'the session timeout that the sensor requests, in seconds (default: sensor.session_timeout_seconds)',
      wholeUpTo(604_800, 1),
    )
    .option('--json', 'print one line on stdout when everything is ready')
    .addOption(parentPipe())
    .action(async (flags: Flags) => {
      // Before the parts are loaded, which allocates most of the heap of a start.
      limitYoungGeneration()
      const { runUpProcess } = await import('../../runtime/up.js')
      const print = flags.json === true ? printLine : printReady
      finish(
        await runUpProcess({
          folder: process.cwd(),
          dataDir: writableFolder(resolve(flags.data)),
          projectId: flags.project,
          program: [...process.execArgv, process.argv[1] ?? ''],
          onReady(facts) {
            allowYoungGenerationGrowth()
            print(facts)
          },
          host: flags.host,
          port: flags.port,
          sessionTimeoutSeconds: flags.sessionTimeout,
          ...defined({ parentPipe: flags.parentPipe }),
        }),
      )
    })
}

/** Creates the folder if it is missing, and checks it before anything starts. No other account may write to it: it has the keys. */
function writableFolder(path: string): string {
  try {
    // Run by root, the database has an account of its own that must reach its folder.
    mkdirSync(path, { recursive: true, mode: process.geteuid?.() === 0 ? 0o711 : 0o700 })
    const { uid, mode } = statSync(path)
    if (uid === process.geteuid?.() && (mode & 0o022) !== 0) chmodSync(path, mode & 0o7755)
    accessSync(path, constants.W_OK | constants.X_OK)
    return path
  } catch (error) {
    throw new InvalidInput(`Cannot write to ${path}: ${errorMessage(error)}`, {
      code: 'cannot_write',
      cause: error,
      hint: 'give --data DIR, a folder on a local disk that this account may write',
    })
  }
}

function printReady(facts: Readonly<Record<string, unknown>>): void {
  const { url, adminKey, loginUrl, dataDir } = facts as Readonly<Record<string, string | undefined>>
  const lines = [
    `Bellwether is running on ${url}`,
    ...(loginUrl === undefined ? [] : [`Dashboard (the link works once, for a few minutes): ${loginUrl}`]),
    ...(adminKey === undefined ? [] : [`Administrator's key: ${adminKey}`]),
    `Run-time files: ${dataDir}`,
    'Press Ctrl-C to drain and stop everything.',
  ]
  process.stdout.write(`${lines.join('\n')}\n`)
}

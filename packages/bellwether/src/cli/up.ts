/** `bellwether up`: everything on this machine, until it is told to stop. With --json one line on stdout when all of it answers. */
import { accessSync, constants, mkdirSync } from 'node:fs'
import { resolve } from 'node:path'
import { errorMessage } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { Command, Option } from 'commander'
import { keepNurserySmall, letNurseryGrow } from '../runtime/heap-tuning.js'
import { printLine } from './output.js'
import { wholeUpTo } from './numbers.js'

interface Flags {
  readonly host?: string
  readonly port?: number
  readonly data: string
  readonly project: string
  readonly json?: boolean
  readonly parentPipe?: boolean
}

export function upCommand(finish: (code: number) => void): Command {
  return new Command('up')
    .description('run everything here: database, PMO, workers, board, workspace view, HTTP and dashboard')
    .option('--host <address>', 'the address to listen on (default: server.host)')
    .option('--port <n>', 'the port; 0 picks a free one (default: server.port)', wholeUpTo(65_535))
    .option('--data <dir>', 'the database, keys and run-time files', '.bellwether')
    .option('--project <name>', 'the project that the agents of folder agents/ belong to', 'default')
    .option('--json', 'print one line on stdout when everything answers')
    .addOption(new Option('--parent-pipe', 'stop when stdin ends: for a parent that holds the other end'))
    .action(async (flags: Flags) => {
      // Before the parts are loaded, which is most of what the start makes.
      keepNurserySmall()
      const { serveUp } = await import('../runtime/serve.js')
      const tellReady = flags.json === true ? printLine : tell
      finish(
        await serveUp({
          folder: process.cwd(),
          dataDir: madeFolder(resolve(flags.data)),
          projectId: flags.project,
          parentPipe: flags.parentPipe ?? false,
          program: [...process.execArgv, process.argv[1] ?? ''],
          onReady: (facts) => {
            letNurseryGrow()
            tellReady(facts)
          },
          ...(flags.host === undefined ? {} : { host: flags.host }),
          ...(flags.port === undefined ? {} : { port: flags.port }),
        }),
      )
    })
}

/** Made if it is not there; a disk that cannot be written is told before anything is started on it. */
function madeFolder(path: string): string {
  try {
    mkdirSync(path, { recursive: true })
    accessSync(path, constants.W_OK | constants.X_OK)
    return path
  } catch (error) {
    throw new InvalidInput(`${path} cannot be written: ${errorMessage(error)}`, {
      code: 'cannot_write',
      cause: error,
      hint: 'give --data DIR, a folder on a local disk that this account may write',
    })
  }
}

function tell(facts: Readonly<Record<string, unknown>>): void {
  const { url, adminKey, loginUrl, dataDir } = facts as Readonly<Record<string, string | undefined>>
  const lines = [
    `Bellwether is up on ${url}`,
    ...(loginUrl === undefined ? [] : [`open the dashboard (once, within minutes): ${loginUrl}`]),
    ...(adminKey === undefined ? [] : [`key of the administrator: ${adminKey}`]),
    `run-time files: ${dataDir}`,
    'Ctrl-C drains and stops everything.',
  ]
  process.stdout.write(`${lines.join('\n')}\n`)
}

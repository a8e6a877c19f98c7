/** `bellwether up`: everything on this machine, until it is told to stop. With --json one line on stdout when all of it answers. */
import { mkdirSync } from 'node:fs'
import { resolve } from 'node:path'
import { token } from '@bellwether/protocol'
import { Command } from 'commander'
import { environment } from '../serve.js'
import { holdLifeline } from '../serve/lifeline.js'
import { openLog } from '../serve/logger.js'
import { runUp } from '../serve/up.js'
import { loadSettings } from '../settings/load.js'
import { printLine } from './explain.js'
import { wholeUpTo } from './numbers.js'
import { parentPipe } from './worker.js'

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
    .addOption(parentPipe())
    .action(async (flags: Flags) => {
      const folder = process.cwd()
      const dataDir = resolve(flags.data)
      mkdirSync(dataDir, { recursive: true })
      const log = openLog('up')
      const lifeline = holdLifeline({ parentPipe: flags.parentPipe ?? false, log })
      try {
        finish(
          await runUp({
            folder,
            dataDir,
            projectId: token(flags.project, 'project'),
            settings: loadSettings({ folder, env: environment() }),
            log,
            lifeline,
            program: [...process.execArgv, process.argv[1] ?? ''],
            env: environment(),
            onReady: flags.json === true ? printLine : tell,
            ...(flags.host === undefined ? {} : { host: flags.host }),
            ...(flags.port === undefined ? {} : { port: flags.port }),
          }),
        )
      } finally {
        lifeline.release()
      }
    })
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

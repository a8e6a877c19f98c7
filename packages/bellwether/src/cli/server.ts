/** `bellwether server`: the HTTP API, with views and a board where they are wanted, against [database] url. */
import { InvalidInput } from '@bellwether/protocol'
import { Command, InvalidArgumentError } from 'commander'
import { serveServer } from '../runtime/serve.js'
import { printLine } from './output.js'
import { parentPipe } from './worker.js'

interface Flags {
  readonly host?: string
  readonly port?: number
  readonly view?: string[]
  readonly root?: string
  readonly project: string
  readonly data?: string
  readonly json?: boolean
  readonly parentPipe?: boolean
}

const portMax = 65_535

export function serverCommand(finish: (code: number) => void): Command {
  return new Command('server')
    .description('serve the HTTP API: turns, events, the worker API, the board and workspace views')
    .option('--host <address>', 'the address to listen on (default: server.host)')
    .option('--port <n>', 'the port; 0 picks a free one (default: server.port)', port)
    .option('--view <name>', 'a workspace view to serve; say it again for more', gather)
    .option('--root <dir>', 'the task root whose board is served (default: [board] root, else none)')
    .option('--project <name>', 'the project whose agents do the board’s tasks', 'default')
    .option('--data <dir>', 'where the first admin’s key is kept (default: .bellwether)')
    .option('--json', 'print one line on stdout when ready')
    .addOption(parentPipe())
    .action(async (flags: Flags) => {
      finish(
        await serveServer({
          folder: process.cwd(),
          projectId: flags.project,
          views: [...new Set((flags.view ?? []).map(viewName))],
          parentPipe: flags.parentPipe ?? false,
          onReady: flags.json === true ? printLine : tell,
          ...(flags.host === undefined ? {} : { host: flags.host }),
          ...(flags.port === undefined ? {} : { port: flags.port }),
          ...(flags.root === undefined ? {} : { root: flags.root }),
          ...(flags.data === undefined ? {} : { dataDir: flags.data }),
        }),
      )
    })
}

const gather = (value: string, before: string[] | undefined) => [...(before ?? []), value]

function viewName(name: string): string {
  if (/^[a-z0-9][a-z0-9_.-]{0,63}$/i.test(name)) return name
  throw new InvalidInput(`${JSON.stringify(name)} cannot be the name of a view`, {
    code: 'invalid_name',
    hint: 'letters, digits, _ . and -, at most 64, beginning with a letter or digit',
  })
}

function port(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= portMax) return Number(text)
  throw new InvalidArgumentError(`It must be a whole number from 0 to ${portMax}.`)
}

function tell(facts: Readonly<Record<string, unknown>>): void {
  const { url, adminKey, loginUrl } = facts as { url: string; adminKey?: string; loginUrl?: string }
  process.stdout.write(`serving on ${url}\n`)
  if (loginUrl !== undefined) process.stdout.write(`sign in with a browser: ${loginUrl}   (good once)\n`)
  if (adminKey !== undefined) process.stdout.write(`admin key: ${adminKey}   (kept in .bellwether/admin-key)\n`)
}

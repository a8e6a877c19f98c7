/** `bellwether server`: serves the HTTP API and, if configured, workspace views and a board. */
import { defined } from '@bellwether/base'
import { Command } from 'commander'
import { collect, parentPipe, portMax, viewNames, wholeUpTo } from '../shared/options.js'
import { printLine } from '../shared/output.js'

interface Flags {
  readonly host?: string
  readonly port?: number
  readonly view?: readonly string[]
  readonly root?: string
  readonly project: string
  readonly data?: string
  readonly json?: boolean
  readonly parentPipe?: boolean
}

export function serverCommand(finish: (code: number) => void): Command {
  return new Command('server')
    .description('serve the HTTP API: turns, events, the worker API, the board and workspace views')
    .option('--host <address>', 'the address to listen on (default: server.host)')
    .option('--port <n>', 'the port; 0 picks a free one (default: server.port)', wholeUpTo(portMax))
    .option('--view <name>', 'a workspace view to serve; may be repeated', collect)
    .option('--root <dir>', 'the task root whose board is served (default: [board] root, else none)')
    .option('--project <name>', 'the project whose agents do the tasks of the board', 'default')
    .option('--data <dir>', 'the folder of the administrator’s key file (default: that of `up`)')
    .option('--json', 'print one JSON object when ready')
    .addOption(parentPipe())
    .action(async (flags: Flags) => {
      const { runServerProcess } = await import('../../runtime/server.js')
      const { host, port, root, data: dataDir } = flags
      finish(
        await runServerProcess({
          folder: process.cwd(),
          projectId: flags.project,
          views: viewNames(flags.view),
          onReady: flags.json === true ? printLine : printReady,
          host,
          port,
          root,
          dataDir,
          ...defined({ parentPipe: flags.parentPipe }),
        }),
      )
    })
}

function printReady(facts: Readonly<Record<string, unknown>>): void {
  const { url, adminKey, adminKeyFile, loginUrl } = facts as Readonly<Record<string, string | undefined>>
  process.stdout.write(`Server listening on ${url}\n`)
  if (loginUrl !== undefined) process.stdout.write(`Sign in with a browser (the link works once): ${loginUrl}\n`)
  if (adminKey !== undefined)
    process.stdout.write(`Administrator's key (shown only now; also in ${adminKeyFile}): ${adminKey}\n`)
}

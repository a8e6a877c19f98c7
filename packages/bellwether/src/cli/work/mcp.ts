/** `bellwether mcp`: serves the tools of a running server to an MCP client. Stdin and stdout carry MCP messages only. */
import { resolve } from 'node:path'
import { systemClock, systemRandom } from '@bellwether/base'
import { Command } from 'commander'
import { uuidv7 } from '../../ports/ids.js'
import { openClient, serverOptions, type ServerFlags } from '../shared/client.js'
import { untilInterrupted } from '../shared/interrupt.js'
import { version } from '../../settings/version.js'

interface Flags extends ServerFlags {
  readonly folder: string
  readonly view: string
  readonly readOnly?: boolean
}

export function mcpCommand(): Command {
  return serverOptions(new Command('mcp'))
    .description(
      'serve the Model Context Protocol on stdin and stdout, for one client; the server may be started later',
    )
    .option('--folder <dir>', 'the project folder of the running `up`', '.')
    .option('--project <name>', 'the project (default: the project of the `up`, else `default`)')
    .option('--view <name>', 'the view to search', 'project')
    .option('--read-only', 'offer only tools that change nothing')
    .action(async (flags: Flags) => {
      const folder = resolve(flags.folder)
      // The SDK is large, so other commands do not load it.
      const { serveMcp } = await import('../../mcp/server.js')
      await untilInterrupted((signal) =>
        serveMcp({
          version: version(),
          connect: () => openClient(flags, folder),
          clock: systemClock,
          ids: uuidv7(systemClock, systemRandom),
          random: systemRandom,
          view: flags.view,
          readOnly: flags.readOnly ?? false,
          signal,
        }),
      )
    })
}

/** `bellwether mcp`: lets an MCP client drive a running house, over stdin and stdout. Nothing but messages is printed there. */
import { resolve } from 'node:path'
import { systemClock, systemRandom } from '@bellwether/base'
import { Command } from 'commander'
import { uuidv7 } from '../ports/ids.js'
import { openClient, serverOptions, type ServerFlags } from './client.js'
import { untilInterrupted } from './interrupt.js'
import { version } from './version.js'

interface Flags extends ServerFlags {
  readonly folder: string
  readonly view: string
  readonly readOnly?: boolean
}

export function mcpCommand(): Command {
  return serverOptions(new Command('mcp'))
    .description('serve the Model Context Protocol on stdin and stdout, for one client; the house may be started later')
    .option('--folder <dir>', 'the project folder whose `up` is meant', '.')
    .option('--project <name>', 'the project (default: that of the `up`, else `default`)')
    .option('--view <name>', 'the view that is searched', 'project')
    .option('--read-only', 'offer only tools that change nothing')
    .action(async (flags: Flags) => {
      const folder = resolve(flags.folder)
      // The SDK is large: other commands do not wait for it.
      const { serveMcp } = await import('../mcp/server.js')
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

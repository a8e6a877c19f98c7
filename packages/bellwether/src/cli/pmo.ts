/** `bellwether pmo`: the watchdog, the relay of the outbox and retention. Any number of them may run. */
import { Command } from 'commander'
import { servePmo } from '../runtime/serve.js'
import { printLine } from './output.js'
import { parentPipe } from './worker.js'

interface Flags {
  readonly json?: boolean
  readonly parentPipe?: boolean
}

export function pmoCommand(finish: (code: number) => void): Command {
  return new Command('pmo')
    .description('watch over turns and publish events, against [database] url')
    .option('--json', 'print one line on stdout when ready')
    .addOption(parentPipe())
    .action(async (flags: Flags) => {
      finish(
        await servePmo({
          folder: process.cwd(),
          parentPipe: flags.parentPipe ?? false,
          ...(flags.json === true ? { onReady: printLine } : {}),
        }),
      )
    })
}

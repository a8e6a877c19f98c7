/** `bellwether pmo`: runs the guard, the relay of the outbox and retention. Any number may run. */
import { defined } from '@bellwether/base'
import { Command } from 'commander'
import { parentPipe } from '../shared/options.js'
import { printLine } from '../shared/output.js'

interface Flags {
  readonly json?: boolean
  readonly parentPipe?: boolean
}

export function pmoCommand(finish: (code: number) => void): Command {
  return new Command('pmo')
    .description('guard all turns and publish events, against [database] url')
    .option('--json', 'print one JSON object when ready')
    .addOption(parentPipe())
    .action(async (flags: Flags) => {
      const { runPmoProcess } = await import('../../runtime/pmo.js')
      const onReady = flags.json === true ? printLine : undefined
      const folder = process.cwd()
      finish(await runPmoProcess({ folder, ...defined({ onReady, parentPipe: flags.parentPipe }) }))
    })
}

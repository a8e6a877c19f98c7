/** `bellwether demo`: a fleet on this machine, with real crashes, for half a minute; ends with a table that SQL has checked. */
import { Command } from 'commander'
import { runDemo } from '../demo/demo.js'
import { environment } from '../serve.js'

export function demoCommand(finish: (code: number) => void): Command {
  return new Command('demo')
    .description('run a small fleet here, crash it on stage, and show that every turn ended')
    .option('--data <dir>', 'where the embedded database lives', '.bellwether/demo')
    .action(async (flags: { readonly data: string }) => {
      finish(
        await runDemo({
          dataDir: flags.data,
          env: environment(),
          program: [...process.execArgv, process.argv[1] ?? ''],
        }),
      )
    })
}

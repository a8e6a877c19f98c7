/** `bellwether init`: creates a project folder that works at once. */
import { environment } from '@bellwether/base'
import { Command } from 'commander'
import { exitCodes, printLine, programName } from '../shared/output.js'

export function initCommand(finish: (code: number) => void): Command {
  return new Command('init')
    .description('create a project folder: settings and two example agents')
    .argument('[folder]', 'the folder', '.')
    .option('--json', 'print one JSON object')
    .action(async (folder: string, flags: { readonly json?: boolean }) => {
      const [{ createdText, initFolder }, { findLocalUp, isRunning }] = await Promise.all([
        import('./init-folder.js'),
        import('../shared/local-up.js'),
      ])
      const env = environment()
      const done = initFolder(folder, env)
      const shown = { program: programName(env), runs: isRunning(findLocalUp(done.root)) }
      if (flags.json === true) printLine(done)
      else process.stdout.write(createdText(done, shown))
      finish(exitCodes.ok)
    })
}

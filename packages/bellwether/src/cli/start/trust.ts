/** `bellwether trust`: shows what the files of this folder make `up` do, and which of them a turn changed, and accepts them. */
import { Command } from 'commander'
import { exitCodes, printLine } from '../shared/output.js'
import type { FolderFlags } from './accept.js'

interface Flags extends FolderFlags {
  readonly yes?: boolean
  readonly json?: boolean
}

export function trustCommand(finish: (code: number) => void): Command {
  return new Command('trust')
    .description('show what the files of this folder make `up` run, and accept it, including files that a turn changed')
    .option('--data <dir>', 'the data folder, if `up` was started with --data')
    .option('--agents <file>', 'the agents file of `up`, if it was started with one (default: worker.agents)')
    .option('-y, --yes', 'accept without asking')
    .option('--json', 'print one JSON object, and accept nothing unless --yes is given')
    .action(async (flags: Flags) => {
      const { accept, isAccepted, isTrusted, openFolder, summary } = await import('./accept.js')
      const project = openFolder(process.cwd(), flags)
      const { untrusted, held } = project
      if (flags.json === true) {
        if (flags.yes === true) accept(project, 'unseen')
        printLine({ trusted: flags.yes === true || isTrusted(project), untrusted, changed_by_turns: held })
      } else if (isTrusted(project)) {
        // This also accepts changes that no `up` has seen yet.
        if (flags.yes === true) accept(project, 'unseen')
        process.stdout.write('Nothing to accept: everything in this folder is trusted.\n')
      } else {
        process.stdout.write(summary(project))
        if (flags.yes !== true && !(await isAccepted('Accept this?'))) return finish(exitCodes.failure)
        accept(project, 'unseen')
        process.stdout.write('Accepted. A running `up` uses the files within a few seconds.\n')
      }
      finish(exitCodes.ok)
    })
}

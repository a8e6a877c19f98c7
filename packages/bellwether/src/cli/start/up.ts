/** `bellwether up`: runs everything on this machine until shutdown. */
import { Command } from 'commander'
import { parentPipe, portMax, wholeUpTo } from '../shared/options.js'
import type { UpFlags } from './run-up.js'

export function upCommand(finish: (code: number) => void): Command {
  return new Command('up')
    .description('run everything here: database, PMO, workers, board, workspace view, HTTP and dashboard')
    .option('--host <address>', 'the address to listen on (default: server.host)')
    .option('--port <n>', 'the port; 0 picks a free one (default: server.port)', wholeUpTo(portMax))
    .option(
      '--data <dir>',
      'the folder of the database, keys and run-time files (default: one per project in $XDG_STATE_HOME/bellwether)',
    )
    .option('--agents <file>', 'a module with the code of agents with executor: function (default: worker.agents)')
    .option('--project <name>', 'the project of the agents in folder agents/', 'default')
    .option(
      '--session-timeout <s>',
      'the session timeout that the sensor requests, in seconds (default: sensor.session_timeout_seconds)',
      wholeUpTo(604_800, 1),
    )
    .option('--trust', 'trust what the files of this folder run, listen on and connect to, without asking')
    .option('-v, --verbose', 'on a terminal: show the log, which otherwise goes to a file in the data folder')
    .option('--json', 'print one JSON object when ready')
    .addOption(parentPipe())
    .action(async (flags: UpFlags) => {
      // Before the parts are loaded, which allocates most of the heap of a start.
      const { tuneForStart } = await import('../../runtime/heap-tuning.js')
      tuneForStart()
      const { runUp } = await import('./run-up.js')
      finish(await runUp(flags))
    })
}

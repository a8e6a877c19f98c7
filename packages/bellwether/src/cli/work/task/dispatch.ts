/** `task dispatch`: runs one task, or the next ready ones, with a local command as the agent. */
import type { Command } from 'commander'
import { collect } from '../../shared/options.js'
import { wholeNumber } from './queries.js'
import { withCommon } from './root.js'
import type { DispatchFlags } from './run-dispatch.js'

export function dispatchCommand(task: Command, finish: (code: number) => void): void {
  withCommon(task.command('dispatch [id]'))
    .description('run a task with a local command: the named one, or the next one that is ready')
    .option('--command <cmd>', 'the agent: reads the prompt on stdin and writes the result to stdout')
    .option('--timeout <seconds>', 'time limit of one run', wholeNumber, 1_200)
    .option('--env <name>', 'an environment variable that the command may see; may be repeated', collect)
    .option('--max <n>', 'without an id: the maximum number of tasks (default 1)', wholeNumber)
    .action(async (id: string | undefined, flags: DispatchFlags) => {
      const { runDispatch } = await import('./run-dispatch.js')
      finish(await runDispatch(id, flags))
    })
}

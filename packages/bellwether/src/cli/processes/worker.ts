/** `bellwether worker`: runs the turns of one worker target, with the agents of folder agents/ or with functions from a module. */
import { existsSync } from 'node:fs'
import { defined } from '@bellwether/base'
import { InvalidInput, token } from '@bellwether/protocol'
import { Command } from 'commander'
import { agentsFolder } from '../../runtime/paths.js'
import { runWorkerProcess } from '../../runtime/worker.js'
import { loadAgents } from './agents-file.js'
import { parentPipe, required, wholeUpTo } from '../shared/options.js'
import { printLine } from '../shared/output.js'

interface Flags {
  readonly target?: string
  readonly agents?: string
  readonly project: string
  readonly concurrency?: number
  readonly json?: boolean
  readonly parentPipe?: boolean
}

const concurrencyMax = 10_000

export function workerCommand(finish: (code: number) => void): Command {
  return new Command('worker')
    .description('run turns with the agents of folder agents/, or with functions, against [database] url')
    .option('--target <name>', 'the worker target whose turns this worker runs')
    .option('--agents <file>', 'a module whose default export maps agent ids (or profile names, or *) to functions')
    .option('--project <name>', 'the project of the agents in folder agents/', 'default')
    .option(
      '--concurrency <n>',
      'how many turns run at the same time (default: worker.concurrency)',
      wholeUpTo(concurrencyMax, 1),
    )
    .option('--json', 'print one line on stdout when ready')
    .addOption(parentPipe())
    .action(async (flags: Flags) => {
      const target = required(flags.target, 'worker', '--target NAME')
      const fromFiles = existsSync(agentsFolder)
      const file = fromFiles
        ? flags.agents
        : required(flags.agents, 'worker', `--agents FILE, or a folder ${agentsFolder}/`)
      const { agents, tools, module } =
        file === undefined ? { agents: {}, tools: [], module: undefined } : await loadAgents(file)
      if (tools.length > 0 && !fromFiles) {
        throw new InvalidInput(`The tools of ${file} need a folder ${agentsFolder}/`, {
          code: 'agents_folder_missing',
          hint: `create the folder; it may be empty: mkdir ${agentsFolder}`,
        })
      }
      const code = await runWorkerProcess({
        folder: process.cwd(),
        target,
        agents,
        tools,
        ...defined({
          module,
          fileAgentsOf: fromFiles ? token(flags.project, 'project') : undefined,
          concurrency: flags.concurrency,
          parentPipe: flags.parentPipe,
          onReady: flags.json === true ? printLine : undefined,
        }),
      })
      finish(code)
    })
}

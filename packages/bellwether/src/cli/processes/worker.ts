/** `bellwether worker`: runs the turns of one worker target, with the agents of folder agents/ or with functions from a module. */
import { existsSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { addToEnvironment, defined, type Environment } from '@bellwether/base'
import { InvalidInput, token } from '@bellwether/protocol'
import { Command, Option } from 'commander'
import { agentsFolder } from '../../runtime/paths.js'
import { parentPipe, required, wholeUpTo } from '../shared/options.js'
import { printLine } from '../shared/output.js'

interface Flags {
  readonly target?: string
  readonly agents?: string
  readonly project: string
  readonly concurrency?: number
  readonly json?: boolean
  readonly parentPipe?: boolean
  readonly control?: string
  readonly environmentFd?: number
}

const concurrencyMax = 10_000
const fdMax = 1_000

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
    .option('--json', 'print one JSON object when ready')
    .addOption(parentPipe())
    .addOption(new Option('--control <dir>', 'the folder of the accepted control files').hideHelp())
    .addOption(
      new Option('--environment-fd <n>', 'the file descriptor of more variables, as JSON')
        .argParser(wholeUpTo(fdMax))
        .hideHelp(),
    )
    .action(async (flags: Flags) => {
      if (flags.environmentFd !== undefined)
        addToEnvironment(JSON.parse(readFileSync(flags.environmentFd, 'utf8')) as Environment)
      const { tuneForStart } = await import('../../runtime/heap-tuning.js')
      tuneForStart()
      const [{ runWorkerProcess }, { loadAgents }] = await Promise.all([
        import('../../runtime/worker.js'),
        import('../../runtime/parts/worker/agents-file.js'),
      ])
      const target = required(flags.target, 'worker', '--target NAME')
      const fromFiles = flags.control !== undefined || existsSync(agentsFolder)
      const file = fromFiles
        ? flags.agents
        : required(flags.agents, 'worker', `--agents FILE, or a folder ${agentsFolder}/`)
      // In a worker of `up` the file is loaded again when it changes.
      const isLive = flags.control !== undefined
      const { agents, tools, module } =
        file === undefined || isLive ? { agents: {}, tools: [], module: undefined } : await loadAgents(file)
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
          liveAgentsFile: isLive && file !== undefined ? resolve(file) : undefined,
          fileAgentsOf: fromFiles ? token(flags.project, 'project') : undefined,
          concurrency: flags.concurrency,
          parentPipe: flags.parentPipe,
          control: flags.control,
          onReady: flags.json === true ? printLine : undefined,
        }),
      })
      finish(code)
    })
}

/** `bellwether worker`: a process that runs the turns of one worker target, with agents from the folder agents/ or functions from a file. */
import { existsSync } from 'node:fs'
import { InvalidInput, token } from '@bellwether/protocol'
import { Command, Option } from 'commander'
import { serveWorker } from '../runtime/serve.js'
import { agentsFolder } from '../runtime/file-agents.js'
import { loadAgents } from './agents-file.js'
import { printLine } from './output.js'
import { wholeUpTo } from './numbers.js'

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
    .option('--target <name>', 'the worker target whose turns this worker takes')
    .option('--agents <file>', 'a module whose default export maps agent ids (or profile names, or *) to functions')
    .option('--project <name>', 'the project that the agents of folder agents/ belong to', 'default')
    .option(
      '--concurrency <n>',
      'how many turns at the same time (default: worker.concurrency)',
      wholeUpTo(concurrencyMax, 1),
    )
    .option('--json', 'print one line on stdout when ready')
    .addOption(parentPipe())
    .action(async (flags: Flags) => {
      const target = needed(flags.target, '--target NAME')
      const fromFiles = existsSync(agentsFolder)
      const file = fromFiles ? flags.agents : needed(flags.agents, `--agents FILE, or a folder ${agentsFolder}/`)
      const { agents, tools } = file === undefined ? { agents: {}, tools: [] } : await loadAgents(file)
      if (tools.length > 0 && !fromFiles) {
        throw new InvalidInput(`the tools of ${file} need a folder ${agentsFolder}/, which may be empty`, {
          code: 'agents_folder_missing',
        })
      }
      const code = await serveWorker({
        folder: process.cwd(),
        target,
        agents,
        tools,
        ...(fromFiles ? { fileAgentsOf: token(flags.project, 'project') } : {}),
        parentPipe: flags.parentPipe ?? false,
        ...(flags.concurrency === undefined ? {} : { concurrency: flags.concurrency }),
        ...(flags.json === true ? { onReady: printLine } : {}),
      })
      finish(code)
    })
}

export function parentPipe(): Option {
  return new Option('--parent-pipe', 'stop when stdin ends: for a parent that holds the other end')
}

/** Checked here and not by the parser, which would not get to say that another option was mistyped. */
function needed(value: string | undefined, option: string): string {
  if (value !== undefined) return value
  throw new InvalidInput(`a worker needs ${option}`, { code: 'missing_option', hint: 'see: bellwether worker --help' })
}

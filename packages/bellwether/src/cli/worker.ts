/** `bellwether worker`: a process that runs the turns of one worker target with function agents from a file. */
import { Command, InvalidArgumentError, Option } from 'commander'
import { serveWorker } from '../serve.js'
import { loadAgents } from './agents-file.js'
import { printLine } from './explain.js'

interface Flags {
  readonly target: string
  readonly agents: string
  readonly concurrency?: number
  readonly json?: boolean
  readonly parentPipe?: boolean
}

const concurrencyMax = 10_000

export function workerCommand(finish: (code: number) => void): Command {
  return new Command('worker')
    .description('run turns with function agents, against [database] url')
    .requiredOption('--target <name>', 'the worker target whose turns this worker takes')
    .requiredOption('--agents <file>', 'a module whose default export maps agent ids (or profile names, or *) to functions')
    .option('--concurrency <n>', 'how many turns at the same time (default: worker.concurrency)', wholeNumber)
    .option('--json', 'print one line on stdout when ready')
    .addOption(parentPipe())
    .action(async (flags: Flags) => {
      const agents = await loadAgents(flags.agents)
      const code = await serveWorker({
        folder: process.cwd(),
        target: flags.target,
        agents,
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

function wholeNumber(text: string): number {
  const number = Number(text)
  if (/^\d+$/.test(text) && number >= 1 && number <= concurrencyMax) return number
  throw new InvalidArgumentError(`It must be a whole number from 1 to ${concurrencyMax}.`)
}

#!/usr/bin/env node
/**
 * The command line. One file a command; this one only knows their names. Human output on a terminal, with --json one
 * object a line on stdout; logs on stderr; exit 0 ok, 1 failure, 2 usage.
 */
import { Command, CommanderError } from 'commander'
import { nearest } from '../settings/nearest.js'
import { demoCommand } from './demo.js'
import { explain, exitCodes } from './explain.js'
import { pmoCommand } from './pmo.js'
import { workerCommand } from './worker.js'

const commands = [workerCommand, pmoCommand, demoCommand]

function build(finish: (code: number) => void): Command {
  const program = new Command('bellwether')
    .description('Runs a fleet of AI agents so that every turn ends.')
    .helpCommand(false)
    .showSuggestionAfterError(false)
    .exitOverride()
    .configureOutput({ outputError: () => undefined })
  for (const make of commands) {
    program.addCommand(
      make(finish)
        .exitOverride()
        .configureOutput({ outputError: () => undefined })
        .showSuggestionAfterError(false),
    )
  }
  return program
}

/** What a mistyped word most likely meant. */
function suggestion(program: Command, error: CommanderError, words: readonly string[]): string {
  const wrong = /'(-{0,2}[^'\s]+)/.exec(error.message)?.[1]
  const within = program.commands.find((command) => words.includes(command.name()))
  if (wrong !== undefined && error.code === 'commander.unknownCommand') {
    return `Did you mean: bellwether ${nearest(
      wrong,
      program.commands.map((command) => command.name()),
    )}?`
  }
  if (wrong !== undefined && error.code === 'commander.unknownOption') {
    const options = ['--help', ...(within ?? program).options.flatMap((option) => option.long ?? [])]
    return `Did you mean ${nearest(wrong, options)}?`
  }
  return `See: bellwether ${within === undefined ? '' : `${within.name()} `}--help`
}

async function main(words: readonly string[]): Promise<number> {
  let code: number = exitCodes.ok
  const program = build((told) => {
    code = told
  })
  try {
    await program.parseAsync([...words], { from: 'user' })
    return code
  } catch (error) {
    if (!(error instanceof CommanderError)) return explain(error)
    if (error.exitCode === 0) return exitCodes.ok
    // Without a command the help itself is the answer, and it has been printed.
    if (error.code !== 'commander.help')
      process.stderr.write(`${error.message}\n${suggestion(program, error, words)}\n`)
    return exitCodes.usage
  }
}

// Agent code may have left timers and sockets behind: the process ends when its work has ended.
process.exit(await main(process.argv.slice(2)))

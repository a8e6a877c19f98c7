/** Finds the command that is meant, runs it and tells mistakes; answers the exit code: 0 ok, 1 failure, 2 usage. */
import { Command, CommanderError } from 'commander'
import { nearest } from '../settings/nearest.js'
import { commands } from './commands.js'
import { explain, exitCodes } from './output.js'
import { firstPage } from './first-page.js'
import { plain } from '../client/sanitize.js'
import { version } from './version.js'

async function build(name: string, finish: (code: number) => void): Promise<Command> {
  // Options behind a command are the command’s own.
  const program = new Command('bellwether').helpCommand(false).enablePositionalOptions()
  const make = await commands[name]!.load()
  program.addCommand(make(finish))
  return strict(program)
}

/** Mistakes are told by us, in a command and in the verbs under it. */
function strict(command: Command): Command {
  command.commands.forEach(strict)
  return command
    .exitOverride()
    .configureOutput({ outputError: () => undefined })
    .showSuggestionAfterError(false)
}

/** What a mistyped word most likely meant. */
function suggestion(program: Command, error: CommanderError, words: readonly string[]): string {
  const outer = program.commands[0]!
  const inner = outer.commands.find((command) => words.includes(command.name())) ?? outer
  const wrong = /'(-{0,2}[^'\s]+)/.exec(error.message)?.[1]
  const verbs = outer.commands.map((command) => command.name())
  // A command that also works without a verb takes a mistyped verb for one word too many.
  const verb = error.code === 'commander.excessArguments' && inner === outer ? words[1] : undefined
  const mistyped = error.code === 'commander.unknownCommand' ? wrong : verb
  if (mistyped !== undefined && verbs.length > 0) return `Did you mean: ${path(outer)} ${nearest(mistyped, verbs)}?`
  if (wrong !== undefined && error.code === 'commander.unknownOption') {
    const options = ['--help', ...inner.options.flatMap((option) => option.long ?? [])]
    return `Did you mean ${nearest(wrong, options)}?`
  }
  return `See: ${path(inner)} --help`
}

/** A command as one types it. */
function path(command: Command): string {
  return command.parent === null ? command.name() : `${path(command.parent)} ${command.name()}`
}

export async function run(given: readonly string[]): Promise<number> {
  // `help turn` is `turn --help`.
  const words = given[0] === 'help' && given.length > 1 ? [...given.slice(1), '--help'] : given
  const [name] = words
  if (name === '--version' || name === '-V') return print(`${version()}\n`)
  if (name === '--help' || name === '-h' || name === 'help') return print(firstPage(version()))
  if (name === undefined) {
    process.stderr.write(firstPage(version()))
    return exitCodes.usage
  }
  if (!Object.hasOwn(commands, name)) return unknown(name)
  let code: number = exitCodes.ok
  const program = await build(name, (told) => {
    code = told
  })
  try {
    await program.parseAsync([...words], { from: 'user' })
    return code
  } catch (error) {
    if (!(error instanceof CommanderError)) return explain(error)
    if (error.exitCode === 0) return exitCodes.ok
    // Without a verb the help itself is the answer, and it has been printed.
    if (error.code !== 'commander.help')
      process.stderr.write(`${plain(error.message)}\n${plain(suggestion(program, error, words))}\n`)
    return exitCodes.usage
  }
}

function print(text: string): number {
  process.stdout.write(text)
  return exitCodes.ok
}

function unknown(name: string): number {
  const isOption = name.startsWith('-')
  const close = nearest(name, isOption ? ['--help', '--version'] : [...Object.keys(commands), 'help'])
  process.stderr.write(
    `error: unknown ${isOption ? 'option' : 'command'} '${plain(name)}'\nDid you mean: bellwether ${close}?\n`,
  )
  return exitCodes.usage
}

/** Finds and runs a command, and reports wrong usage with a suggestion. Returns the exit code: 0 success, 1 failure, 2 wrong usage. */
import { Command, CommanderError } from 'commander'
import { similar } from '../settings/nearest.js'
import { commands, groups } from './commands.js'
import { examplesOf } from './examples.js'
import { version } from '../settings/version.js'
import { asTyped, exitCodes, printError } from './shared/output.js'
import { plain } from '../client/sanitize.js'

async function build(name: string, verb: string | undefined, finish: (code: number) => void): Promise<Command> {
  // Options after a command belong to the command.
  const program = new Command('bellwether').helpCommand(false).enablePositionalOptions()
  const make = await commands[name]!.load(verb)
  program.addCommand(make(finish))
  return strict(program)
}

/** Makes the parser throw errors instead of printing them, and adds the examples to the help, in a command and its verbs. */
function strict(command: Command): Command {
  command.commands.forEach(strict)
  const lines = examplesOf(path(command).split(' ').slice(1).join(' '))
  return command
    .exitOverride()
    .configureOutput({ outputError: () => undefined, writeErr: (text) => void process.stdout.write(text) })
    .addHelpText('after', lines.length === 0 ? '' : `\nExamples:\n${lines.map((line) => `  ${line}`).join('\n')}`)
    .showSuggestionAfterError(false)
}

/** Suggests the word that was probably meant. */
function suggestion(program: Command, error: CommanderError, args: readonly string[]): string {
  const outer = program.commands[0]!
  const inner = outer.commands.find((command) => args.includes(command.name())) ?? outer
  const wrong = /'(-{0,2}[^'\s]+)/.exec(error.message)?.[1]
  const verbs = outer.commands.map((command) => command.name())
  // A command with a default verb parses a mistyped verb as an extra argument.
  const verb = error.code === 'commander.excessArguments' && inner === outer ? args[1] : undefined
  const mistyped = error.code === 'commander.unknownCommand' ? wrong : verb
  const meant = mistyped === undefined ? undefined : similar(mistyped, verbs)
  if (meant !== undefined) return `Did you mean: ${path(outer)} ${meant}?`
  if (mistyped !== undefined && verbs.length > 0) return `It has: ${verbs.join(', ')}. See: ${path(outer)} --help`
  if (wrong !== undefined && error.code === 'commander.unknownOption') {
    const options = ['--help', ...inner.options.flatMap((option) => option.long ?? [])].map(bare)
    const option = similar(bare(wrong), options)
    if (option !== undefined) return `Did you mean --${option}?`
  }
  return `See: ${path(inner)} --help`
}

const bare = (option: string) => option.replace(/^-+/, '')

/** The command with its parents, as one types it. */
function path(command: Command): string {
  return command.parent === null ? command.name() : `${path(command.parent)} ${command.name()}`
}

export async function run(typed: readonly string[]): Promise<number> {
  // `help turn` is `turn --help`.
  const args = typed[0] === 'help' && typed.length > 1 ? [...typed.slice(1), '--help'] : typed
  const [name] = args
  if (name === '--version' || name === '-V') return printHelp(`${version()}\n`)
  if (name === undefined || name === '--help' || name === '-h' || name === 'help') return printHelp(firstPage())
  if (!Object.hasOwn(commands, name)) return unknown(name, args.slice(1))
  let code: number = exitCodes.ok
  const program = await build(name, args[1], (result) => {
    code = result
  })
  try {
    await program.parseAsync([...args], { from: 'user' })
    return code
  } catch (error) {
    if (!(error instanceof CommanderError)) return printError(error)
    // Without a verb, the parser has printed the help.
    if (error.exitCode === 0 || error.code === 'commander.help') return exitCodes.ok
    process.stderr.write(`${plain(error.message)}\n${asTyped(plain(suggestion(program, error, args)))}\n`)
    return exitCodes.usage
  }
}

function printHelp(text: string): number {
  process.stdout.write(text)
  return exitCodes.ok
}

/** What people type who know other programs. */
const known: Readonly<Record<string, string>> = {
  run: 'turn run',
  show: 'turn show',
  watch: 'turn watch',
  stop: 'turn stop',
  add: 'task add',
  list: 'task list',
  ls: 'task list',
  start: 'up',
  serve: 'server',
  status: 'agents',
  ps: 'agents',
  answer: 'questions answer',
  approve: 'approvals allow',
  allow: 'approvals allow',
}

function unknown(name: string, rest: readonly string[]): number {
  const isOption = name.startsWith('-')
  const command = rest.find((word) => Object.hasOwn(commands, word))
  const meant = Object.hasOwn(known, name)
    ? known[name]
    : similar(name, isOption ? ['--help', '--version'] : [...Object.keys(commands), 'help'])
  const hint =
    meant !== undefined
      ? `Did you mean: bellwether ${meant}?`
      : isOption && command !== undefined
        ? `Options come after the command: bellwether ${[...rest, name].map(plain).join(' ')}`
        : 'See: bellwether --help'
  process.stderr.write(`error: unknown ${isOption ? 'option' : 'command'} '${plain(name)}'\n${asTyped(hint)}\n`)
  return exitCodes.usage
}

/** The help page of `bellwether` and `bellwether --help`: the commands in groups, and three lines for newcomers. */
function firstPage(): string {
  const width = Math.max(...groups.flatMap(({ commands }) => Object.keys(commands)).map((name) => name.length))
  const lists = groups.map(({ title, commands }) =>
    [title, ...Object.entries(commands).map(([name, { about }]) => `  ${name.padEnd(width)}  ${about}`)].join('\n'),
  )
  return `bellwether ${version()}: runs a fleet of AI agents so that every turn ends.

Usage: bellwether COMMAND [options]

New here?  bellwether demo                      watch a fleet recover from real crashes
           bellwether init && bellwether up     run everything in this folder
           bellwether turn run greeter hello    run a turn, from another terminal

${lists.join('\n\n')}

Run bellwether COMMAND --help for its options. --json prints objects for programs. Exit codes: 0 success, 1 failure, 2 wrong usage.
`
}

#!/usr/bin/env node
/**
 * The command line. One file a command; this one only knows their names. Human output on a terminal, with --json one
 * object a line on stdout; logs on stderr; exit 0 ok, 1 failure, 2 usage.
 */
import { Command, CommanderError } from 'commander'
import { nearest } from '../settings/nearest.js'
import { explain, exitCodes } from './explain.js'

type Make = (finish: (code: number) => void) => Command

/** Each by its name, loaded when it is wanted: a tool for files has no use for a database driver, and should not wait for it. */
const commands: Readonly<Record<string, () => Promise<Make>>> = {
  init: async () => (await import('./init.js')).initCommand,
  up: async () => (await import('./up.js')).upCommand,
  doctor: async () => (await import('./doctor.js')).doctorCommand,
  worker: async () => (await import('./worker.js')).workerCommand,
  pmo: async () => (await import('./pmo.js')).pmoCommand,
  server: async () => (await import('./server.js')).serverCommand,
  keys: async () => (await import('./keys.js')).keysCommand,
  demo: async () => (await import('./demo.js')).demoCommand,
  'migrate-config-v2': async () => (await import('./migrate-config-v2.js')).migrateConfigCommand,
  'recover-stale-locks': async () => (await import('./recover-stale-locks.js')).recoverStaleLocksCommand,
  'rebuild-snapshot': async () => (await import('./rebuild-snapshot.js')).rebuildSnapshotCommand,
  'restore-snapshot': async () => (await import('./restore-snapshot.js')).restoreSnapshotCommand,
  view: async () => (await import('./view.js')).viewCommand,
  sensor: async () => (await import('./sensor.js')).sensorCommand,
  turn: async () => (await import('./turn.js')).turnCommand,
  task: async () => (await import('./task.js')).taskCommand,
}

async function build(words: readonly string[], finish: (code: number) => void): Promise<Command> {
  const program = new Command('bellwether')
    .description('Runs a fleet of AI agents so that every turn ends.')
    .helpCommand(false)
    .showSuggestionAfterError(false)
    .exitOverride()
    .configureOutput({ outputError: () => undefined })
  const name = words[0] ?? ''
  const wanted = Object.hasOwn(commands, name) ? [name] : Object.keys(commands)
  for (const make of await Promise.all(wanted.map((one) => commands[one]!()))) program.addCommand(strict(make(finish)))
  return program
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
  const wrong = /'(-{0,2}[^'\s]+)/.exec(error.message)?.[1]
  const outer = program.commands.find((command) => words.includes(command.name()))
  const within = outer?.commands.find((command) => words.includes(command.name())) ?? outer
  if (wrong !== undefined && error.code === 'commander.unknownCommand') {
    return `Did you mean: ${path(outer ?? program)} ${nearest(
      wrong,
      (outer ?? program).commands.map((command) => command.name()),
    )}?`
  }
  if (wrong !== undefined && error.code === 'commander.unknownOption') {
    const options = ['--help', ...(within ?? program).options.flatMap((option) => option.long ?? [])]
    return `Did you mean ${nearest(wrong, options)}?`
  }
  return `See: ${path(within ?? program)} --help`
}

/** A command as one types it. */
function path(command: Command): string {
  return command.parent === null ? command.name() : `${path(command.parent)} ${command.name()}`
}

async function main(words: readonly string[]): Promise<number> {
  let code: number = exitCodes.ok
  const program = await build(words, (told) => {
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

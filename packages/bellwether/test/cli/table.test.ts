/** The table of commands: every command and verb has examples, and each example parses. Completion offers what the table has. */
import { execFileSync } from 'node:child_process'
import { CommanderError, type Command } from 'commander'
import { beforeAll, describe, expect, it } from 'vitest'
import { groups } from '../../src/cli/commands.js'
import { examplesOf } from '../../src/cli/examples.js'
import { inProcess } from './running-up.js'

interface Entry {
  readonly path: string
  readonly command: Command
}
const all: Entry[] = []
beforeAll(async () => {
  for (const { commands } of groups)
    for (const [name, { load }] of Object.entries(commands)) {
      const command = (await load())(() => undefined)
      all.push(
        { path: name, command },
        ...command.commands.map((verb) => ({ path: `${name} ${verb.name()}`, command: verb })),
      )
    }
})

/** The words of a command line, as a shell splits them. */
const wordsOf = (line: string) =>
  [...line.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(([, double, single, bare]) => double ?? single ?? bare ?? '')

describe('examples in the help', () => {
  it('exist for every command and verb, and start it', () => {
    for (const { path } of all) {
      expect(examplesOf(path), path).not.toEqual([])
      const own = path.split(' ')[0]!
      for (const line of examplesOf(path)) expect(line, path).toMatch(new RegExp(`(?:^|\\| )bellwether ${own}\\b`))
    }
  })

  it('name existing verbs and options, with the arguments that they need', () => {
    for (const line of all.flatMap(({ path }) => examplesOf(path))) {
      const [typed = ''] = line.slice(line.indexOf('bellwether')).split(/ {3}#| [<>] /)
      const [, name = '', ...rest] = wordsOf(typed)
      const verb = all.find(({ path }) => path === `${name} ${rest[0]}`)
      const { command } = verb ?? all.find(({ path }) => path === name)!
      const words = verb === undefined ? rest : rest.slice(1)
      if (words.includes('--help')) continue
      const isDefault = verb === undefined && command.commands.length > 0 && words.length > 0
      const parser = isDefault ? all.find(({ path }) => path === `${name} list`)!.command : command
      expect(() => check(parser, words), line).not.toThrow()
    }
  })
})

describe('JSON output', () => {
  const optionOf = (command: Command, long: string) => command.options.find((option) => option.long === long)
  // They print a script, speak a protocol, or only group their verbs.
  const without = new Set(['completion', 'mcp'])
  const isGroup = ({ command }: Entry) => command.commands.length > 0 && !command.options.some(({ long }) => long)

  it('JSON output has one form: --json prints one object, --jsonl one per line, and both exclude each other', () => {
    for (const { path, command } of all.filter((one) => !isGroup(one) && !without.has(one.path))) {
      expect(optionOf(command, '--json')?.description, path).toMatch(/^(?:with --chaos: )?print one JSON object\b/)
      const lines = command.options.filter(({ long }) => long === '--jsonl')
      expect(lines, path).toMatchObject(
        lines.map(() => ({ description: 'print one JSON object per line', conflictsWith: ['json'] })),
      )
    }
  })

  it('JSON output is available as lines for every command that lists or follows', () => {
    const isList = ({ path, command }: Entry) =>
      /^(?:logs|watchdog)$| (?:list|watch|history|grants)$/.test(path) ||
      (path.includes(' ') && command.description().startsWith('list '))
    const lists = all.filter(isList)
    expect(lists.length).toBeGreaterThan(15)
    const missing = lists.filter(({ command }) => optionOf(command, '--jsonl') === undefined)
    expect(missing.map(({ path }) => path)).toEqual([])
  })
})

/** Parses without running: throws for an unknown option, a missing argument or one too many. */
function check(command: Command, words: readonly string[]): void {
  const { operands, unknown } = command.parseOptions([...words])
  if (unknown.length > 0) throw new CommanderError(2, 'unknown', `unknown ${unknown.join(' ')}`)
  const [needed, possible] = [
    command.registeredArguments.filter((argument) => argument.required).length,
    command.registeredArguments.at(-1)?.variadic === true ? Infinity : command.registeredArguments.length,
  ]
  if (operands.length < needed || operands.length > possible)
    throw new CommanderError(2, 'arguments', `${operands.length} arguments instead of ${needed} to ${possible}`)
}

describe('completion', () => {
  const bash = async (...words: readonly string[]) => {
    const { out } = await inProcess(['completion', 'bash'])
    const script = `${out}\nCOMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _bellwether; echo "\${COMPREPLY[*]}"`
    return execFileSync('bash', ['-c', script, 'bash', 'bellwether', ...words], { encoding: 'utf8' })
      .trim()
      .split(' ')
  }

  it('completion in bash offers commands, verbs and options of the place', async () => {
    expect(await bash('tu')).toEqual(['turn'])
    expect(await bash('turn', 'ret')).toEqual(['retry'])
    expect(await bash('turn', 'list', '-a', 'show', '--s')).toEqual(['--server', '--status', '--since'])
    expect(await bash('completion', '')).toEqual(['bash', 'zsh', 'fish'])
  })

  it.each(['bash', 'zsh', 'fish'])('completion for %s has every command, verb and option', async (shell) => {
    const { code, out } = await inProcess(['completion', shell])
    expect(code).toBe(0)
    for (const { path, command } of all) {
      expect(out).toContain(path)
      for (const { long } of command.options.filter(({ hidden }) => !hidden))
        expect(out).toContain(shell === 'fish' ? `-l ${long!.slice(2)}` : long)
    }
  })

  it('completion rejects another shell and names the three', async () => {
    const { code, err } = await inProcess(['completion', 'powershell'])
    expect([code, err]).toEqual([2, expect.stringContaining('Allowed choices are bash, zsh, fish')])
  })
})

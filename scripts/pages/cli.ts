/** docs/reference/cli.md: every command with its arguments and options, from the command definitions themselves. */
import { groups, type Make } from '../../packages/bellwether/src/cli/commands.js'
import { examplesOf } from '../../packages/bellwether/src/cli/examples.js'
import { generated, page } from './pages.js'

type Command = ReturnType<Make>
type Option = Command['options'][number]

/** An option that so many commands have is described once, in a section of its own. */
const sharedFrom = 8

export async function cliPage(): Promise<string> {
  const sections: { readonly title: string; readonly commands: readonly (readonly [string, Command])[] }[] = []
  for (const { title, commands } of groups) {
    const made = Object.entries(commands).map(async ([name, entry]) => {
      const make = await entry.load()
      return [`bellwether ${name}`, make(() => undefined)] as const
    })
    sections.push({ title, commands: await Promise.all(made) })
  }
  const users = new Map<string, Set<string>>()
  for (const { commands } of sections) for (const [path, command] of commands) countOptions(command, path, users)
  const shared = new Map([...users].filter(([, paths]) => paths.size >= sharedFrom))
  return page(
    '# Command reference',
    '',
    generated,
    '',
    'Every command, argument and option. [The command line](../cli.md) explains the rules that all commands share, with examples.',
    '',
    '## Options of many commands',
    '',
    '| option | meaning | default | commands |',
    '|---|---|---|---|',
    ...[...shared].map(([line, paths]) => `${line} ${families(paths)} |`),
    ...sections.flatMap(({ title, commands }) => [
      '',
      `## ${title}`,
      ...commands.flatMap(([path, command]) => describe(command, path, shared)),
    ]),
  )
}

function countOptions(command: Command, path: string, users: Map<string, Set<string>>): void {
  for (const option of command.options) {
    const line = optionLine(option)
    users.set(line, (users.get(line) ?? new Set()).add(path))
  }
  for (const verb of command.commands) countOptions(verb, `${path} ${verb.name()}`, users)
}

/** The commands of these paths, without their subcommands. */
const families = (paths: ReadonlySet<string>) =>
  [...new Set([...paths].map((path) => `\`${path.split(' ')[1]!}\``))].join(', ')

function describe(command: Command, path: string, shared: ReadonlyMap<string, unknown>): string[] {
  const takes = command.registeredArguments.map((argument) => {
    const name = argument.variadic ? `${argument.name()}…` : argument.name()
    return argument.required ? `<${name}>` : `[${name}]`
  })
  const usage = [path, ...takes, ...(command.options.length > 0 ? ['[options]'] : [])].join(' ')
  const lines = ['', `### ${path}`, '', sentence(command.description())]
  if (command.commands.length === 0 || command.options.length > 0) lines.push('', '```', usage, '```')
  const own = command.options.map(optionLine).filter((line) => !shared.has(line))
  if (own.length > 0) lines.push('', '| option | meaning | default |', '|---|---|---|', ...own)
  const others = command.options.filter((option) => shared.has(optionLine(option)))
  if (others.length > 0)
    lines.push('', `[Also](#options-of-many-commands) ${others.map(({ long }) => `\`${long}\``).join(', ')}.`)
  const examples = examplesOf(path.split(' ').slice(1).join(' '))
  if (examples.length > 0) lines.push('', '```sh norun: examples; a test parses them', ...examples, '```')
  for (const verb of command.commands) lines.push(...describe(verb, `${path} ${verb.name()}`, shared))
  return lines
}

function optionLine(option: Option): string {
  const fallback: unknown = option.defaultValue
  const isShown = fallback !== undefined && !(Array.isArray(fallback) && fallback.length === 0) && !option.negate
  const meaning = [option.description, ...(option.argChoices === undefined ? [] : [option.argChoices.join(', ')])]
  return `| \`${option.flags.replaceAll('|', '\\|')}\` | ${meaning.join(': ').replaceAll('|', '\\|')} | ${isShown ? `\`${JSON.stringify(fallback)}\`` : ''} |`
}

function sentence(text: string): string {
  return text === '' ? '' : `${text[0]!.toUpperCase()}${text.slice(1)}${text.endsWith('.') ? '' : '.'}`
}

/** docs/reference/cli.md: every command with its arguments and options, from the command definitions themselves. */
import { groups, type Make } from '../packages/bellwether/src/cli/commands.js'
import { generated, page } from './pages.js'

type Command = ReturnType<Make>
type Option = Command['options'][number]

export async function cliPage(): Promise<string> {
  const sections: string[] = []
  for (const group of groups) {
    sections.push('', `## ${group.title}`)
    for (const [name, entry] of Object.entries(group.commands)) {
      const make = await entry.load()
      sections.push(
        ...describe(
          make(() => undefined),
          `bellwether ${name}`,
        ),
      )
    }
  }
  return page(
    '# Command reference',
    '',
    generated,
    '',
    'Every command, argument and option. [The command line](../cli.md) explains the rules that all commands share, with examples.',
    ...sections,
  )
}

function describe(command: Command, path: string): string[] {
  const takes = command.registeredArguments.map((argument) => {
    const name = argument.variadic ? `${argument.name()}…` : argument.name()
    return argument.required ? `<${name}>` : `[${name}]`
  })
  const usage = [path, ...takes, ...(command.options.length > 0 ? ['[options]'] : [])].join(' ')
  const lines = ['', `### ${path}`, '', sentence(command.description())]
  if (command.commands.length === 0 || command.options.length > 0) lines.push('', '```', usage, '```')
  if (command.options.length > 0)
    lines.push('', '| option | meaning | default |', '|---|---|---|', ...command.options.map(optionLine))
  for (const verb of command.commands) lines.push(...describe(verb, `${path} ${verb.name()}`))
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

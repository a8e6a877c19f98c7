/**
 * Splits an agent file into front matter, between `---` lines (YAML) or `+++` lines (TOML), and text. Pure. Problems are values with
 * their line number.
 */
import { parse, TomlError } from 'smol-toml'
import { lineOf } from '../../settings/toml.js'
import { parseYaml, YamlProblem } from './yaml.js'

export type FrontMatter =
  | {
      readonly values: Readonly<Record<string, unknown>>
      readonly lineOf: (key: string) => number
      readonly body: string
    }
  | { readonly problem: { readonly line: number; readonly message: string } }

export function readFrontMatter(text: string): FrontMatter {
  const lines = text
    .replace(/^\uFEFF/, '')
    .replaceAll('\r\n', '\n')
    .split('\n')
  const mark = lines[0]?.trimEnd()
  if (mark !== '---' && mark !== '+++') {
    return { problem: { line: 1, message: 'an agent file must start with a line --- (YAML) or +++ (TOML)' } }
  }
  const end = lines.findIndex((line, index) => index > 0 && line.trimEnd() === mark)
  if (end === -1) return { problem: { line: 1, message: `the front matter has no closing ${mark}` } }
  const head = lines.slice(1, end).join('\n')
  const body = lines
    .slice(end + 1)
    .join('\n')
    .trim()
  return mark === '---' ? yaml(head, body) : toml(head, body)
}

function yaml(head: string, body: string): FrontMatter {
  try {
    const { values, lines } = parseYaml(head, 2)
    return { values, lineOf: (key) => nearestLine(lines, key), body }
  } catch (error) {
    if (!(error instanceof YamlProblem)) throw error
    return { problem: { line: error.line, message: error.message } }
  }
}

/** The line of the key, or of the closest key that contains it. */
function nearestLine(lines: ReadonlyMap<string, number>, key: string): number {
  const parts = key.split('.')
  for (let length = parts.length; length > 0; length -= 1) {
    const line = lines.get(parts.slice(0, length).join('.'))
    if (line !== undefined) return line
  }
  return 1
}

function toml(head: string, body: string): FrontMatter {
  try {
    return { values: parse(head), lineOf: (key) => (lineOf(head, key) ?? 0) + 1, body }
  } catch (error) {
    if (!(error instanceof TomlError)) throw error
    return { problem: { line: error.line + 1, message: `invalid TOML: ${error.message.split('\n')[0]}` } }
  }
}

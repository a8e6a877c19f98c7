/**
 * Parses TOML, and finds the line of a key in it, for error messages. The search scans tables, dotted and quoted keys, inline tables and multi-line
 * strings, without a full parser. If it cannot find the key it returns the line of the section, or none.
 */
import { createRequire } from 'node:module'
import { isDeeper } from '@bellwether/base'
import type * as toml from 'smol-toml'

// One file instead of eight modules, loaded only if there is a TOML file.
const loadToml = () => createRequire(import.meta.url)('smol-toml') as typeof toml

// Dotted keys nest without a limit of the parser; what walks or stores the values needs stack per level.
const levelsMax = 64

/** The values, or where and why the text is not TOML. */
export function parseToml(
  text: string,
): { readonly values: Record<string, unknown> } | { readonly line: number; readonly invalid: string } {
  const { parse, TomlError } = loadToml()
  try {
    const values = parse(text)
    const deep = Object.keys(values).find((key) => isDeeper(values[key], levelsMax))
    if (deep === undefined) return { values }
    return { line: lineOf(text, deep) ?? 1, invalid: `its values are nested more than ${levelsMax} levels deep` }
  } catch (error) {
    if (!(error instanceof TomlError)) throw error
    const [reason = ''] = error.message.replace(/^Invalid TOML document: /, '').split('\n')
    return { line: error.line, invalid: reason }
  }
}

const unquote = (part: string) => part.trim().replace(/^(["'])(.*)\1$/, '$2')
const pathOf = (text: string) => text.split('.').map(unquote).join('.')

interface KeyLine {
  readonly path: string
  readonly line: number
}

const tablePattern = /^\s*\[\[?([^\]]+)\]/
const keyPattern = /^\s*((?:"[^"]*"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[\w-]+))*)\s*=\s*(.*)$/

function* inlineKeys(table: string, value: string, line: number): Generator<KeyLine> {
  if (!value.startsWith('{')) return
  for (const match of value.matchAll(/[{,]\s*("[^"]*"|'[^']*'|[\w-]+)\s*=/g)) {
    yield { path: `${table}.${unquote(match[1] ?? '')}`, line }
  }
}

function* keyLines(text: string): Generator<KeyLine> {
  let table = ''
  let inString = false
  for (const [index, content] of text.split('\n').entries()) {
    const line = index + 1
    const quotes = content.match(/"""|'''/g)?.length ?? 0
    const wasInString = inString
    if (quotes % 2 === 1) inString = !inString
    if (wasInString) continue
    const header = tablePattern.exec(content)
    const key = keyPattern.exec(content)
    if (header !== null) {
      table = pathOf(header[1] ?? '')
      yield { path: table, line }
    } else if (key !== null) {
      const path = [table, pathOf(key[1] ?? '')].filter((part) => part !== '').join('.')
      yield { path, line }
      yield* inlineKeys(path, key[2] ?? '', line)
    }
  }
}

/** The 1-based line of `section.key`, or of its section; undefined if neither is found. */
export function lineOf(text: string, path: string): number | undefined {
  const all = [...keyLines(text)]
  const exact = all.find((one) => one.path === path)
  const inside = all.find((one) => one.path.startsWith(`${path}.`))
  const around = all.findLast((one) => path.startsWith(`${one.path}.`))
  return (exact ?? inside ?? around)?.line
}

/**
 * Loads the settings: defaults, then `bellwether.toml`, then `BELLWETHER__SECTION__KEY` variables. The result is complete and within
 * bounds; otherwise one error lists every problem with its file and line or its variable, and the nearest valid name. Values of
 * URLs and secrets never appear in an error.
 */
import { join } from 'node:path'
import { type Environment, errorMessage, hasCode, isObject } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { nearest, similar } from './nearest.js'
import { readRegularFile } from './regular-file.js'
import { accepts, settingRows, withDefaults, type SettingRow, type Settings } from './schema.js'
import { lineOf, parseToml } from './toml.js'

export const settingsFile = 'bellwether.toml'
const prefix = 'BELLWETHER__'

type Values = Record<string, Record<string, unknown>>

interface Collected {
  readonly values: Values
  readonly problems: string[]
}

const rows = new Map<string, SettingRow>(settingRows().map((row) => [`${row.section}.${row.key}`, row]))
const names = [...rows.keys()]
const sectionNames = new Set<string>([...rows.values()].map(({ section }) => section))
/** Settings that have another name now. */
const renamed: Readonly<Record<string, string>> = { 'board.alert_webhook_url': 'notify.webhook_url' }
const similarTo = (name: string) => renamed[name] ?? similar(name, names)

function adviceOn(section: string, name: string): string {
  const meant = similarTo(name)
  if (meant !== undefined) return `did you mean ${meant}?`
  const keys = [...rows.values()].flatMap((row) => (row.section === section ? [row.key] : []))
  return `[${section}] has ${keys.join(', ')}`
}

const toVariable = (name: string) => prefix + name.replace('.', '__').toUpperCase()

function expected(row: SettingRow): string {
  const article = row.type === 'integer' ? 'a whole number' : row.type === 'number' ? 'a number' : `a ${row.type}`
  if (row.type === 'boolean') return 'true or false'
  if (row.choices !== undefined) return `one of ${row.choices.join(', ')}`
  if (row.type === 'string' || row.min === undefined || row.max === undefined) return article
  return `${article} from ${row.min} to ${row.max}`
}

function show(row: SettingRow, value: unknown): string {
  if (/(?:url|secret|view_key)$/.test(row.key)) return 'another value'
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  if (typeof value === 'string') return JSON.stringify(value.slice(0, 80))
  return Array.isArray(value) ? 'a list' : 'a table or date'
}

function accept(into: Collected, row: SettingRow, value: unknown, where: string): void {
  if (accepts(row, value)) {
    const section = (into.values[row.section] ??= {})
    section[row.key] = value
  } else {
    into.problems.push(`${where}: ${row.section}.${row.key} must be ${expected(row)} (got ${show(row, value)})`)
  }
}

function readFile(path: string): string | undefined {
  try {
    return readRegularFile(path)
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined
    throw new InvalidInput(`Cannot read ${path}: ${errorMessage(error)}`, { code: 'settings_unreadable', cause: error })
  }
}

function parseFile(path: string, text: string, problems: string[]): Record<string, unknown> {
  const parsed = parseToml(text)
  if ('values' in parsed) return parsed.values
  problems.push(`${path}:${parsed.line}: invalid TOML: ${parsed.invalid}`)
  return {}
}

function collectFile(into: Collected, path: string): void {
  const text = readFile(path)
  if (text === undefined) return
  const location = (name: string) => {
    const line = lineOf(text, name)
    return line === undefined ? path : `${path}:${line}`
  }
  for (const [section, table] of Object.entries(parseFile(path, text, into.problems))) {
    if (!sectionNames.has(section)) {
      if (!isObject(table) || table instanceof Date) {
        const [inSection, key] = nearest(section, names)!.split('.')
        const problem = `"${section}" is in no section; did you mean "${key}" in section [${inSection}]?`
        into.problems.push(`${location(section)}: ${problem}`)
        continue
      }
      const meant = nearest(section, [...sectionNames])
      into.problems.push(`${location(section)}: unknown section [${section}]; did you mean [${meant}]?`)
    } else if (!isObject(table) || table instanceof Date) {
      into.problems.push(`${location(section)}: ${section} must be a section: write [${section}] and its keys below it`)
    } else {
      for (const [key, value] of Object.entries(table as Record<string, unknown>)) {
        const name = `${section}.${key}`
        const row = rows.get(name)
        if (row !== undefined) accept(into, row, value, location(name))
        else into.problems.push(`${location(name)}: unknown setting ${name}; ${adviceOn(section, name)}`)
      }
    }
  }
}

const numberPattern = /^[+-]?\d+(\.\d+)?(e[+-]?\d+)?$/i

/** Converts the text to the type of the setting. Text that does not fit is returned unchanged and fails validation. */
function coerce(row: SettingRow, text: string): unknown {
  const trimmed = text.trim()
  if (row.type === 'boolean') {
    if (/^(true|1|yes|on)$/i.test(trimmed)) return true
    if (/^(false|0|no|off)$/i.test(trimmed)) return false
  } else if (row.type !== 'string' && numberPattern.test(trimmed)) {
    return Number(trimmed)
  }
  return text
}

function collectEnvironment(into: Collected, env: Environment): void {
  for (const [variable, text] of Object.entries(env)) {
    if (!variable.startsWith(prefix) || text === undefined) continue
    const name = variable.slice(prefix.length).replace('__', '.').toLowerCase()
    const row = rows.get(name)
    if (row === undefined) {
      const meant = similarTo(name)
      const advice = meant === undefined ? 'its form is BELLWETHER__SECTION__KEY' : `did you mean ${toVariable(meant)}?`
      into.problems.push(`environment: unknown setting ${variable}; ${advice}`)
    } else if (text === '' && row.default === undefined) {
      // An empty variable unsets an optional setting.
      delete into.values[row.section]?.[row.key]
    } else {
      accept(into, row, coerce(row, text), `environment: ${variable}`)
    }
  }
}

export function loadSettings(options: { readonly folder: string; readonly env: Environment }): Settings {
  const collected: Collected = { values: {}, problems: [] }
  collectFile(collected, join(options.folder, settingsFile))
  collectEnvironment(collected, options.env)
  if (collected.problems.length > 0) {
    throw new InvalidInput(`Invalid settings (${collected.problems.length}):\n${collected.problems.join('\n')}`, {
      code: 'invalid_settings',
      hint: 'correct each line above; docs/reference/settings.md lists all settings',
    })
  }
  return withDefaults(collected.values)
}

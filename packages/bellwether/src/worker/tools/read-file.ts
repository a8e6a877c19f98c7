/**
 * Reads declaration files (`tools.json`, `mcp.json`): JSON with the line of every key, so that a problem has file, line and the
 * nearest key. What the values mean is left to the callers.
 */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { basename } from 'node:path'
import { errorMessage } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { z } from 'zod'
import { nearest } from '../../settings/nearest.js'
import { invalidValue } from '../roster/invalid-value.js'
import { parseYaml, YamlProblem } from '../roster/yaml.js'

export interface Declarations {
  readonly values: unknown
  /** `file:line` of a key, or of the closest key that contains it. */
  at(path: readonly PropertyKey[]): string
}

// Enough for several hundred tools with schemas; a larger file is the wrong one.
const fileMaxBytes = 1_048_576

/** Undefined if the file does not exist. */
export function readDeclarations(path: string): Declarations | undefined {
  if (!existsSync(path)) return undefined
  const file = basename(path)
  if (statSync(path).size > fileMaxBytes)
    throw new InvalidInput(`Cannot read ${file}: it is larger than ${fileMaxBytes} bytes`, { code: 'tools_file_bad' })
  const text = readFileSync(path, 'utf8')
  let values: unknown
  try {
    values = JSON.parse(text)
  } catch (error) {
    throw new InvalidInput(
      `Cannot read ${file}:${lineOfError(text, error)}: it is not valid JSON (${errorMessage(error)})`,
      { code: 'tools_file_bad', cause: error },
    )
  }
  const lines = linesOf(text)
  return {
    values,
    at(keys) {
      for (let length = keys.length; length > 0; length -= 1) {
        const line = lines.get(keys.slice(0, length).join('.'))
        if (line !== undefined) return `${file}:${line}`
      }
      return file
    },
  }
}

/** The problems of a value, one sentence each; `keys` are the known keys. */
export function problemsOf(
  error: z.ZodError,
  declarations: Declarations,
  above: readonly string[],
  keys: readonly string[],
): string[] {
  return error.issues.flatMap((issue) => {
    if (issue.code !== 'unrecognized_keys') {
      const path = [...above, ...issue.path]
      const { values } = declarations
      return [`${declarations.at(path)}: ${invalidValue(path.join('.'), { ...issue, path }, values)}`]
    }
    return issue.keys.map((key) => {
      const path = [...above, ...issue.path, key]
      const meant = issue.path.length === 0 ? nearest(key, keys) : undefined
      const hint = meant === undefined ? '. Remove it' : `. Did you mean "${meant}"?`
      return `${declarations.at(path)}: unknown key "${path.join('.')}"${hint}`
    })
  })
}

/** Nearly all JSON is YAML. If the YAML parser rejects it (tabs, depth), messages name only the file. */
function linesOf(text: string): ReadonlyMap<string, number> {
  try {
    return parseYaml(text.replaceAll('\t', ' ')).lines
  } catch (error) {
    if (!(error instanceof YamlProblem)) throw error
    return new Map()
  }
}

function lineOfError(text: string, error: unknown): number {
  const position = /position (\d+)/.exec(errorMessage(error))?.[1]
  return position === undefined ? 1 : text.slice(0, Number(position)).split('\n').length
}

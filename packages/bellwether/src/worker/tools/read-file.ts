/**
 * Declarations of tools in files: JSON, read with the line of every key, so that a mistake is told by file, line and the nearest
 * key. Reads; decides nothing about what the values mean.
 */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { basename } from 'node:path'
import { errorMessage } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { z } from 'zod'
import { nearest } from '../../settings/nearest.js'
import { parseYaml, YamlProblem } from '../roster/yaml.js'

export interface Declarations {
  readonly values: unknown
  /** `file:line`, of a key or of what it stands in. */
  at(path: readonly PropertyKey[]): string
}

// Some hundred tools with their schemas; more is the wrong file.
const fileMaxBytes = 1_048_576

/** Undefined: there is no such file. */
export function readDeclarations(path: string): Declarations | undefined {
  if (!existsSync(path)) return undefined
  const file = basename(path)
  if (statSync(path).size > fileMaxBytes)
    throw new InvalidInput(`${file} is larger than ${fileMaxBytes} bytes`, { code: 'tools_file_bad' })
  const text = readFileSync(path, 'utf8')
  let values: unknown
  try {
    values = JSON.parse(text)
  } catch (error) {
    throw new InvalidInput(`${file}:${lineOfError(text, error)}: this is not JSON: ${errorMessage(error)}`, {
      code: 'tools_file_bad',
      cause: error,
    })
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

/** What is wrong with a value, a sentence each; `keys` are the ones that could have been meant. */
export function problemsOf(
  error: z.ZodError,
  declarations: Declarations,
  above: readonly string[],
  keys: readonly string[],
): string[] {
  return error.issues.flatMap((issue) => {
    if (issue.code !== 'unrecognized_keys') {
      const name = [...above, ...issue.path].join('.')
      const message = issue.message.replace(/^Invalid input: /, '')
      return [`${declarations.at([...above, ...issue.path])}: ${name} cannot be used: ${message}`]
    }
    return issue.keys.map((key) => {
      const path = [...above, ...issue.path, key]
      const meant = issue.path.length === 0 ? nearest(key, keys) : undefined
      const hint = meant === undefined ? '' : `; did you mean ${meant}?`
      return `${declarations.at(path)}: there is no key ${path.join('.')}${hint}`
    })
  })
}

/** JSON is YAML, nearly: where the reader cannot follow (tabs, depth), messages name the file alone. */
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

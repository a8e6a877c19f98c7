/**
 * Reads declaration files (`tools.json`, `mcp.json`): JSON with the line of every key, so that a problem has file, line and the
 * nearest key. What the values mean is left to the callers.
 */
import { existsSync, statSync } from 'node:fs'
import { basename } from 'node:path'
import { errorMessage } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { z } from 'zod'
import { nearest } from '../../settings/nearest.js'
import { readRegularFile } from '../../settings/regular-file.js'
import { invalidValue } from '../roster/invalid-value.js'
import { parseYaml, YamlProblem } from '../roster/yaml.js'
import { ownName } from './names.js'
import type { HostedTool } from './tool.js'

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
  if (!statSync(path).isFile())
    throw new InvalidInput(`Cannot read ${file}: it is not a regular file`, { code: 'tools_file_bad' })
  const text = readRegularFile(path)
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

export interface DeclaredTools {
  readonly tools: readonly HostedTool[]
  readonly problems: readonly string[]
}

/** A kind of tools that a file declares. */
interface ToolKind<Shape extends z.ZodObject> {
  /** Of one declaration. */
  readonly shape: Shape
  /** The form of the file, for the hint of an error. */
  readonly form: string
  /** Throws InvalidInput if the declaration cannot work. */
  readonly tool: (name: string, declared: z.output<Shape>) => HostedTool
}

const fileShape = z.strictObject({ tools: z.record(z.string(), z.unknown()) })
// More tools mean that this is the wrong file.
const toolsMax = 500

/** Reads a file of tools of one kind. An invalid declaration is reported and skipped. Throws if the file itself is invalid. */
export function readTools<Shape extends z.ZodObject>(
  path: string,
  { shape, form, tool }: ToolKind<Shape>,
): DeclaredTools {
  const declarations = readDeclarations(path)
  if (declarations === undefined) return { tools: [], problems: [] }
  const file = fileShape.safeParse(declarations.values)
  if (!file.success) {
    throw new InvalidInput(problemsOf(file.error, declarations, [], ['tools']).join('; '), {
      code: 'tools_file_bad',
      hint: `use the form ${form}`,
    })
  }
  const tools: HostedTool[] = []
  const problems: string[] = []
  for (const [name, value] of Object.entries(file.data.tools).slice(0, toolsMax)) {
    const above = ['tools', name]
    const parsed = shape.safeParse(value)
    if (!parsed.success) {
      problems.push(...problemsOf(parsed.error, declarations, above, Object.keys(shape.shape)))
      continue
    }
    try {
      tools.push(tool(ownName(name), parsed.data))
    } catch (error) {
      if (!(error instanceof InvalidInput)) throw error
      const hint = error.hint === undefined ? '' : ` (${error.hint})`
      problems.push(`${declarations.at(above)}: tool "${name}" is invalid: ${error.message}${hint}`)
    }
  }
  return { tools, problems }
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

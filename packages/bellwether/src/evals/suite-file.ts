/**
 * Reads `evals/NAME.toml`. A problem names the file, the line, the key, what is expected and an example. The texts and trails that its cases
 * name are read here, so that a stored suite does not depend on the disk.
 */
import { basename } from 'node:path'
import { defined, errorMessage, isDeeper, objectOf, parseJson, valueAt } from '@bellwether/base'
import { isToken } from '@bellwether/protocol'
import {
  evalCheck,
  evalName,
  evalSuiteFile,
  trailDocument,
  type EvalDefinition,
  type EvalSuiteFile,
} from '@bellwether/protocol/http'
import type { z } from 'zod'
import { lineOf, parseToml } from '../settings/toml.js'
import { nearest } from '../settings/nearest.js'
import { checkSchema } from '../worker/tools/arguments.js'
import { patternProblem } from './checks.js'

export type ReadSuite = { readonly definition: EvalDefinition } | { readonly problems: readonly string[] }
/** The text of a file beside the suite, or why it cannot be read. */
export type ReadBeside = (path: string) => { readonly text: string } | { readonly problem: string }

const suiteExt = '.toml'
export const isSuiteFile = (file: string) => file.endsWith(suiteExt) && !file.startsWith('.')
export const suiteNameOf = (file: string) => basename(file, suiteExt)
/** The agent that runs a variant with its own instructions or model. */
const variantAgent = (suite: string, variant: string) => `eval-${suite}-${variant}`

const suiteMaxBytes = 1_048_576
// All cases together: a definition is stored with each of its runs.
const inputsMaxBytes = 8_388_608
const shownMax = 80
const problemsMax = 20
// More than those of any trail that was exported.
const trailLevels = 80

const keysByTable = (): Readonly<Record<string, readonly string[]>> => ({
  '': Object.keys(evalSuiteFile.shape),
  cases: Object.keys(evalSuiteFile.shape.cases.element.shape),
  variants: Object.keys(evalSuiteFile.shape.variants.element.shape),
  checks: Object.keys(evalCheck.shape),
  judge: ['agent', 'question'],
})

/** Without `beside`, the files of cases are not read. */
export function readSuiteFile(file: string, text: string, beside?: ReadBeside): ReadSuite {
  const name = evalName.safeParse(suiteNameOf(file))
  if (!name.success) return { problems: [`${file}: the name of the file ${name.error.issues[0]!.message}`] }
  if (Buffer.byteLength(text) > suiteMaxBytes)
    return { problems: [`${file}: the file is larger than ${suiteMaxBytes} bytes; move long instructions to files`] }
  const parsed = parseToml(text)
  if ('invalid' in parsed)
    return {
      problems: [
        `${file}:${parsed.line}: invalid TOML: ${parsed.invalid}. Write tables such as [[cases]] with name = "refund"`,
      ],
    }
  const read = evalSuiteFile.safeParse(parsed.values)
  const at = (path: readonly PropertyKey[]) => placeOf(file, text, path)
  if (!read.success)
    return {
      problems: read.error.issues.flatMap((issue) => problemsOf(issue, parsed.values, at)).slice(0, problemsMax),
    }
  return resolved(name.data, read.data, at, beside)
}

/** The checks of a file that is not valid as a whole, for the question whether a person trusts its commands. */
export function looseSuite(
  text: string,
): Pick<EvalDefinition, 'checks'> & { readonly cases: readonly Pick<EvalDefinition, 'checks'>[] } {
  const parsed = parseToml(text)
  const values = 'values' in parsed ? parsed.values : {}
  const checksIn = (value: unknown) =>
    (Array.isArray(value) ? value : []).flatMap((one) => {
      const read = evalCheck.safeParse(one)
      return read.success ? [read.data] : []
    })
  const cases = Array.isArray(values['cases']) ? values['cases'] : []
  return {
    checks: checksIn(values['checks']),
    cases: cases.map((one) => ({ checks: checksIn(objectOf(one)['checks']) })),
  }
}

type At = (path: readonly PropertyKey[]) => string

function resolved(suite: string, file: EvalSuiteFile, at: At, beside: ReadBeside | undefined): ReadSuite {
  const problems: string[] = []
  const add = (path: readonly PropertyKey[], problem: string) =>
    problems.push(`${at(path)}: "${shownPath(path)}": ${problem}`)
  const variants = file.variants.map(({ name, agent, instructions, model }, index) => {
    const own = instructions !== undefined || model !== undefined
    const shown = name ?? agent
    const runs = own ? variantAgent(suite, shown) : agent
    if (!evalName.safeParse(shown).success)
      add(['variants', index, 'name'], 'must be present: the name of the agent is too long for a variant')
    if (!isToken(runs)) add(['variants', index, 'name'], 'is too long together with the name of the suite')
    return { name: shown, agent, runs, instructions, model }
  })
  for (const [index, check] of file.checks.entries())
    checkProblems(check, (problem, key) => add(['checks', index, key], problem))
  let bytes = 0
  const cases = file.cases.map(({ name, instruction, file: path, turn, trail, checks }, index) => {
    for (const [nth, check] of checks.entries())
      checkProblems(check, (problem, key) => add(['cases', index, 'checks', nth, key], problem))
    const take = (key: 'file' | 'trail', from: string) => {
      if (beside === undefined) return undefined
      const found = beside(from)
      if ('text' in found) return found.text
      add(['cases', index, key], found.problem)
      return undefined
    }
    const text = path === undefined ? instruction : take('file', path)
    const cards =
      trail === undefined
        ? undefined
        : cardsOf(take('trail', trail), (problem) => add(['cases', index, 'trail'], problem))
    if (path !== undefined && text?.trim() === '')
      add(['cases', index, 'file'], 'the file is empty; write the instruction into it')
    bytes += Buffer.byteLength(text ?? '') + (cards === undefined ? 0 : Buffer.byteLength(JSON.stringify(cards)))
    return { name, instruction: text, turn, ...defined({ cards }), checks }
  })
  if (bytes > inputsMaxBytes)
    add(['cases'], `their inputs have ${bytes} bytes, the limit is ${inputsMaxBytes}; split the suite`)
  if (file.checks.length === 0 && cases.every(({ checks }) => checks.length === 0))
    add(
      ['checks'],
      'must have at least one check, for all cases or for one, for example [[checks]] with contains = "30 days"',
    )
  return problems.length > 0
    ? { problems: problems.slice(0, problemsMax) }
    : { definition: { ...file, variants, cases } }
}

function checkProblems(check: EvalSuiteFile['checks'][number], add: (problem: string, key: string) => void): void {
  const { matches, json_schema: schema } = check
  const problem = matches === undefined ? undefined : patternProblem(matches)
  if (problem !== undefined) add(`must be a regular expression: ${problem}`, 'matches')
  if (schema === undefined) return
  try {
    checkSchema(schema)
  } catch (error) {
    add(`must be a JSON schema of an object: ${errorMessage(error)}`, 'json_schema')
  }
}

function cardsOf(text: string | undefined, add: (problem: string) => void) {
  if (text === undefined) return undefined
  const document = parseJson(text)
  if (isDeeper(document, trailLevels)) {
    add(`must be a trail that \`bellwether turn export\` wrote (it has more than ${trailLevels} levels)`)
    return undefined
  }
  const read = trailDocument.safeParse(document)
  if (!read.success) {
    const [issue] = read.error.issues
    add(
      `must be a trail that \`bellwether turn export\` wrote (${issue!.path.join('.') || 'the document'}: ${issue!.message})`,
    )
    return undefined
  }
  if (read.data.context.length === 0) add('has no input: the turn had an empty context; choose another trail')
  return read.data.context.map(({ type, role, content, metadata }) => ({ type, role, content, metadata }))
}

const shownPath = (path: readonly PropertyKey[]) => path.map(String).join('.')

/** The line of the key in the right one of several tables `[[cases]]`. */
function placeOf(file: string, text: string, path: readonly PropertyKey[]): string {
  const [table, index, ...rest] = path
  if (typeof index !== 'number') {
    const line = lineOf(text, shownPath(path))
    return line === undefined ? file : `${file}:${line}`
  }
  const lines = text.split('\n')
  const starts = lines.flatMap((line, at) =>
    new RegExp(`^\\s*\\[\\[\\s*${String(table)}\\s*\\]\\]`).test(line) ? [at] : [],
  )
  const from = starts[index]
  if (from === undefined) return file
  const key = rest.findLast((part) => typeof part === 'string')
  const to = starts[index + 1] ?? lines.length
  const inside = lines
    .slice(from, to)
    .findIndex((line) => key !== undefined && new RegExp(`^\\s*${key}\\s*=`).test(line))
  return `${file}:${from + Math.max(inside, 0) + 1}`
}

function problemsOf(issue: z.core.$ZodIssue, values: unknown, at: At): string[] {
  const path = issue.path
  if (issue.code === 'unrecognized_keys') {
    const table = path.findLast((part) => typeof part === 'string')
    return issue.keys.map((key) => {
      const keysOf = keysByTable()
      const meant = nearest(key, keysOf[table ?? ''] ?? keysOf['']!)
      return `${at([...path, key])}: unknown key "${shownPath([...path, key])}"; did you mean "${meant}"?`
    })
  }
  const value = valueAt(values, path)
  const rule = issue.message.replace(/^Invalid (?:input|option): /, '')
  const found =
    value === undefined || typeof value === 'object' ? '' : ` (got ${JSON.stringify(value).slice(0, shownMax)})`
  return [`${at(path)}: "${shownPath(path)}": ${rule}${found}`]
}

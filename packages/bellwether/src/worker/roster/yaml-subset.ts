/**
 * Reads the part of YAML that front matter needs: scalars, lists of scalars, and one level of nesting. Pure and strict: whatever
 * else YAML allows (anchors, tags, block texts, flow maps, deeper nesting) is refused by line and in words, never guessed at.
 */
export type Scalar = string | number | boolean | null
export type Value = Scalar | readonly Scalar[] | Readonly<Record<string, Scalar | readonly Scalar[]>>

export interface Parsed {
  readonly values: Readonly<Record<string, Value>>
  /** The line of each key, `budget.max_tokens` included. */
  readonly lines: ReadonlyMap<string, number>
}

/** Says the line and what is wrong with it. */
export class YamlProblem extends Error {
  constructor(
    readonly line: number,
    message: string,
  ) {
    super(message)
    this.name = 'YamlProblem'
  }
}

interface Line {
  readonly number: number
  readonly indent: number
  readonly text: string
}

const keyPattern = /^([A-Za-z_][\w-]*)[ ]*:(?:[ ]+(.*))?$/
const quoteHint = 'write it in quotes if it is meant as text'

/** `firstLine`: the number of the text's first line in its file. */
export function parseYaml(text: string, firstLine = 1): Parsed {
  const lines = significant(text, firstLine)
  const values: Record<string, Value> = {}
  const places = new Map<string, number>()
  let at = 0
  while (at < lines.length) {
    const line = lines[at]!
    if (line.indent > 0) throw new YamlProblem(line.number, 'this line is indented, but no key above it can hold it')
    const { key, rest } = keyOf(line)
    put(places, key, line)
    at += 1
    if (rest !== undefined) {
      values[key] = valueOf(rest, line)
      continue
    }
    const from = at
    // A list may stand at the same indent as its key.
    while (at < lines.length && (lines[at]!.indent > 0 || isItem(lines[at]!))) at += 1
    const block = lines.slice(from, at)
    values[key] = block.length === 0 ? null : isItem(block[0]!) ? listOf(block) : mapOf(block, key, places)
  }
  return { values, lines: places }
}

function significant(text: string, firstLine: number): Line[] {
  const found: Line[] = []
  for (const [index, raw] of text.split('\n').entries()) {
    const number = firstLine + index
    const line = raw.replace(/\r$/, '').trimEnd()
    if (line.trim() === '' || line.trimStart().startsWith('#')) continue
    const body = line.trimStart()
    const indent = line.length - body.length
    if (line.slice(0, indent).includes('\t')) throw new YamlProblem(number, 'tabs cannot indent: use spaces')
    found.push({ number, indent, text: body })
  }
  return found
}

const isItem = (line: Line) => line.text === '-' || line.text.startsWith('- ')

function keyOf(line: Line): { key: string; rest: string | undefined } {
  const match = keyPattern.exec(line.text)
  if (match === null) throw new YamlProblem(line.number, `${shown(line.text)} is not of the form "key: value"`)
  // JavaScript would take it for something else than a key.
  if (match[1] === '__proto__') throw new YamlProblem(line.number, 'there is no key __proto__')
  const rest = match[2]?.trim()
  return { key: match[1]!, rest: rest === undefined || rest === '' || rest.startsWith('#') ? undefined : rest }
}

function put(places: Map<string, number>, key: string, line: Line): void {
  const before = places.get(key)
  if (before !== undefined) throw new YamlProblem(line.number, `${key} is given twice, first in line ${before}`)
  places.set(key, line.number)
}

function listOf(block: readonly Line[]): Scalar[] {
  const indent = block[0]!.indent
  return block.map((line) => {
    if (!isItem(line) || line.indent !== indent)
      throw new YamlProblem(line.number, 'a list holds lines of the form "- value", all at the same indent')
    const rest = line.text.slice(1).trim()
    if (keyPattern.test(rest) || rest.startsWith('- ') || rest.startsWith('['))
      throw new YamlProblem(line.number, `a list holds single values only; ${quoteHint}`)
    return scalarOf(rest, line)
  })
}

function mapOf(block: readonly Line[], parent: string, places: Map<string, number>): Record<string, Scalar | Scalar[]> {
  const indent = block[0]!.indent
  const values: Record<string, Scalar | Scalar[]> = {}
  for (const line of block) {
    if (line.indent !== indent || isItem(line))
      throw new YamlProblem(line.number, `${parent} holds "key: value" lines, all at the same indent and no deeper`)
    const { key, rest } = keyOf(line)
    put(places, `${parent}.${key}`, line)
    if (rest === undefined) throw new YamlProblem(line.number, `${parent}.${key} has no value: nesting ends here`)
    values[key] = valueOf(rest, line)
  }
  return values
}

function valueOf(text: string, line: Line): Scalar | Scalar[] {
  if (!text.startsWith('[')) return scalarOf(text, line)
  const bare = text.replace(/\][ ]+#.*$/, ']')
  if (!bare.endsWith(']')) throw new YamlProblem(line.number, 'a list in brackets ends on its own line')
  return splitItems(bare.slice(1, -1), line).map((item) => scalarOf(item, line))
}

/** At commas that stand outside quotes. */
function splitItems(text: string, line: Line): string[] {
  const items: string[] = []
  let rest = text.trim()
  while (rest !== '') {
    const match = /^("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^,'"[\]{}][^,[\]{}]*)\s*(,|$)\s*/.exec(rest)
    if (match === null) throw new YamlProblem(line.number, `the list cannot be read at ${shown(rest)}; ${quoteHint}`)
    items.push(match[1]!.trim())
    rest = rest.slice(match[0].length)
  }
  return items
}

function scalarOf(text: string, line: Line): Scalar {
  const refuse = (what: string) => new YamlProblem(line.number, `${what}; ${quoteHint}`)
  if (text.startsWith('"')) {
    const match = /^("(?:[^"\\]|\\.)*")(?:\s+#.*)?$/.exec(text)
    try {
      if (match !== null) return JSON.parse(match[1]!) as string
    } catch {
      throw refuse(`${shown(text)} has an escape that is not known`)
    }
    throw refuse(`${shown(text)} has no closing quote`)
  }
  if (text.startsWith("'")) {
    const match = /^'((?:[^']|'')*)'(?:\s+#.*)?$/.exec(text)
    if (match === null) throw refuse(`${shown(text)} has no closing quote`)
    return match[1]!.replaceAll("''", "'")
  }
  const bare = text.replace(/\s+#.*$/, '')
  if (/^[|>]/.test(bare))
    throw refuse('texts of several lines (| and >) are not read here: they belong below the front matter')
  if (/^[&*!%@`{}[\],?]/.test(bare) || bare === '-')
    throw refuse(`${shown(bare)} begins with a sign that means something in YAML`)
  if (/:(\s|$)/.test(bare)) throw refuse(`${shown(bare)} has a colon that YAML would read as a key`)
  if (bare === 'true' || bare === 'false') return bare === 'true'
  if (bare === 'null' || bare === '~' || bare === '') return null
  return /^[+-]?(\d+(\.\d+)?|\.\d+)(e[+-]?\d+)?$/i.test(bare) ? Number(bare) : bare
}

const shown = (text: string) => JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text)

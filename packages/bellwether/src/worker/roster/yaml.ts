/**
 * YAML as front matter may use it: plain data with the line of every key. Pure. Always: no anchors, aliases or tags, so that a
 * text means what it shows and cannot grow when it is read; keys are texts and stand once; problems are told by line.
 */
import { isAlias, isMap, isNode, isScalar, LineCounter, parseDocument, visit, type Document } from 'yaml'

export interface Parsed {
  readonly values: Readonly<Record<string, unknown>>
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

// Deeper than any settings are; the library's own recursion needs no more.
const depthMax = 20

/** `firstLine`: the number of the text's first line in its file. */
export function parseYaml(text: string, firstLine = 1): Parsed {
  const counter = new LineCounter()
  const lineAt = (offset: number) => Math.max(1, counter.linePos(offset).line) + firstLine - 1
  const document = documentOf(text, counter, firstLine)
  const [error] = [...document.errors, ...document.warnings]
  if (error !== undefined) throw new YamlProblem(lineAt(error.pos[0]), inWords(error, text))
  const { contents } = document
  if (contents === null || (isScalar(contents) && contents.value === null)) return { values: {}, lines: new Map() }
  if (!isMap(contents)) throw new YamlProblem(firstLine, 'front matter is lines of the form "key: value"')
  const lines = new Map<string, number>()
  check(document, lineAt, lines)
  return { values: document.toJS({ maxAliasCount: 0 }) as Record<string, unknown>, lines }
}

function documentOf(text: string, lineCounter: LineCounter, firstLine: number): Document.Parsed {
  try {
    return parseDocument(text, {
      version: '1.2',
      schema: 'core',
      merge: false,
      stringKeys: true,
      uniqueKeys: true,
      strict: true,
      prettyErrors: false,
      logLevel: 'error',
      lineCounter,
    })
  } catch (error) {
    // Brackets by the thousand: the parser runs out of stack.
    if (error instanceof RangeError) throw new YamlProblem(firstLine, tooDeep)
    throw error
  }
}

const tooDeep = `it is nested more than ${depthMax} levels deep`

/** Refuses what is not plain data, and notes where each key stands. */
function check(document: Document.Parsed, lineAt: (offset: number) => number, lines: Map<string, number>): void {
  visit(document, {
    Node(_key, node, path) {
      const line = lineAt(isNode(node) ? (node.range?.[0] ?? 0) : 0)
      if (path.length > depthMax * 2) throw new YamlProblem(line, tooDeep)
      if (isAlias(node) || ('anchor' in node && node.anchor !== undefined))
        throw new YamlProblem(line, 'anchors and aliases (& and *) are not read here: write it in quotes if it is text')
      if (node.tag !== undefined)
        throw new YamlProblem(line, `the tag ${node.tag} is not read here: write it in quotes if it is text`)
    },
    Pair(_key, pair, path) {
      if (!isScalar(pair.key)) return
      const name = String(pair.key.value)
      const line = lineAt(pair.key.range?.[0] ?? 0)
      // JavaScript would take it for something else than a key.
      if (name === '__proto__') throw new YamlProblem(line, 'there is no key __proto__')
      const above = path.flatMap((one) => ('key' in one && isScalar(one.key) ? [String(one.key.value)] : []))
      lines.set([...above, name].join('.'), line)
    },
  })
}

function inWords(
  error: { readonly code: string; readonly message: string; readonly pos: readonly number[] },
  text: string,
) {
  const [from = 0, to = from] = error.pos
  const found = text.slice(from, Math.max(to, from + 1)).split('\n')[0] ?? ''
  if (error.code === 'DUPLICATE_KEY') return `${/^[^\s:]+/.exec(text.slice(from))?.[0] ?? found} is given twice`
  return `this is not YAML as it is read here: ${error.message}${found.trim() === '' ? '' : ` (at ${JSON.stringify(found.slice(0, 60))})`}`
}

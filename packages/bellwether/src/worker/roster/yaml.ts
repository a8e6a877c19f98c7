/**
 * Parses the YAML of front matter: plain data, with the line of every key. Pure. Anchors, aliases and tags are rejected, so that the
 * data cannot be larger than the text; keys are unique strings; problems have a line number.
 */
import { isAlias, isMap, isNode, isScalar, LineCounter, parseDocument, visit, type Document } from 'yaml'

export interface Parsed {
  readonly values: Readonly<Record<string, unknown>>
  /** The line of each key, `budget.max_tokens` included. */
  readonly lines: ReadonlyMap<string, number>
}

/** A problem of the YAML text, with its line. */
export class YamlProblem extends Error {
  constructor(
    readonly line: number,
    message: string,
  ) {
    super(message)
    this.name = 'YamlProblem'
  }
}

// Deeper than any front matter needs.
const depthMax = 20

/** `firstLine` is the line number of the text's first line in its file. */
export function parseYaml(text: string, firstLine = 1): Parsed {
  const counter = new LineCounter()
  const lineAt = (offset: number) => Math.max(1, counter.linePos(offset).line) + firstLine - 1
  const document = documentOf(text, counter, firstLine)
  const [error] = [...document.errors, ...document.warnings]
  if (error !== undefined) throw new YamlProblem(lineAt(error.pos[0]), messageOf(error, text))
  const { contents } = document
  if (contents === null || (isScalar(contents) && contents.value === null)) return { values: {}, lines: new Map() }
  if (!isMap(contents)) throw new YamlProblem(firstLine, 'front matter must consist of lines "key: value"')
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
    // Thousands of nested brackets overflow the parser's stack.
    if (error instanceof RangeError) throw new YamlProblem(firstLine, tooDeep)
    throw error
  }
}

const tooDeep = `the data is nested more than ${depthMax} levels deep`

/** Rejects everything but plain data, and records the line of each key. */
function check(document: Document.Parsed, lineAt: (offset: number) => number, lines: Map<string, number>): void {
  visit(document, {
    Node(_key, node, path) {
      const line = lineAt(isNode(node) ? (node.range?.[0] ?? 0) : 0)
      if (path.length > depthMax * 2) throw new YamlProblem(line, tooDeep)
      if (isAlias(node) || ('anchor' in node && node.anchor !== undefined))
        throw new YamlProblem(
          line,
          'anchors and aliases (& and *) are not supported. Put the value in quotes if it is text',
        )
      if (node.tag !== undefined)
        throw new YamlProblem(line, `the tag ${node.tag} is not supported. Put the value in quotes if it is text`)
    },
    Pair(_key, pair, path) {
      if (!isScalar(pair.key)) return
      const name = String(pair.key.value)
      const line = lineAt(pair.key.range?.[0] ?? 0)
      // In JavaScript, this key would set the object's prototype.
      if (name === '__proto__') throw new YamlProblem(line, 'unknown key "__proto__"')
      const above = path.flatMap((one) => ('key' in one && isScalar(one.key) ? [String(one.key.value)] : []))
      lines.set([...above, name].join('.'), line)
    },
  })
}

function messageOf(
  error: { readonly code: string; readonly message: string; readonly pos: readonly number[] },
  text: string,
) {
  const [from = 0, to = from] = error.pos
  const found = text.slice(from, Math.max(to, from + 1)).split('\n')[0] ?? ''
  if (error.code === 'DUPLICATE_KEY') return `${/^[^\s:]+/.exec(text.slice(from))?.[0] ?? found} is defined twice`
  return `invalid YAML: ${error.message}${found.trim() === '' ? '' : ` (at ${JSON.stringify(found.slice(0, 60))})`}`
}

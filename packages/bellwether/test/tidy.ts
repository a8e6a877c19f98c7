/**
 * Applies style rules that a compiler cannot know to the text of a file. A rule sees the text without comments, the code
 * without comments and strings, the comments alone, or the strings alone; blanked parts keep their length, so line numbers
 * stay right. tidy.test.ts reads the files.
 */
export interface SourceFile {
  /** From the root of the repository, with forward slashes. */
  readonly path: string
  readonly text: string
}

export interface Offence {
  readonly path: string
  readonly line: number
  readonly rule: string
  readonly found: string
}

export interface Views {
  /** Comments blanked. */
  readonly text: string
  /** Comments and the insides of strings, templates and regular expressions blanked. */
  readonly code: string
  /** Everything but comments blanked. */
  readonly comments: string
  readonly strings: readonly { readonly at: number; readonly value: string }[]
}

export interface Rule {
  readonly name: string
  /** Completes the sentence "it keeps …" in a test title. */
  readonly protects: string
  applies(path: string): boolean
  find(views: Views, file: SourceFile): Iterable<Finding>
}

interface Finding {
  readonly at: number
  readonly found: string
}

export const blank = (text: string) => text.replace(/[^\n]/g, ' ')
// A slash after one of these begins a regular expression; after a name, a number or a closing bracket it divides.
const beforeRegExp = /(?:^|[=(,:;!&|?{}[+\-*%<>~^]|\b(?:return|typeof|case|in|of|do|else|void|delete|await|yield))\s*$/

/** A small lexer for TypeScript: enough to tell comments, strings, templates and regular expressions from code. */
export function viewTypeScript(source: string): Views {
  let text = ''
  let code = ''
  let comments = ''
  const strings: { at: number; value: string }[] = []
  /** For each template being read: how many braces are open inside its current `${…}`. */
  const templates: number[] = []
  let at = 0

  const take = (length: number, kind: 'code' | 'comment' | 'string') => {
    const piece = source.slice(at, at + length)
    text += kind === 'comment' ? blank(piece) : piece
    code += kind === 'code' ? piece : blank(piece)
    comments += kind === 'comment' ? piece : blank(piece)
    at += length
  }
  const match = (pattern: RegExp) => {
    pattern.lastIndex = at
    return pattern.exec(source)?.[0]
  }
  const template = () => {
    const inside = match(/(?:\\[^]|\$(?!\{)|[^\\`$])*/y) ?? ''
    strings.push({ at, value: inside })
    take(inside.length, 'string')
    if (source.startsWith('${', at)) {
      templates.push(0)
      take(2, 'code')
    } else take(1, 'code')
  }

  while (at < source.length) {
    const comment = match(/\/\/[^\n]*|\/\*[^]*?(?:\*\/|$)/y)
    const quoted = match(/'(?:\\[^]|[^\\'\n])*'?|"(?:\\[^]|[^\\"\n])*"?/y)
    if (comment !== undefined) take(comment.length, 'comment')
    else if (quoted !== undefined) {
      strings.push({ at, value: quoted.slice(1, -1) })
      take(1, 'code')
      take(Math.max(0, quoted.length - 2), 'string')
      if (quoted.length > 1) take(1, 'code')
    } else if (source[at] === '`') {
      take(1, 'code')
      template()
    } else if (source[at] === '/' && beforeRegExp.test(code.slice(-40))) {
      const pattern = match(/\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\[\n])+\/[a-z]*/y) ?? '/'
      take(pattern.length, 'string')
    } else {
      const open = templates.length - 1
      if (source[at] === '{' && open >= 0) templates[open]! += 1
      if (source[at] === '}' && open >= 0) {
        if (templates[open] === 0) {
          templates.pop()
          take(1, 'code')
          template()
          continue
        }
        templates[open]! -= 1
      }
      take(1, 'code')
    }
  }
  return { text, code, comments, strings }
}

/** SQL keeps its strings: function bodies are strings to PostgreSQL and code to us. */
export function viewSql(source: string): Views {
  const pattern = /--[^\n]*|\/\*[^]*?(?:\*\/|$)/g
  const text = source.replace(pattern, blank)
  const comments = source.replace(/[^]/g, (letter, at: number) =>
    text[at] === letter ? (letter === '\n' ? letter : ' ') : letter,
  )
  return { text, code: text, comments, strings: [] }
}

const viewProse = (source: string): Views => ({ text: source, code: '', comments: source, strings: [] })

function viewsOf({ path, text }: SourceFile): Views {
  if (path.endsWith('.sql')) return viewSql(text)
  return /\.(?:tsx?|mjs)$/.test(path) ? viewTypeScript(text) : viewProse(text)
}

export function scan(file: SourceFile, rules: readonly Rule[]): Offence[] {
  const relevant = rules.filter((rule) => rule.applies(file.path))
  if (relevant.length === 0) return []
  const views = viewsOf(file)
  return relevant.flatMap((rule) =>
    [...rule.find(views, file)].map(({ at, found }) => {
      const line = file.text.slice(0, at).split('\n').length
      return { path: file.path, line, rule: rule.name, found: found.trim().replace(/\s+/g, ' ') }
    }),
  )
}

export function* matches(text: string, pattern: RegExp): Iterable<Finding> {
  for (const found of text.matchAll(pattern)) yield { at: found.index, found: found[0] }
}

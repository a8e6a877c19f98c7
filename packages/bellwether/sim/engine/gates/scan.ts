/**
 * Splits a PL/pgSQL body into tokens, so that the instrumenter does not mistake a word inside a string, a comment or a quoted name for a keyword.
 * Tokens keep their position in the source; whitespace and comments are dropped.
 */
export interface Token {
  readonly kind: 'word' | 'literal' | 'mark'
  /** Words in lower case; marks as written; literals (strings, quoted names, numbers) are never compared. */
  readonly text: string
  readonly start: number
  readonly end: number
}

// A word may contain digits and `$` after its first letter, so `a$1` is one word and not a dollar quote.
const patterns: readonly (readonly [Token['kind'] | 'skip', RegExp])[] = [
  ['skip', /\s+|--[^\n]*/y],
  ['literal', /[eE]'(?:[^'\\]|''|\\[\s\S])*'/y],
  ['literal', /(?:[uU]&|[bBxXnN])?'(?:[^']|'')*'/y],
  ['literal', /(?:[uU]&)?"(?:[^"]|"")*"/y],
  ['literal', /\$([\p{L}_][\p{L}\p{N}_]*)?\$[\s\S]*?\$\1\$/uy],
  ['literal', /\$?\d[\w.]*?(?=\.\.|[^\w.]|$)/y],
  ['word', /[\p{L}_][\p{L}\p{N}_$]*/uy],
  ['mark', /:=|<<|>>|\.\.|::|[\s\S]/y],
]

export function scan(source: string): Token[] {
  const tokens: Token[] = []
  let at = 0
  while (at < source.length) {
    if (source.startsWith('/*', at)) {
      at = commentEnd(source, at)
      continue
    }
    for (const [kind, pattern] of patterns) {
      pattern.lastIndex = at
      const found = pattern.exec(source)?.[0]
      if (found === undefined || found === '') continue
      if (kind !== 'skip') {
        tokens.push({ kind, text: kind === 'word' ? found.toLowerCase() : found, start: at, end: at + found.length })
      }
      at += found.length
      break
    }
  }
  return tokens
}

/** Block comments nest in PostgreSQL, which a regular expression cannot match. */
function commentEnd(source: string, start: number): number {
  let depth = 0
  let at = start
  do {
    if (source.startsWith('/*', at)) {
      depth += 1
      at += 2
    } else if (source.startsWith('*/', at)) {
      depth -= 1
      at += 2
    } else {
      at += 1
    }
  } while (depth > 0 && at < source.length)
  return at
}

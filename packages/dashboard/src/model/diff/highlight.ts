/**
 * Colours a line of code: comments, strings, numbers and keywords, by the name of the file. Pure and line by line, so that a part of a file is
 * enough; a text that spans several lines is coloured as code. Loaded with the first diff.
 */
export interface Token {
  readonly kind: 'comment' | 'text' | 'number' | 'word' | 'plain'
  readonly text: string
}

interface Language {
  /** Matches a comment to the end of the line, or one that is closed in it. */
  readonly comment: string
  readonly words: ReadonlySet<string>
}

const wordsOf = (list: string): ReadonlySet<string> => new Set(list.split(' '))

const cLike: Language = {
  comment: String.raw`\/\/.*|\/\*.*?(?:\*\/|$)|^\s*\*(?:\s.*)?$`,
  words: wordsOf(
    'abstract as async await bool boolean break case catch char class const constexpr continue crate debugger default defer delete do double else enum export extends extern false final finally float fn for from func function go goto if impl implements import in instanceof int interface internal is let long loop match mod module mut namespace new nil null nullptr of override package private protected pub public range readonly return satisfies select self short signed sizeof static string struct super switch template this throw throws trait true try type typedef typeof undefined union unsafe unsigned use using var virtual void volatile where while with yield',
  ),
}
const hash: Language = {
  comment: String.raw`#.*`,
  words: wordsOf(
    'and as assert async await begin break case class continue def del do done elif else elsif end ensure esac except export false False fi finally fn for from function global if import in is lambda local module next nil None nonlocal not null or pass raise require rescue return self set then true True try unless until when while with yield',
  ),
}
const sql: Language = {
  comment: String.raw`--.*|\/\*.*?(?:\*\/|$)`,
  words: wordsOf(
    'add all alter and any array as asc begin between by case cascade check column commit constraint create cross declare default delete desc distinct do drop else end except exists false foreign from full function group having if in index inner insert intersect into is join key language lateral left like limit not null of offset on or order outer primary raise references replace return returning returns right rollback row select set setof table then to trigger true union unique update using values view when where with',
  ),
}
const styles: Language = { comment: String.raw`\/\*.*?(?:\*\/|$)`, words: wordsOf('important from to') }
const data: Language = { comment: String.raw`\/\/.*`, words: wordsOf('true false null') }

const languages: readonly (readonly [Language, string])[] = [
  [cLike, 'ts tsx mts cts js jsx mjs cjs java c h cc cpp hpp cs go rs kt kts swift scala php dart zig proto'],
  [hash, 'py rb sh bash zsh yaml yml toml ini conf cfg dockerfile makefile mk r pl ex exs nix tf'],
  [sql, 'sql'],
  [styles, 'css scss less'],
  [data, 'json jsonc json5 jsonl'],
]
const byExtension = new Map(
  languages.flatMap(([language, names]) => names.split(' ').map((name) => [name, language] as const)),
)

/** Undefined: the lines of this file have no colours. */
export function highlighterFor(path: string): ((line: string) => readonly Token[]) | undefined {
  const name = path.slice(path.lastIndexOf('/') + 1).toLowerCase()
  const language = byExtension.get(name.slice(name.lastIndexOf('.') + 1))
  if (language === undefined) return undefined
  const { comment, words } = language
  const text = String.raw`"(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'?|\`(?:\\.|[^\`\\])*\`?`
  const number = String.raw`\b\d[\w.]*`
  const pattern = new RegExp(
    `(?<comment>${comment})|(?<text>${text})|(?<number>${number})|(?<word>[A-Za-z_$][\\w$]*)`,
    'g',
  )
  const isWord = (word: string) => words.has(word) || (language === sql && words.has(word.toLowerCase()))
  return (line) => {
    // A generated line may be very long, and no one reads its colours.
    if (line.length > lineMax) return [{ kind: 'plain', text: line }]
    const tokens: Token[] = []
    let from = 0
    for (const found of line.matchAll(pattern)) {
      const { comment: note, text: quoted, number: digits } = found.groups!
      const kind =
        note !== undefined ? 'comment' : quoted !== undefined ? 'text' : digits !== undefined ? 'number' : 'word'
      if (kind === 'word' && !isWord(found[0])) continue
      if (found.index > from) tokens.push({ kind: 'plain', text: line.slice(from, found.index) })
      tokens.push({ kind, text: found[0] })
      from = found.index + found[0].length
    }
    if (from < line.length) tokens.push({ kind: 'plain', text: line.slice(from) })
    return tokens
  }
}

const lineMax = 2_000

/**
 * Finds the line on which a key of a TOML text is written, for error messages. A scan, not a parser: it knows tables,
 * dotted and quoted keys, inline tables and multi-line strings; where it is in doubt it names the section's line, or none.
 */
const unquote = (part: string) => part.trim().replace(/^(["'])(.*)\1$/, '$2')
const pathOf = (text: string) => text.split('.').map(unquote).join('.')

interface Written {
  readonly path: string
  readonly line: number
}

const tablePattern = /^\s*\[\[?\s*([^\]]+?)\s*\]\]?/
const keyPattern = /^\s*((?:"[^"]*"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[\w-]+))*)\s*=\s*(.*)$/

function* inlineKeys(table: string, value: string, line: number): Generator<Written> {
  if (!value.startsWith('{')) return
  for (const match of value.matchAll(/[{,]\s*("[^"]*"|'[^']*'|[\w-]+)\s*=/g)) {
    yield { path: `${table}.${unquote(match[1] ?? '')}`, line }
  }
}

function* written(text: string): Generator<Written> {
  let table = ''
  let inString = false
  for (const [index, content] of text.split('\n').entries()) {
    const line = index + 1
    const quotes = content.match(/"""|'''/g)?.length ?? 0
    const wasInString = inString
    if (quotes % 2 === 1) inString = !inString
    if (wasInString) continue
    const header = tablePattern.exec(content)
    const key = keyPattern.exec(content)
    if (header !== null) {
      table = pathOf(header[1] ?? '')
      yield { path: table, line }
    } else if (key !== null) {
      const path = [table, pathOf(key[1] ?? '')].filter((part) => part !== '').join('.')
      yield { path, line }
      yield* inlineKeys(path, key[2] ?? '', line)
    }
  }
}

/** The 1-based line of `section.key`, or of what it stands in; undefined when neither is found. */
export function lineOf(text: string, path: string): number | undefined {
  const all = [...written(text)]
  const exact = all.find((one) => one.path === path)
  const inside = all.find((one) => one.path.startsWith(`${path}.`))
  const around = all.findLast((one) => path.startsWith(`${one.path}.`))
  return (exact ?? inside ?? around)?.line
}

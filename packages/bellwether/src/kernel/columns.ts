/**
 * Builds the columns of a batch as PostgreSQL array literals. A verb that takes columns reads its items without parsing JSON, and a column
 * without values is one null.
 */

/** The values of one column, in the order of the items; null if no item has a value. `quote` writes a text. */
export function column<Item>(
  items: readonly Item[],
  valueOf: (item: Item) => string | number | null | undefined,
  quote: (text: string) => string = quoted,
): string | null {
  let literal = ''
  let empty = true
  for (const item of items) {
    const value = valueOf(item)
    if (literal !== '') literal += ','
    if (value === undefined || value === null) literal += 'NULL'
    else {
      literal += typeof value === 'number' ? value : quote(value)
      empty = false
    }
  }
  return empty ? null : `{${literal}}`
}

/** A column of JSON texts, which contain no control characters: then the escapes of JSON are those of an array literal. */
export function jsonColumn<Item>(items: readonly Item[], textOf: (item: Item) => string | undefined): string | null {
  return column(items, textOf, JSON.stringify)
}

function quoted(text: string): string {
  return text.includes('"') || text.includes('\\') ? `"${text.replaceAll(/["\\]/g, '\\$&')}"` : `"${text}"`
}

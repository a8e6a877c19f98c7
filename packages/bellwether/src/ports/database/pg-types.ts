/**
 * Parses values from PostgreSQL for our connections only; the driver's global table stays unchanged. An int8 becomes a number if
 * a number holds it exactly, else text. All other types use the driver's default.
 */
import pg from './driver.js'

type TypeId = Parameters<typeof pg.types.setTypeParser>[0]

const int8 = 20
const int8Array = 1016

function parseInt8(text: string): number | string {
  const value = Number(text)
  return Number.isSafeInteger(value) ? value : text
}

type Nested = string | number | null | Nested[]
const parseTextArray = pg.types.getTypeParser(int8Array as TypeId) as (text: string) => Nested[]

function parseInt8Array(text: string): Nested[] {
  return parseTextArray(text).map(parseEntry)
}

function parseEntry(entry: Nested): Nested {
  if (Array.isArray(entry)) return entry.map(parseEntry)
  return typeof entry === 'string' ? parseInt8(entry) : entry
}

function getTypeParser(oid: number, format?: 'text' | 'binary'): (value: string) => unknown {
  if (format !== 'binary') {
    if (oid === int8) return parseInt8
    if (oid === int8Array) return parseInt8Array
  }
  return pg.types.getTypeParser(oid, format as 'text')
}

export const types: pg.CustomTypesConfig = { getTypeParser: getTypeParser as typeof pg.types.getTypeParser }

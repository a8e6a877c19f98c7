/** How a client writes the URL of a route, from its key in the HTTP contract (`GET /projects/:project/turns`). No I/O; loads no schema. */
import { InvalidInput } from './errors.js'

/** Every route of the contract is below this path, unless it is declared `outside`. */
export const apiBase = '/api/v1'

type Value = string | number | boolean | null | undefined

/**
 * The method and the path with its query. Parameters and query values are encoded; undefined and null ones are left out. Throws InvalidInput if a
 * parameter would lead to another route.
 */
export function requestLine(
  key: string,
  params: Readonly<Record<string, Value>> = {},
  query: Readonly<Record<string, Value>> = {},
): { readonly method: string; readonly path: string } {
  const [method = '', pattern = ''] = key.split(' ')
  const path = pattern.replaceAll(/:(\w+)/g, (_, name: string) => segment(name, String(params[name])))
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    value === undefined || value === null ? [] : `${encodeUrlText(name)}=${encodeUrlText(String(value))}`,
  )
  return { method, path: `${apiBase}${path}${pairs.length === 0 ? '' : `?${pairs.join('&')}`}` }
}

/** Every URL parser removes the segments `.` and `..`, encoded or not, and the segment before `..`. */
function segment(name: string, value: string): string {
  if (value !== '' && value !== '.' && value !== '..') return encodeUrlText(value)
  throw new InvalidInput(`"${name}" must be an id (got "${value}")`, {
    code: 'invalid_path',
    hint: 'give the id as a list shows it',
  })
}

/** Percent-encodes text. A byte of a file name that is not UTF-8 (see file-names.ts) is sent as that byte. */
function encodeUrlText(text: string): string {
  let encoded = ''
  for (const character of text) {
    const point = character.codePointAt(0)!
    if (point >= 0xdc80 && point <= 0xdcff) encoded += `%${(point - 0xdc00).toString(16).toUpperCase()}`
    else encoded += encodeURIComponent(character.toWellFormed())
  }
  return encoded
}

/** Parses query strings. Values are percent-decoded as bytes, so that a path whose name is not UTF-8 can be requested (`%FF`). */
import { textOf } from '../view/tree/path.js'

// More parameters than any route has, fewer than a flood needs.
const parametersMax = 64

export function parseQuery(text: string): Record<string, string> {
  const found: Record<string, string> = {}
  let count = 0
  for (const pair of text.split('&')) {
    if (pair === '') continue
    count += 1
    if (count > parametersMax) break
    const equals = pair.indexOf('=')
    const name = decode(equals === -1 ? pair : pair.slice(0, equals))
    if (name === '__proto__') continue
    found[name] = equals === -1 ? '' : decode(pair.slice(equals + 1))
  }
  return found
}

function decode(text: string): string {
  if (!/[%+]/.test(text)) return text
  const bytes = Buffer.from(text.replaceAll('+', ' '), 'utf8')
  let to = 0
  for (let from = 0; from < bytes.length; from += 1, to += 1) {
    const code = bytes[from] === 0x25 ? Number.parseInt(bytes.toString('latin1', from + 1, from + 3), 16) : Number.NaN
    const isEscape = Number.isInteger(code) && /^[\da-f]{2}$/i.test(bytes.toString('latin1', from + 1, from + 3))
    bytes[to] = isEscape ? code : bytes[from]!
    if (isEscape) from += 2
  }
  return textOf(bytes, 0, to)
}

/**
 * Makes a tool's return value storable: JSON up to a limit, without the control key that only a trusted tool may set (T3.3d). Pure. A
 * result that is too large is cut with a note; no return value can make the report fail.
 */
import { errorMessage } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { storable } from '../../kernel/content.js'

// More than a model can use of one result; a card holds four times as much.
export const resultMaxBytes = 262_144
const messageMaxChars = 4_000

/** T3.3d: the key by which a tool host decides how the turn continues. */
const controlKey = '__cg_control'

export function storableResult(value: unknown, mayControl: boolean): unknown {
  const plain = mayControl ? value : withoutControl(value)
  if (typeof plain === 'string') return cutText(clean(plain))
  const json = jsonOf(plain)
  if (json === undefined) return null
  if (Buffer.byteLength(json) > resultMaxBytes) return cutJson(json)
  try {
    const result = JSON.parse(json) as unknown
    storable(result, 'the result', resultMaxBytes * 2)
    return result
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error
    // Nested too deep, or with characters that cannot be stored: it can be stored as text.
    return { text: cleanJson(json) }
  }
}

function withoutControl(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, controlKey)) return value
  const { [controlKey]: _left, ...rest } = value as Record<string, unknown>
  return rest
}

/** Undefined if the value has no JSON form. */
function jsonOf(value: unknown): string | undefined {
  try {
    return JSON.stringify(value)
  } catch (error) {
    return JSON.stringify(`the result cannot be converted to JSON: ${errorMessage(error)}`)
  }
}

/** NUL and unpaired surrogates cannot be stored. */
const clean = (text: string) => text.toWellFormed().replaceAll('\0', '')
/** In JSON they appear as escapes. */
const cleanJson = (json: string) => clean(json).replace(/\\u0000|\\u[dD][89a-fA-F][0-9a-fA-F]{2}/g, '')

function cutText(text: string): string {
  const bytes = Buffer.byteLength(text)
  if (bytes <= resultMaxBytes) return text
  const beginning = Buffer.from(text)
    .subarray(0, resultMaxBytes)
    .toString('utf8')
    .replace(/\uFFFD+$/, '')
  return `${beginning}\n[cut: the result has ${bytes} bytes; this is its beginning]`
}

function cutJson(json: string): object {
  // As text it is escaped once more, so only half of the limit is certain to fit.
  const text = Buffer.from(json)
    .subarray(0, Math.floor(resultMaxBytes / 2))
    .toString('utf8')
    .replace(/\uFFFD+$/, '')
  return { truncated: true, bytes: Buffer.byteLength(json), beginning: cleanJson(text) }
}

/** The message of an error, without characters that cannot be stored. */
export function messageOf(error: unknown): string {
  const text = errorMessage(error)
  return clean(text).slice(0, messageMaxChars) || 'no message'
}

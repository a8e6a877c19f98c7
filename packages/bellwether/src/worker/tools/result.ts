/**
 * What a tool returned, as it can be kept: JSON within a bound, without the words that only a host may say (T3.3d). Pure. A result
 * that is too large is cut and says so; nothing that a tool returns can make its report fail.
 */
import { errorMessage } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { storable } from '../../kernel/content.js'

// What a model can use of one result, with room to spare; a card holds four times as much.
export const resultMaxBytes = 262_144
const messageMaxChars = 4_000

/** T3.3d: the words by which a tool host decides how the turn goes on. */
const controlKey = '__cg_control'

export function keepable(value: unknown, mayControl: boolean, maxBytes = resultMaxBytes): unknown {
  const plain = mayControl ? value : withoutControl(value)
  if (typeof plain === 'string') return cutText(clean(plain), maxBytes)
  const json = jsonOf(plain)
  if (json === undefined) return null
  if (Buffer.byteLength(json) > maxBytes) return cutJson(json, maxBytes)
  try {
    const result = JSON.parse(json) as unknown
    storable(result, 'the result', maxBytes * 2)
    return result
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error
    // Nested too deep, or with characters that no row can hold: as text it can be kept.
    return { text: cleanJson(json) }
  }
}

function withoutControl(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, controlKey)) return value
  const { [controlKey]: _left, ...rest } = value as Record<string, unknown>
  return rest
}

/** Undefined: nothing, or nothing that can be written down. */
function jsonOf(value: unknown): string | undefined {
  try {
    return JSON.stringify(value)
  } catch (error) {
    return JSON.stringify(`the result cannot be written as JSON: ${error instanceof Error ? error.message : ''}`)
  }
}

/** NUL and halves of characters cannot be stored. */
const clean = (text: string) => text.toWellFormed().replaceAll('\0', '')
/** In JSON they stand as escapes. */
const cleanJson = (json: string) => clean(json).replace(/\\u0000|\\u[dD][89a-fA-F][0-9a-fA-F]{2}/g, '')

function cutText(text: string, maxBytes: number): string {
  const bytes = Buffer.byteLength(text)
  if (bytes <= maxBytes) return text
  const kept = Buffer.from(text)
    .subarray(0, maxBytes)
    .toString('utf8')
    .replace(/\uFFFD+$/, '')
  return `${kept}\n[cut: the result has ${bytes} bytes, and this is the beginning of it]`
}

function cutJson(json: string, maxBytes: number): object {
  // As text it is quoted once more: half of the bound is sure to fit.
  const text = Buffer.from(json)
    .subarray(0, Math.floor(maxBytes / 2))
    .toString('utf8')
    .replace(/\uFFFD+$/, '')
  return { truncated: true, bytes: Buffer.byteLength(json), beginning: cleanJson(text) }
}

/** A message that can be kept whatever it holds. */
export function messageOf(error: unknown): string {
  const text = errorMessage(error)
  return clean(text).slice(0, messageMaxChars) || 'no message'
}

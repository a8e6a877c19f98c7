/**
 * Checks JavaScript values before they become jsonb: rejects what PostgreSQL cannot store, and what is too large or too deep, before the
 * value joins a batch and fails the transaction of the others.
 */
import { InvalidInput } from '@bellwether/protocol'

// Enough for a long answer; larger content belongs in a file, with a card that points to it.
export const cardMaxBytes = 1_048_576
// An inbox payload holds only pointers.
export const payloadMaxBytes = 65_536
// PostgreSQL's parser is recursive, and no agent needs more levels.
const depthMax = 64

// An escape that jsonb rejects: NUL, or half of a surrogate pair. After an even number of backslashes it is text, not an escape.
const unstorable = /(?<!\\)(?:\\\\)*\\u(?:0000|[dD][89a-fA-F][0-9a-fA-F]{2})/

/** Checks a value and returns its JSON text. */
export function storable(value: unknown, what: string, maxBytes: number): string {
  if (value === undefined) throw new InvalidInput(`${what} is missing`, { code: 'missing_content' })
  if (isShortText(value)) return JSON.stringify(value)
  const depth = depthOf(value, depthMax + 1)
  if (depth > depthMax) {
    throw new InvalidInput(`${what} is nested more than ${depthMax} levels deep`, {
      code: 'content_too_deep',
      hint: 'use fewer levels',
    })
  }
  const text = jsonOf(value, what)
  // A character has at most three bytes in UTF-8.
  const bytes = text.length * 3 > maxBytes ? Buffer.byteLength(text) : 0
  if (bytes > maxBytes) {
    throw new InvalidInput(`${what} is ${bytes} bytes; the limit is ${maxBytes}`, {
      code: 'content_too_large',
      hint: 'put the content into a file or another card and pass its id',
    })
  }
  if (text.includes('\\u') && unstorable.test(text)) {
    throw new InvalidInput(`${what} contains a NUL character or an incomplete Unicode pair`, {
      code: 'invalid_text',
      hint: 'remove the character, or encode binary data as base64',
    })
  }
  return text
}

function jsonOf(value: unknown, what: string): string {
  let text: string | undefined
  let cause: unknown
  try {
    text = JSON.stringify(value)
  } catch (error) {
    cause = error
  }
  if (text === undefined)
    throw new InvalidInput(`${what} cannot be written as JSON`, {
      code: 'not_json',
      cause,
      hint: 'use plain values only: no functions, no bigint, no object that contains itself',
    })
  return text
}

/** The common case, {text: short string}, checked without serializing. */
function isShortText(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Object.getPrototypeOf(value) !== Object.prototype) return false
  const keys = Object.keys(value)
  const text = (value as Record<string, unknown>)['text']
  return (
    keys.length === 1 && typeof text === 'string' && text.length < 1_000 && !text.includes('\0') && text.isWellFormed()
  )
}

function depthOf(value: unknown, limit: number): number {
  if (typeof value !== 'object' || value === null) return 0
  if (limit <= 0) return 1
  let deepest = 0
  const values: readonly unknown[] = Array.isArray(value) ? value : Object.values(value)
  for (const inner of values) {
    // Hot path: most values are texts and numbers.
    if (typeof inner === 'object' && inner !== null) deepest = Math.max(deepest, depthOf(inner, limit - 1))
  }
  return deepest + 1
}

/** Checks an id or a short name from outside. */
export function plainText(value: string, what: string, maxLength = 500): string {
  if (value.length === 0 || value.length > maxLength || value.includes('\0') || !value.isWellFormed()) {
    throw new InvalidInput(`${what} must be 1 to ${maxLength} characters of valid text`, { code: 'invalid_text' })
  }
  return value
}

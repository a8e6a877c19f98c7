/**
 * The edge between JavaScript values and jsonb: what PostgreSQL cannot store, or nobody should, is refused here by name,
 * before it joins a batch and spoils the others' transaction.
 */
import { InvalidInput } from '@bellwether/protocol'

// One card holds a long answer with room to spare; larger things belong in files, with a card that points to them.
export const cardMaxBytes = 1_048_576
// An inbox payload is pointers.
export const payloadMaxBytes = 65_536
// PostgreSQL's parser recurses; agents have no honest use for more.
const depthMax = 64

// An escape that jsonb refuses: NUL, or half a surrogate pair. An even run of backslashes before it is text, not an escape.
const unstorable = /(?<!\\)(?:\\\\)*\\u(?:0000|[dD][89a-fA-F][0-9a-fA-F]{2})/

export function storable(value: unknown, what: string, maxBytes: number): void {
  if (value === undefined) throw new InvalidInput(`${what} is missing`, { code: 'missing_content' })
  if (isShortText(value)) return
  const depth = depthOf(value, depthMax + 1)
  if (depth > depthMax) {
    throw new InvalidInput(`${what} is nested more than ${depthMax} levels deep`, {
      code: 'content_too_deep',
      hint: 'flatten it',
    })
  }
  const text = jsonOf(value, what)
  const bytes = Buffer.byteLength(text)
  if (bytes > maxBytes) {
    throw new InvalidInput(`${what} is ${bytes} bytes; the limit is ${maxBytes}`, {
      code: 'content_too_large',
      hint: 'put it into a file or another card and pass its id',
    })
  }
  if (unstorable.test(text)) {
    throw new InvalidInput(`${what} contains a NUL character or an incomplete Unicode pair`, {
      code: 'invalid_text',
      hint: 'remove it, or encode binary data (base64)',
    })
  }
}

function jsonOf(value: unknown, what: string): string {
  let text: string | undefined
  let cause: unknown
  try {
    text = JSON.stringify(value)
  } catch (error) {
    cause = error
  }
  if (text === undefined) throw new InvalidInput(`${what} is not JSON`, { code: 'not_json', cause })
  return text
}

/** The common case, {text: a few words}, seen without writing it out. */
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
  for (const inner of Object.values(value)) deepest = Math.max(deepest, depthOf(inner, limit - 1))
  return deepest + 1
}

/** The same for ids and short names that come from outside. */
export function plainText(value: string, what: string, maxLength = 500): string {
  if (value.length === 0 || value.length > maxLength || value.includes('\0') || !value.isWellFormed()) {
    throw new InvalidInput(`${what} must be 1 to ${maxLength} characters of valid text`, { code: 'invalid_text' })
  }
  return value
}

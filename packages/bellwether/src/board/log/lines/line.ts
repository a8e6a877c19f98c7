/**
 * Parses one line of state/tasks.jsonl. Most lines are plain (no escapes in names, the seven known keys and a token): they
 * are split in place, and only the payload goes through JSON.parse. Every other line is parsed as a whole. Both ways give
 * the same result. A line that is broken, too long, too deep or not UTF-8 is a named problem, never an exception.
 */
import { isUtf8 } from 'node:buffer'
import { isObject, parseJson } from '@bellwether/base'
import { emptyPayload, Payload } from './payload.js'
import { eventTypes } from '../task.js'

export type LineProblem = 'broken_json' | 'missing_keys' | 'not_utf8' | 'too_long' | 'too_deep'

/** Bellwether never writes a longer line, and a million of them would not fit into memory. */
export const lineReadMaxBytes = 4 * 2 ** 20
/** JSON.stringify recurses: a deeper value could be read but never be written again. */
export const depthMax = 64
/** A longer id is a mistake or an attack. */
const nameMaxBytes = 1_024

/** The parts of the line read last. Ranges are into `bytes`. */
export class Line {
  bytes: Buffer = Buffer.alloc(0)
  #ascii = true
  /** Reused for payloads that are not cached; valid until the next line is read. */
  readonly #scratch = new Payload({})
  #at: string | undefined
  eventIdStart = 0
  eventIdEnd = 0
  taskIdStart = 0
  taskIdEnd = 0
  actorStart = 0
  actorEnd = 0
  atStart = 0
  atEnd = 0
  /** Index in eventTypes; -1: unknown type. */
  type = -1
  /** -1: the line has no token. */
  token = -1
  payload: Payload = emptyPayload
  detail = ''

  /** The time as text, decoded once. */
  at(): string {
    return (this.#at ??= this.text(this.atStart, this.atEnd))
  }

  text(start: number, end: number): string {
    return this.bytes.toString(this.#ascii ? 'latin1' : 'utf8', start, end)
  }

  /** Returns the problem of the line, or undefined. */
  read(bytes: Buffer, start: number, end: number): LineProblem | undefined {
    this.detail = ''
    if (end - start > lineReadMaxBytes) {
      this.detail = `${end - start} bytes; the maximum is ${lineReadMaxBytes}`
      return 'too_long'
    }
    return this.#plain(bytes, start, end) ? this.#missing() : this.#any(bytes.subarray(start, end))
  }

  #clear(bytes: Buffer, ascii: boolean): void {
    this.bytes = bytes
    this.#ascii = ascii
    this.#at = undefined
    this.eventIdStart = this.eventIdEnd = this.taskIdStart = this.taskIdEnd = -1
    this.actorStart = this.actorEnd = this.atStart = this.atEnd = -1
    this.type = -2
    this.token = -1
    this.payload = missing
  }

  /** Splits a plain line; false: the line is not plain. */
  #plain(bytes: Buffer, start: number, end: number): boolean {
    this.#clear(bytes, true)
    let expected = 0
    let i = afterSpace(bytes, start, end)
    if (bytes[i] !== brace) return false
    i += 1
    for (;;) {
      i = afterSpace(bytes, i, end)
      if (bytes[i] !== quote) return false
      const keyStart = (i += 1)
      i = plainEnd(bytes, i, end)
      if (i < 0) return false
      const key = equals(bytes, keyStart, i, keyBytes[expected]!) ? expected : knownKey(bytes, keyStart, i)
      if (key < 0) return false
      expected = (key + 1) & 7
      i = afterSpace(bytes, i + 1, end)
      if (bytes[i] !== colon) return false
      i = afterSpace(bytes, i + 1, end)
      const valueStart = i
      if (key === keyPayload) {
        i = this.#plainPayload(bytes, i, end)
        if (i < 0) return false
      } else if (key === keyToken) {
        let token = 0
        while (i < end && bytes[i]! >= digit0 && bytes[i]! <= digit9 && i - valueStart < 15) {
          token = token * 10 + bytes[i]! - digit0
          i += 1
        }
        const leadingZero = bytes[valueStart] === digit0 && i - valueStart > 1
        if (i === valueStart || leadingZero) return false
        this.token = token
      } else {
        if (bytes[i] !== quote) return false
        const textEnd = plainEnd(bytes, i + 1, end)
        if (textEnd < 0) return false
        this.#setText(key, bytes, i + 1, textEnd)
        i = textEnd + 1
      }
      i = afterSpace(bytes, i, end)
      if (i >= end) return false
      if (bytes[i] === comma) {
        i += 1
        continue
      }
      if (bytes[i] !== braceEnd) return false
      return afterSpace(bytes, i + 1, end) === end
    }
  }

  #setText(key: number, bytes: Uint8Array, start: number, end: number): void {
    if (key === keyEventId) {
      this.eventIdStart = start
      this.eventIdEnd = end
    } else if (key === keyTaskId) {
      this.taskIdStart = start
      this.taskIdEnd = end
    } else if (key === keyType) this.type = typeOf(bytes, start, end)
    else if (key === keyActor) {
      this.actorStart = start
      this.actorEnd = end
    } else if (key === keyAt) {
      this.atStart = start
      this.atEnd = end
    }
  }

  /** Where the payload ends; -1: it is not plain. */
  #plainPayload(bytes: Buffer, start: number, end: number): number {
    if (bytes[start] !== brace) return -1
    if (bytes[start + 1] === braceEnd) {
      this.payload = emptyPayload
      return start + 2
    }
    let depth = 0
    let i = start
    let hashed = 0
    let ascii = true
    let odd = false
    for (; i < end; i += 1) {
      const byte = bytes[i]!
      hashed = Math.imul(hashed ^ byte, 0x01000193)
      if (byte === quote) {
        for (i += 1; i < end; i += 1) {
          const inner = bytes[i]!
          hashed = Math.imul(hashed ^ inner, 0x01000193)
          if (special[inner] === 0) continue
          if (inner === quote) break
          // An escaped character cannot end the string; JSON.parse checks the rest.
          if (inner === backslash) i += 1
          else if (inner > 0x7e) ascii = false
          else return -1
        }
        if (i >= end) return -1
      } else if (byte === brace || byte === bracket) {
        depth += 1
        if (depth >= depthMax) return -1 // the line itself is the outermost level
      } else if (byte === braceEnd || byte === bracketEnd) {
        depth -= 1
        if (depth === 0) break
      } else if ((byte === letterE || byte === letterE + 0x20) && isDigit(bytes[i - 1]!)) odd = true
      else if (byte === minus && bytes[i + 1] === digit0) odd = true
    }
    if (i >= end) return -1
    const slot = (hashed ^ (hashed >>> 15)) & (knownSlots - 1)
    const before = known[slot]
    if (before !== undefined && equals(bytes, start, i + 1, before.bytes)) {
      this.payload = before.payload
      return i + 1
    }
    if (!ascii && !isUtf8(bytes.subarray(start, i + 1))) return -1
    const parsed = parseJson(bytes.toString(ascii ? 'latin1' : 'utf8', start, i + 1))
    // Parsing the whole line names the problem.
    if (!isObject(parsed)) return -1
    if (odd || i - start > digitsMax) writable(parsed)
    // Cache a payload when it occurs a second time: most payloads occur once.
    const isSecond = i - start < knownMaxBytes && knownHash[slot] === hashed
    this.payload = isSecond ? new Payload(parsed) : this.#scratch.read(parsed)
    if (isSecond) known[slot] = { bytes: Buffer.from(bytes.subarray(start, i + 1)), payload: this.payload }
    knownHash[slot] = hashed
    return i + 1
  }

  #any(line: Buffer): LineProblem | undefined {
    this.#clear(line, false)
    if (!isUtf8(line)) return 'not_utf8'
    const depth = depthOf(line)
    if (depth > depthMax) {
      this.detail = `nested ${depth} levels deep; the maximum is ${depthMax}`
      return 'too_deep'
    }
    let value: unknown
    try {
      value = JSON.parse(line.toString('utf8'))
    } catch (error) {
      this.detail = error instanceof Error ? error.message.slice(0, 200) : ''
      return 'broken_json'
    }
    if (!isObject(value)) {
      this.detail = 'not an object'
      return 'broken_json'
    }
    const parts: Buffer[] = []
    let at = 0
    for (const [name, key] of textKeys) {
      const text = value[name]
      if (typeof text !== 'string') continue
      // Half of a surrogate pair has no UTF-8: two different ids of this kind would become one.
      if ((key === keyEventId || key === keyTaskId) && !text.isWellFormed()) continue
      const part = Buffer.from(text)
      parts.push(part)
      this.#setText(key, part, 0, part.length)
      if (key !== keyType) this.#setText(key, part, at, at + part.length)
      at += part.length
    }
    this.bytes = Buffer.concat(parts)
    if (isObject(value['payload'])) this.payload = new Payload(writable(value['payload']))
    const token = value['token']
    // A token that is not a number fences nothing. The reference writes text tokens into locks, none into lines.
    if (typeof token === 'number' && Number.isSafeInteger(token) && token >= 0) this.token = token
    return this.#missing()
  }

  #missing(): LineProblem | undefined {
    if (
      this.eventIdEnd > this.eventIdStart &&
      this.eventIdEnd - this.eventIdStart <= nameMaxBytes &&
      this.taskIdEnd >= this.taskIdStart &&
      this.taskIdStart >= 0 &&
      this.taskIdEnd - this.taskIdStart <= nameMaxBytes &&
      this.atEnd > this.atStart &&
      this.actorStart >= 0 &&
      this.type !== -2 &&
      this.payload !== missing
    )
      return undefined
    const names = []
    if (this.eventIdEnd <= this.eventIdStart) names.push('eventId')
    if (this.taskIdStart < 0) names.push('taskId')
    if (this.type === -2) names.push('type')
    if (this.actorStart < 0) names.push('actor')
    if (this.atEnd <= this.atStart) names.push('at')
    if (this.payload === missing) names.push('payload')
    this.detail = names.length > 0 ? names.join(', ') : `an id of more than ${nameMaxBytes} bytes`
    return 'missing_keys'
  }
}

const missing = new Payload({})

const [space, tab, quote, comma, colon, backslash] = [0x20, 0x09, 0x22, 0x2c, 0x3a, 0x5c]
const [brace, braceEnd, bracket, bracketEnd, digit0, digit9, letterE, minus] = [
  0x7b, 0x7d, 0x5b, 0x5d, 0x30, 0x39, 0x45, 0x2d,
]
const [keyEventId, keyTaskId, keyType, _keyMessageType, keyActor, keyAt, keyPayload, keyToken] = [
  0, 1, 2, 3, 4, 5, 6, 7,
]
const textKeys = [
  ['eventId', keyEventId],
  ['taskId', keyTaskId],
  ['type', keyType],
  ['actor', keyActor],
  ['at', keyAt],
] as const

const keyBytes = ['eventId', 'taskId', 'type', 'messageType', 'actor', 'at', 'payload', 'token'].map((name) =>
  Buffer.from(name),
)
const typeBytes = eventTypes.map((name) => Buffer.from(name))

function equals(bytes: Uint8Array, start: number, end: number, name: Uint8Array): boolean {
  if (end - start !== name.length) return false
  for (let i = 0; i < name.length; i += 1) if (bytes[start + i] !== name[i]) return false
  return true
}

function knownKey(bytes: Uint8Array, start: number, end: number): number {
  for (let key = 0; key < keyBytes.length; key += 1) if (equals(bytes, start, end, keyBytes[key]!)) return key
  return -1
}

function typeOf(bytes: Uint8Array, start: number, end: number): number {
  for (let type = 0; type < typeBytes.length; type += 1) if (equals(bytes, start, end, typeBytes[type]!)) return type
  return -1
}

function afterSpace(bytes: Uint8Array, from: number, end: number): number {
  let i = from
  for (; i < end; i += 1) {
    const byte = bytes[i]!
    if (byte !== space && byte !== tab && byte !== 0x0d && byte !== 0x0a) break
  }
  return i
}

/** 1 for bytes that a plain string does not contain: quote, backslash, control characters and non-ASCII. */
const special = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte === quote || byte === backslash || byte < space || byte > 0x7e ? 1 : 0,
)

/** Where a plain string ends; -1: the string is not plain. */
function plainEnd(bytes: Uint8Array, start: number, end: number): number {
  let i = start
  while (i < end && special[bytes[i]!] === 0) i += 1
  return i < end && bytes[i] === quote ? i : -1
}

function depthOf(bytes: Uint8Array): number {
  let [depth, deepest, inText] = [0, 0, false]
  for (let i = 0; i < bytes.length; i += 1) {
    const byte = bytes[i]!
    if (inText) {
      if (byte === backslash) i += 1
      else if (byte === quote) inText = false
    } else if (byte === quote) inText = true
    else if (byte === brace || byte === bracket) {
      depth += 1
      if (depth > deepest) deepest = depth
    } else if (byte === braceEnd || byte === bracketEnd) depth -= 1
  }
  return deepest
}

// Many lines have the same small payload ("from claimed to done"): each is parsed once and then found by its bytes.
const knownSlots = 4_096
const knownMaxBytes = 256
const known: ({ readonly bytes: Uint8Array; readonly payload: Payload } | undefined)[] = Array.from(
  { length: knownSlots },
  () => undefined,
)
const knownHash = new Int32Array(knownSlots)

/** A number with more digits can exceed the largest double. */
const digitsMax = 308
const isDigit = (byte: number): boolean => byte >= digit0 && byte <= digit9

/** JSON.stringify cannot write 1e999 and -0, so they become null and 0: a snapshot must equal the log. */
function writable<T extends object>(value: T): T {
  const parts = value as Record<string, unknown>
  for (const key of Object.keys(parts)) {
    const part = parts[key]
    if (typeof part === 'object' && part !== null) writable(part)
    else if (typeof part === 'number' && (part === 0 || !Number.isFinite(part))) {
      const plain = Number.isFinite(part) ? 0 : null
      Object.defineProperty(parts, key, { value: plain, writable: true, enumerable: true, configurable: true })
    }
  }
  return value
}

/**
 * Query strings: percent-decoded as bytes, so that a path with a name that is not UTF-8 can be asked for (`%FF`), and read
 * with schemas that accept what people type (`true`, `1`).
 */
import { InvalidInput } from '@bellwether/protocol'
import { z } from 'zod'
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

export const yes = z
  .string()
  .transform((text) => /^(?:1|true|yes|on|)$/i.test(text))
  .optional()

export const whole = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d{1,15}$/)
    .transform(Number)
    .pipe(z.number().min(min).max(max))
    .optional()

export const secondsUpTo = (max: number) =>
  z
    .string()
    .regex(/^\d{1,9}(?:\.\d{1,9})?$/)
    .transform((text) => Math.min(Number(text), max))
    .optional()

/** What came from outside in the shape that was asked for, or one sentence about what is wrong with it. */
export function read<T>(schema: z.ZodType<T>, value: unknown, what: string): T {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const issue = result.error.issues[0]
  const where = issue === undefined || issue.path.length === 0 ? '' : ` at ${issue.path.join('.').slice(0, 200)}`
  throw new InvalidInput(`the ${what} is wrong${where}: ${(issue?.message ?? 'unreadable').slice(0, 500)}`, {
    code: 'invalid_request',
  })
}

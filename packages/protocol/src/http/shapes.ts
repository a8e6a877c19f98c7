/**
 * The building blocks of the HTTP contract: what a route declares, and the small schemas that several resources share.
 * Request schemas are strict and bounded. Response schemas describe plain JSON and never transform it, so that a parsed
 * response equals the response; readers ignore fields that they do not know.
 */
import { z } from '../deferred.js'
import { isToken } from '../subjects.js'
import { cardTypes } from '../vocabulary.js'

/** One route. Its key in the table is `METHOD /path`, relative to `/api/v1` unless `outside` is set. */
export interface Route {
  readonly summary: string
  readonly description?: string
  readonly params?: z.ZodObject
  readonly query?: z.ZodObject
  readonly body?: z.ZodType
  /** The largest body, also after decompression. Default: `bodyBytes.small`. */
  readonly bodyBytesMax?: number
  /** By status; the lowest is the default. Text: the media type of a response that is not JSON. */
  readonly responses: Readonly<Record<number, z.ZodType | string>>
  /** The data of each server-sent event, by the event's name. Only for `text/event-stream`. */
  readonly events?: Readonly<Record<string, z.ZodType>>
  /** Served at the root of the server, without a key. */
  readonly outside?: true
}

export const eventStream = 'text/event-stream'

/** `small`: more than any request of a few fields has; `text`: a long instruction; `large`: cards, lists and rows of sensors. */
export const bodyBytes = { small: 65_536, text: 1_048_576, large: 8_388_608 } as const

// Requests

const isStorable = (value: string) => !value.includes('\0') && value.isWellFormed()
const notStorable = 'must be text without NUL and without unpaired surrogates'
/** Text that PostgreSQL can store. */
export const text = (max: number) => z.string().min(1).max(max).refine(isStorable, notStorable)
export const longText = z.string().max(1_000_000).refine(isStorable, notStorable)
/** An id that a client or another system created. */
export const id = text(500)
export const token = z.string().refine(isToken, 'must be 1 to 120 of the characters a-z, 0-9, _ and -')
export const inProject = z.object({ project: token })
export const seconds = (max: number) => z.number().min(0).max(max)
export const record = z.record(z.string(), z.unknown())
/** Tokens, money or time. Far above any real bill, and sums of many still fit the database and a JavaScript number. */
export const amount = z.number().int().min(0).max(1_000_000_000_000)

/** Long polls stay below the 60 s after which proxies, and this server, close a silent connection. */
export const waitMaxSeconds = 50

/** How many entries a page holds. */
export const limit = (max: number, fallback: number) =>
  z
    .string()
    .regex(/^\d{1,6}$/, 'must be a whole number')
    .default(String(fallback))
    .transform(Number)
    .pipe(z.number().min(1).max(max))
    .describe(`a whole number, 1 to ${max}: how many entries the page has`)
export const numberCursor = z
  .string()
  .regex(/^\d{1,15}$/, 'must be a cursor from an earlier response')
  .transform(Number)
  .optional()
  .describe('the cursor of an earlier response')
/** A flag in a query: `1`, `true`, `yes`, `on` or the bare name; or `0`, `false`, `no`, `off`. */
export const flag = z
  .string()
  .regex(/^(?:1|true|yes|on|0|false|no|off|)$/i, 'must be true or false')
  .transform((value) => /^(?:1|true|yes|on|)$/i.test(value))
  .optional()
  .describe('true or false')
export const integer = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d{1,15}$/, 'must be a whole number')
    .transform(Number)
    .pipe(z.number().min(min).max(max))
    .optional()
    .describe(`a whole number, ${min} to ${max}`)
/** A larger value is lowered to `max`. */
export const secondsUpTo = (max: number) =>
  z
    .string()
    .regex(/^\d{1,9}(?:\.\d{1,9})?$/, 'must be a number of seconds')
    .transform((value) => Math.min(Number(value), max))
    .optional()
    .describe(`seconds, at most ${max}`)

export const fieldSpec = z.strictObject({
  name: text(200),
  description: longText.optional(),
  required: z.boolean().optional(),
  type: z.string().max(40).optional(),
})
export type FieldSpec = Readonly<z.output<typeof fieldSpec>>

export const newCard = z.strictObject({
  card_id: z.uuid().optional(),
  type: z.enum(cardTypes),
  role: z.string().min(1).max(40).optional(),
  content: z.unknown(),
  metadata: record.optional(),
})
export type NewCard = z.output<typeof newCard>

// Responses

/** The server may return a Date: JSON turns it into text. */
export const time = z.string().meta({ format: 'date-time' }) as unknown as z.ZodType<string, string | Date>
/** A row of the database: its times are Dates. */
export type Row<T> = { [K in keyof T]: Date extends T[K] ? Exclude<T[K], string> : T[K] }
/** The server may return an array that it must not change. */
export const list = <T extends z.ZodType>(one: T) =>
  z.array(one) as unknown as z.ZodType<readonly z.output<T>[], readonly z.input<T>[]>
/** One page of a list. */
export const page = <Name extends string, One extends z.ZodType, Cursor extends z.ZodType>(
  name: Name,
  one: One,
  cursor: Cursor,
) =>
  z.object({
    ...({ [name]: list(one) } as Record<Name, ReturnType<typeof list<One>>>),
    cursor: cursor.nullable().describe('pass it to get the next page; null: there is none'),
  })

export const card = z.object({
  card_id: z.string(),
  type: z.enum(cardTypes),
  role: z.string(),
  content: z.unknown(),
  metadata: record,
  created_at: time,
})
export type Card = z.output<typeof card>
export type CardRow = Row<z.input<typeof card>>

/** What every request for a claimed turn shows. */
export const fenced = {
  turn_epoch: z.number().int().min(1).max(Number.MAX_SAFE_INTEGER),
  lease_token: z
    .string()
    .max(200)
    .optional()
    .describe('the `lease_token` of the claim; without it the response is 403 `lease_token_missing`'),
}

/** Of a key or a project: more than one has. Servers hold the keys in memory, and compare each new agent with the list of its project. */
export const targetsMax = 100

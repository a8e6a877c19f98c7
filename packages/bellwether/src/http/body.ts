/**
 * Reads request bodies: JSON, optionally compressed. The limit applies before and after decompression, so that a small body
 * cannot become a large one. Decompression runs off the event loop.
 */
import { isUtf8 } from 'node:buffer'
import { promisify } from 'node:util'
import { gunzip, inflate } from 'node:zlib'
import { errorMessage } from '@bellwether/base'
import { InvalidInput, Terminal } from '@bellwether/protocol'

const unzip: Readonly<Record<string, (bytes: Buffer, options: { maxOutputLength: number }) => Promise<Buffer>>> = {
  gzip: promisify<Buffer, { maxOutputLength: number }, Buffer>(gunzip),
  deflate: promisify<Buffer, { maxOutputLength: number }, Buffer>(inflate),
}

/** Of one body. Every value is looked at several times: four million numbers in 8 MiB would hold up all other requests for a second. */
export const valuesMax = 250_000

interface BodyOptions {
  readonly encoding?: string | undefined
  readonly bytesMax: number
  /** Default: without a limit, for bodies that are checked by their own reader. */
  readonly valuesMax?: number | undefined
}

export async function readJson(bytes: Buffer, { encoding, bytesMax, valuesMax }: BodyOptions): Promise<unknown> {
  const plain = encoding === undefined || encoding === 'identity' ? bytes : await unzipped(bytes, encoding, bytesMax)
  if (plain.length === 0) return undefined
  if (!isUtf8(plain)) throw new InvalidInput('The body is not UTF-8', { code: 'not_utf8' })
  if (valuesMax !== undefined && hasMoreValues(plain, valuesMax))
    throw new Terminal(`The body has more than ${valuesMax} values`, {
      code: 'too_large',
      hint: 'send several requests, or put large data into one text',
    })
  try {
    return JSON.parse(plain.toString('utf8'))
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw new InvalidInput(`The body is not valid JSON: ${errorMessage(error)}`, {
      code: 'not_json',
      hint: 'send one JSON object as the body',
      cause: error,
    })
  }
}

const [quote, backslash, comma, bracket, brace] = Buffer.from('"\\,[{')

/** Counts what separates and opens values, outside of texts, and stops at the limit. */
function hasMoreValues(json: Buffer, max: number): boolean {
  // The shortest value has one character beside its comma.
  if (json.length <= 2 * max) return false
  let count = 0
  for (let at = 0; at < json.length; at += 1) {
    const char = json[at]
    if (char === quote) {
      at = endOfText(json, at)
      if (at === -1) return false
    } else if (char === comma || char === bracket || char === brace) {
      count += 1
      if (count > max) return true
    }
  }
  return false
}

/** The position of the quote that ends the text; -1: none does. */
function endOfText(json: Buffer, start: number): number {
  for (let end = json.indexOf(quote!, start + 1); end !== -1; end = json.indexOf(quote!, end + 1)) {
    let before = end
    while (json[before - 1] === backslash) before -= 1
    if ((end - before) % 2 === 0) return end
  }
  return -1
}

async function unzipped(bytes: Buffer, encoding: string, bytesMax: number): Promise<Buffer> {
  const name = encoding.toLowerCase()
  const unpack = Object.hasOwn(unzip, name) ? unzip[name] : undefined
  if (unpack === undefined) {
    throw new Terminal(`Content-Encoding ${JSON.stringify(encoding.slice(0, 40))} is not supported`, {
      code: 'unsupported_encoding',
      hint: 'use gzip, deflate or none',
    })
  }
  try {
    return await unpack(bytes, { maxOutputLength: bytesMax })
  } catch (error) {
    const tooLarge = error instanceof RangeError || (error as { code?: unknown }).code === 'ERR_BUFFER_TOO_LARGE'
    if (tooLarge) throw new Terminal('The decompressed body is too large', { code: 'too_large', cause: error })
    throw new InvalidInput(`The body is not valid ${encoding}, as its Content-Encoding says`, {
      code: 'not_zipped',
      cause: error,
      hint: 'compress the body again, or send it without Content-Encoding',
    })
  }
}

/**
 * Reads request bodies: JSON, optionally compressed. The limit applies before and after decompression, so that a small body
 * cannot become a large one. Decompression runs off the event loop.
 */
import { isUtf8 } from 'node:buffer'
import { promisify } from 'node:util'
import { gunzip, inflate } from 'node:zlib'
import { errorMessage } from '@bellwether/base'
import { InvalidInput, pipeLimits, Terminal } from '@bellwether/protocol'

const unzip: Readonly<Record<string, (bytes: Buffer, options: { maxOutputLength: number }) => Promise<Buffer>>> = {
  gzip: promisify<Buffer, { maxOutputLength: number }, Buffer>(gunzip),
  deflate: promisify<Buffer, { maxOutputLength: number }, Buffer>(inflate),
}

export async function readJson(bytes: Buffer, encoding: string | undefined): Promise<unknown> {
  const plain = encoding === undefined || encoding === 'identity' ? bytes : await unzipped(bytes, encoding)
  if (plain.length === 0) return undefined
  if (!isUtf8(plain)) throw new InvalidInput('The body is not UTF-8', { code: 'not_utf8' })
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

async function unzipped(bytes: Buffer, encoding: string): Promise<Buffer> {
  const unpack = unzip[encoding.toLowerCase()]
  if (unpack === undefined) {
    throw new Terminal(`Content-Encoding ${JSON.stringify(encoding.slice(0, 40))} is not supported`, {
      code: 'unsupported_encoding',
      hint: 'use gzip, deflate or none',
    })
  }
  try {
    return await unpack(bytes, { maxOutputLength: pipeLimits.inflatedBytesMax })
  } catch (error) {
    const tooLarge = error instanceof RangeError || (error as { code?: unknown }).code === 'ERR_BUFFER_TOO_LARGE'
    if (tooLarge) throw new Terminal('The decompressed body is too large', { code: 'too_large', cause: error })
    throw new InvalidInput(`The body is not valid ${encoding}`, { code: 'not_zipped', cause: error })
  }
}

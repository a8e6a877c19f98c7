/** Reads the instruction of a turn or task from a file or, with the name -, from stdin. It must be UTF-8 text of at most `maxBytes`. */
import { readFile } from 'node:fs/promises'
import { errorMessage } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'

export async function readInstruction(file: string, maxBytes: number, what = 'the instruction'): Promise<string> {
  try {
    const bytes = file === '-' ? await readStdin(maxBytes) : await readFile(file)
    if (bytes.length > maxBytes) throw new Error(`it is longer than ${maxBytes} bytes`)
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (cause) {
    const message = `Cannot read ${what} from ${file}: ${errorMessage(cause)}`
    const hint = 'name a readable text file; - reads stdin'
    throw new InvalidInput(message, { code: 'no_instruction', hint, cause })
  }
}

/** Stops reading when the limit is exceeded. */
async function readStdin(maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of process.stdin) {
    chunks.push(chunk as Buffer)
    length += (chunk as Buffer).length
    if (length > maxBytes) break
  }
  return Buffer.concat(chunks)
}

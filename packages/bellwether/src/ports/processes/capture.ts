/**
 * Captures a program's output in bounded memory: the last bytes of it, or its lines. Dropped bytes are counted.
 */
export interface Tail {
  add(chunk: Buffer): void
  /** The last bytes as text, without a character that the limit cut in two. */
  text(): string
  readonly bytes: number
  readonly dropped: number
}

export function keepTail(maxBytes: number): Tail {
  let chunks: Buffer[] = []
  let bufferedBytes = 0
  let bytes = 0
  const trim = () => {
    const all = Buffer.concat(chunks)
    // A copy, because a slice would keep the larger buffer in memory.
    const end = Buffer.from(all.subarray(Math.max(0, all.length - maxBytes)))
    chunks = [end]
    bufferedBytes = end.length
  }
  return {
    add(chunk) {
      bytes += chunk.length
      chunks.push(chunk)
      bufferedBytes += chunk.length
      // At twice the limit, so that each byte is copied once or twice and not with every chunk.
      if (bufferedBytes > maxBytes * 2) trim()
    },
    text() {
      if (bufferedBytes > maxBytes) trim()
      const all = Buffer.concat(chunks)
      let from = 0
      if (bytes > all.length) while (from < all.length && from < 4 && (all[from]! & 0xc0) === 0x80) from += 1
      return all.subarray(from).toString('utf8')
    },
    get bytes() {
      return bytes
    },
    get dropped() {
      return Math.max(0, bytes - maxBytes)
    },
  }
}

/** Splits chunks at newlines: `take` gets each part of a line, `finish` is called at its end. */
export function atNewlines(take: (part: Buffer) => void, finish: () => void): (chunk: Buffer) => void {
  return (chunk) => {
    let from = 0
    for (let at = chunk.indexOf(10); at !== -1; at = chunk.indexOf(10, from)) {
      take(chunk.subarray(from, at))
      finish()
      from = at + 1
    }
    take(chunk.subarray(from))
  }
}

/** Calls `onLine` per complete line; a line longer than the limit is skipped. */
export function splitLines(
  maxBytes: number,
  onLine: (line: string) => void,
): { add(chunk: Buffer): void; end(): void } {
  let parts: Buffer[] = []
  let lineBytes = 0
  const finish = () => {
    if (lineBytes > 0 && lineBytes <= maxBytes) onLine(Buffer.concat(parts).toString('utf8'))
    parts = []
    lineBytes = 0
  }
  const take = (part: Buffer) => {
    if (part.length === 0) return
    lineBytes += part.length
    if (lineBytes <= maxBytes) parts.push(part)
    else parts = []
  }
  return { add: atNewlines(take, finish), end: finish }
}

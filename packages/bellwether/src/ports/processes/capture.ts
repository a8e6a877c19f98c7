/**
 * Keeps what a program writes within bounds: the end of it, or its lines. Always: memory stays within the bound however much
 * is written; what was dropped is counted.
 */
export interface Tail {
  add(chunk: Buffer): void
  /** The last bytes, as text; a character that the bound cut in two is left out. */
  text(): string
  readonly bytes: number
  readonly dropped: number
}

export function keepTail(maxBytes: number): Tail {
  let chunks: Buffer[] = []
  let bytesHeld = 0
  let bytes = 0
  const trim = () => {
    const all = Buffer.concat(chunks)
    // A copy: a part of a larger buffer would keep the whole of it.
    const end = Buffer.from(all.subarray(Math.max(0, all.length - maxBytes)))
    chunks = [end]
    bytesHeld = end.length
  }
  return {
    add(chunk) {
      bytes += chunk.length
      chunks.push(chunk)
      bytesHeld += chunk.length
      // Twice the bound: so that each byte is copied once or twice, not with every chunk.
      if (bytesHeld > maxBytes * 2) trim()
    },
    text() {
      if (bytesHeld > maxBytes) trim()
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

/** Hands on whole lines; one that is longer than the bound is skipped and counted. */
export function splitLines(
  maxBytes: number,
  onLine: (line: string) => void,
): { add(chunk: Buffer): void; end(): void } {
  let parts: Buffer[] = []
  let held = 0
  let skipping = false
  const finish = () => {
    if (!skipping && held > 0) onLine(Buffer.concat(parts).toString('utf8'))
    parts = []
    held = 0
    skipping = false
  }
  return {
    add(chunk) {
      let from = 0
      for (let at = chunk.indexOf(10); at !== -1; at = chunk.indexOf(10, from)) {
        take(chunk.subarray(from, at))
        finish()
        from = at + 1
      }
      take(chunk.subarray(from))
    },
    end: finish,
  }
  function take(part: Buffer): void {
    if (skipping || part.length === 0) return
    held += part.length
    if (held <= maxBytes) return void parts.push(part)
    skipping = true
    parts = []
  }
}

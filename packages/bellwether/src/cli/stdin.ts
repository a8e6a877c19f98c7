/** Reads stdin until it exceeds `maxBytes`; the caller rejects a longer result. */
export async function readStdin(maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of process.stdin) {
    chunks.push(chunk as Buffer)
    length += (chunk as Buffer).length
    if (length > maxBytes) break
  }
  return Buffer.concat(chunks)
}

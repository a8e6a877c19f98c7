/**
 * Sends long responses in pieces. A small response is one write; a large one streams, yields to the event loop after each piece
 * and waits for a slow reader instead of buffering for it.
 */
import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { yieldToEventLoop } from '../view/ingest/serial-queue.js'

// One to two milliseconds of rendering: below it, streaming costs more than it saves.
const atOnceBytes = 512 * 1_024
// A search that finds nothing yields empty pieces, each after visiting many entries.
const atOncePieces = 4

/** `onShort` gets the bytes of a response that was small enough for one write, before any other code runs. */
export function sendPieces(
  reply: FastifyReply,
  pieces: Generator<Buffer>,
  onShort?: (bytes: Buffer) => void,
): FastifyReply {
  const first: Buffer[] = []
  let bytes = 0
  while (first.length < atOncePieces && bytes < atOnceBytes) {
    const next = pieces.next()
    if (next.done === true) {
      const all = first.length === 1 ? first[0]! : Buffer.concat(first)
      onShort?.(all)
      return sendBytes(reply, all)
    }
    first.push(next.value)
    bytes += next.value.length
  }
  return json(reply).send(Readable.from(onward(Buffer.concat(first), pieces), { highWaterMark: 1 }))
}

export const sendBytes = (reply: FastifyReply, bytes: Buffer): FastifyReply => json(reply).send(bytes)

const json = (reply: FastifyReply) => reply.type('application/json; charset=utf-8')

async function* onward(first: Buffer, pieces: Generator<Buffer>): AsyncGenerator<Buffer> {
  yield first
  for (const piece of pieces) {
    await yieldToEventLoop()
    if (piece.length > 0) yield piece
  }
}

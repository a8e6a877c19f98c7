/**
 * Long answers in pieces: a small one is sent whole, a large one streams, giving the event loop away after each piece and
 * waiting for a slow reader instead of piling up memory for it.
 */
import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { yieldToEventLoop } from '../view/ingest/serial-queue.js'

// A millisecond or two of writing: below that streaming costs more than it saves.
const wholeBytes = 512 * 1_024
// Of a search that finds nothing yet, each piece is a look at many entries.
const wholePieces = 4

export function sendPieces(reply: FastifyReply, pieces: Generator<Buffer>): FastifyReply {
  const first: Buffer[] = []
  let bytes = 0
  while (first.length < wholePieces && bytes < wholeBytes) {
    const next = pieces.next()
    if (next.done === true) return json(reply).send(first.length === 1 ? first[0] : Buffer.concat(first))
    first.push(next.value)
    bytes += next.value.length
  }
  return json(reply).send(Readable.from(onward(Buffer.concat(first), pieces), { highWaterMark: 1 }))
}

const json = (reply: FastifyReply) => reply.type('application/json; charset=utf-8')

async function* onward(first: Buffer, pieces: Generator<Buffer>): AsyncGenerator<Buffer> {
  yield first
  for (const piece of pieces) {
    await yieldToEventLoop()
    if (piece.length > 0) yield piece
  }
}

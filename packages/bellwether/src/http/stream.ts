/**
 * Long answers in pieces: a small one is sent whole, a large one streams, giving the event loop away after each piece and
 * waiting for a slow reader instead of piling up memory for it.
 */
import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { giveWay } from '../view/lane.js'

// Four pieces are a few milliseconds and 256 kB: below that streaming costs more than it saves.
const wholePieces = 4

export function sendPieces(reply: FastifyReply, pieces: Generator<string>): FastifyReply {
  const first: string[] = []
  while (first.length < wholePieces) {
    const next = pieces.next()
    if (next.done === true) return json(reply).send(first.join(''))
    first.push(next.value)
  }
  return json(reply).send(Readable.from(onward(first.join(''), pieces), { highWaterMark: 1 }))
}

const json = (reply: FastifyReply) => reply.type('application/json; charset=utf-8')

async function* onward(first: string, pieces: Generator<string>): AsyncGenerator<Buffer> {
  yield Buffer.from(first)
  for (const piece of pieces) {
    await giveWay()
    yield Buffer.from(piece)
  }
}

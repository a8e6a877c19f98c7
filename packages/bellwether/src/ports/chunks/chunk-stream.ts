/**
 * What the chunk adapters have in common: the buffer of outgoing chunks and the set of subscribers. A subscriber that throws
 * does not affect the others. The adapter sends batches and receives chunks.
 */
import { InvalidInput } from '@bellwether/protocol'
import { checkPattern } from '../bell/ring.js'
import { openChunkBuffer, type ChunkBufferOptions } from './chunk-buffer.js'
import type { Chunk, Chunks } from './chunks.js'

export interface Subscriber {
  readonly pattern: string
  /** Never throws. */
  readonly onChunk: (chunk: Chunk, subject: string) => void
}

export interface ChunkStreamOptions extends ChunkBufferOptions {
  readonly kind: Chunks['kind']
  /** The adapter reads this set; only the stream changes it. */
  readonly subscribers: Set<Subscriber>
  /** Resolves when the subscriber receives chunks, or when the server is unavailable. */
  readonly start: (subscriber: Subscriber) => Promise<void>
  readonly stop?: (subscriber: Subscriber) => void
  readonly disconnect: () => Promise<unknown>
}

export function openChunkStream(options: ChunkStreamOptions): Chunks {
  const { kind, log, subscribers } = options
  const buffer = openChunkBuffer(options)
  let closed = false

  return {
    kind,
    send: (turn, piece) => buffer.add(turn, piece),
    counts: () => buffer.counts(),
    async listen(pattern, onChunk) {
      checkPattern(pattern)
      if (closed) throw new InvalidInput('The chunk stream is closed', { code: 'chunks_closed' })
      const subscriber: Subscriber = {
        pattern,
        onChunk(chunk, subject) {
          try {
            onChunk(chunk, subject)
          } catch (error) {
            log.error({ err: error, pattern }, 'chunk listener threw an error')
          }
        },
      }
      subscribers.add(subscriber)
      await options.start(subscriber)
      return {
        async stop() {
          subscribers.delete(subscriber)
          options.stop?.(subscriber)
        },
      }
    },
    async close() {
      closed = true
      await buffer.close()
      subscribers.clear()
      await options.disconnect()
    },
  }
}

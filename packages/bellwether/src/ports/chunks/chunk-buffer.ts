/**
 * Pieces on their way out, put together: what comes within a moment goes as one chunk, in the order of each turn. Always: memory is
 * bounded whatever comes in and however slow the way is; what does not fit is dropped from the oldest end and counted. The way
 * itself is the adapter's.
 */
import type { Clock, Log } from '@bellwether/base'
import { chunkSubject, type Chunk, type ChunkCounts, type ChunkTurn, type OutgoingChunk } from './chunks.js'

export interface ChunkBufferOptions {
  readonly clock: Clock
  readonly log: Log
  /** How long a piece may wait for company. */
  readonly waitMs: number
  /** The most that one chunk's text takes as JSON. */
  readonly textMaxBytes: number
  /** The most chunks that go at once; the rest goes next time. */
  readonly batchMax: number
  /** False: they are lost. */
  readonly send: (parcels: readonly OutgoingChunk[]) => Promise<boolean>
}

export interface ChunkBuffer {
  add(turn: ChunkTurn, piece: { readonly kind: string; readonly text: string }): void
  counts(): ChunkCounts
  /** Sends what is left, once. */
  close(): Promise<void>
}

// One turn that prints without end keeps its last words, and takes no room from the others.
const turnMaxChars = 65_536
// A thousand busy turns within 16 MB (two bytes a character); past it the oldest words of the talker go.
const bufferMaxChars = 8_388_608
// Turns whose numbering is remembered; one that was silent for so long starts again at 1.
const turnsMax = 4_096

interface TurnBuffer {
  readonly turn: ChunkTurn
  readonly pieces: { kind: string; text: string }[]
  chars: number
  seq: number
  dropped: number
}

export function openChunkBuffer(options: ChunkBufferOptions): ChunkBuffer {
  const { clock, log } = options
  /** The longest silent comes first. */
  const buffers = new Map<string, TurnBuffer>()
  const waiting = new Set<TurnBuffer>()
  const counts = { sent: 0, dropped: 0 }
  let chars = 0
  let running: Promise<void> | undefined
  const closing = new AbortController()

  function bufferOf(turn: ChunkTurn): TurnBuffer {
    const key = `${turn.agentTurnId} ${turn.turnEpoch}`
    const heap = buffers.get(key) ?? { turn, pieces: [], chars: 0, seq: 0, dropped: 0 }
    buffers.delete(key)
    buffers.set(key, heap)
    for (const [oldest, silent] of buffers) {
      if (buffers.size <= turnsMax) break
      if (waiting.has(silent)) drop(silent, silent.chars)
      waiting.delete(silent)
      buffers.delete(oldest)
    }
    return heap
  }

  /** From the oldest end. */
  function drop(heap: TurnBuffer, count: number): void {
    let left = Math.min(count, heap.chars)
    heap.chars -= left
    chars -= left
    heap.dropped += left
    counts.dropped += left
    for (let [first] = heap.pieces; left > 0 && first !== undefined; [first] = heap.pieces) {
      const gone = Math.min(left, first.text.length)
      first.text = first.text.slice(gone)
      if (first.text === '') heap.pieces.shift()
      left -= gone
    }
  }

  function take(): OutgoingChunk[] {
    const parcels: OutgoingChunk[] = []
    for (const heap of waiting) {
      for (let piece = heap.pieces[0]; piece !== undefined; piece = heap.pieces[0]) {
        if (parcels.length >= options.batchMax) return parcels
        const text = head(piece.text, options.textMaxBytes)
        if (text.length === piece.text.length) heap.pieces.shift()
        else piece.text = piece.text.slice(text.length)
        heap.chars -= text.length
        chars -= text.length
        heap.seq += 1
        parcels.push({ subject: chunkSubject(heap.turn), chunk: chunkOf(heap, piece.kind, text) })
        heap.dropped = 0
      }
      waiting.delete(heap)
    }
    return parcels
  }

  async function carry(): Promise<void> {
    const parcels = take()
    const arrived = await options.send(parcels).catch((error: unknown) => {
      log.warn({ err: error, chunks: parcels.length }, 'chunks were lost on their way out')
      return false
    })
    if (arrived) counts.sent += parcels.length
    else for (const { chunk } of parcels) lost(chunk)
  }

  function lost(chunk: Chunk): void {
    const count = chunk.text.length + (chunk.dropped ?? 0)
    counts.dropped += chunk.text.length
    const heap = buffers.get(`${chunk.agent_turn_id} ${chunk.turn_epoch}`)
    if (heap !== undefined) heap.dropped += count
  }

  async function run(): Promise<void> {
    while (waiting.size > 0) {
      await clock.sleep(options.waitMs, closing.signal)
      await carry()
      if (closing.signal.aborted) break
    }
    running = undefined
  }

  return {
    add(turn, { kind, text }) {
      if (text === '' || closing.signal.aborted) return
      const heap = bufferOf(turn)
      const last = heap.pieces.at(-1)
      if (last?.kind === kind) last.text += text
      else heap.pieces.push({ kind, text })
      heap.chars += text.length
      chars += text.length
      waiting.add(heap)
      if (heap.chars > turnMaxChars) drop(heap, heap.chars - turnMaxChars)
      if (chars > bufferMaxChars) drop(heap, chars - bufferMaxChars)
      running ??= run()
    },
    counts: () => ({ ...counts }),
    async close() {
      closing.abort()
      await running
    },
  }
}

function chunkOf({ turn, seq, dropped }: TurnBuffer, kind: string, text: string): Chunk {
  return {
    agent_id: turn.agentId,
    agent_turn_id: turn.agentTurnId,
    turn_epoch: turn.turnEpoch,
    kind,
    text: text.toWellFormed(),
    seq,
    ...(dropped === 0 ? {} : { dropped }),
  }
}

/** The longest beginning that fits as JSON; at least one character, and no half of one. */
function head(text: string, maxBytes: number): string {
  let part = text.slice(0, maxBytes)
  for (;;) {
    const bytes = Buffer.byteLength(JSON.stringify(part)) - 2
    if (bytes <= maxBytes || part.length <= 2) return part
    const cut = Math.max(2, Math.floor((part.length * maxBytes) / bytes) - 1)
    part = text.slice(0, isHigh(text.charCodeAt(cut - 1)) ? cut - 1 : cut)
  }
}

const isHigh = (code: number) => code >= 0xd800 && code < 0xdc00

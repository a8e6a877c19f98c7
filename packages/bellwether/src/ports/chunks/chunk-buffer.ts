/**
 * Collects pieces of output and sends what arrives within `waitMs` as one chunk, in order per turn. Memory is bounded: text
 * that does not fit is dropped from the oldest end and counted. The adapter sends the chunks.
 */
import type { Clock, Log } from '@bellwether/base'
import { chunkSubject, type Chunk, type ChunkCounts, type ChunkTurn, type OutgoingChunk } from './chunks.js'

export interface ChunkBufferOptions {
  readonly clock: Clock
  readonly log: Log
  /** How long a piece waits for more text. */
  readonly waitMs: number
  /** The limit for one chunk's text as JSON. */
  readonly textMaxBytes: number
  /** The most chunks per call of `send`. */
  readonly batchMax: number
  /** Returns false if the chunks are lost. */
  readonly send: (batch: readonly OutgoingChunk[]) => Promise<boolean>
}

export interface ChunkBuffer {
  add(turn: ChunkTurn, piece: { readonly kind: string; readonly text: string }): void
  counts(): ChunkCounts
  /** Sends the rest, once. */
  close(): Promise<void>
}

// A turn that prints without end keeps its last 64 KB and takes no room from the others.
const turnMaxChars = 65_536
// 16 MB at two bytes per character, enough for a thousand busy turns; beyond it the sending turn loses its oldest text.
const bufferMaxChars = 8_388_608
// Turns whose numbering is remembered; a turn that was dropped from the list starts again at 1.
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
  /** The turn that was silent longest comes first. */
  const buffers = new Map<string, TurnBuffer>()
  const waiting = new Set<TurnBuffer>()
  const counts = { sent: 0, dropped: 0 }
  let chars = 0
  let running: Promise<void> | undefined
  const closing = new AbortController()

  function bufferOf(turn: ChunkTurn): TurnBuffer {
    const key = `${turn.agentTurnId} ${turn.turnEpoch}`
    const buffer = buffers.get(key) ?? { turn, pieces: [], chars: 0, seq: 0, dropped: 0 }
    buffers.delete(key)
    buffers.set(key, buffer)
    for (const [oldest, silent] of buffers) {
      if (buffers.size <= turnsMax) break
      if (waiting.has(silent)) drop(silent, silent.chars)
      waiting.delete(silent)
      buffers.delete(oldest)
    }
    return buffer
  }

  /** Drops text from the oldest end. */
  function drop(buffer: TurnBuffer, count: number): void {
    let left = Math.min(count, buffer.chars)
    buffer.chars -= left
    chars -= left
    buffer.dropped += left
    counts.dropped += left
    for (let [first] = buffer.pieces; left > 0 && first !== undefined; [first] = buffer.pieces) {
      const gone = Math.min(left, first.text.length)
      first.text = first.text.slice(gone)
      if (first.text === '') buffer.pieces.shift()
      left -= gone
    }
  }

  function take(): OutgoingChunk[] {
    const batch: OutgoingChunk[] = []
    for (const buffer of waiting) {
      for (let piece = buffer.pieces[0]; piece !== undefined; piece = buffer.pieces[0]) {
        if (batch.length >= options.batchMax) return batch
        const text = head(piece.text, options.textMaxBytes)
        if (text.length === piece.text.length) buffer.pieces.shift()
        else piece.text = piece.text.slice(text.length)
        buffer.chars -= text.length
        chars -= text.length
        buffer.seq += 1
        batch.push({ subject: chunkSubject(buffer.turn), chunk: chunkOf(buffer, piece.kind, text) })
        buffer.dropped = 0
      }
      waiting.delete(buffer)
    }
    return batch
  }

  async function sendBatch(): Promise<void> {
    const batch = take()
    const arrived = await options.send(batch).catch((error: unknown) => {
      log.warn({ err: error, chunks: batch.length }, 'chunks lost while sending')
      return false
    })
    if (arrived) counts.sent += batch.length
    else for (const { chunk } of batch) lost(chunk)
  }

  function lost(chunk: Chunk): void {
    const count = chunk.text.length + (chunk.dropped ?? 0)
    counts.dropped += chunk.text.length
    const buffer = buffers.get(`${chunk.agent_turn_id} ${chunk.turn_epoch}`)
    if (buffer !== undefined) buffer.dropped += count
  }

  async function run(): Promise<void> {
    while (waiting.size > 0) {
      await clock.sleep(options.waitMs, closing.signal)
      await sendBatch()
      if (closing.signal.aborted) break
    }
    running = undefined
  }

  return {
    add(turn, { kind, text }) {
      if (text === '' || closing.signal.aborted) return
      const buffer = bufferOf(turn)
      const last = buffer.pieces.at(-1)
      if (last?.kind === kind) last.text += text
      else buffer.pieces.push({ kind, text })
      buffer.chars += text.length
      chars += text.length
      waiting.add(buffer)
      if (buffer.chars > turnMaxChars) drop(buffer, buffer.chars - turnMaxChars)
      if (chars > bufferMaxChars) drop(buffer, chars - bufferMaxChars)
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

/** The longest prefix that fits as JSON: at least one character, never half of a surrogate pair. */
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

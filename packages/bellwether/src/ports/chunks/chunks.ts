/**
 * Streams the output of a running turn: a model's text, a program's output. It is lossy and nothing may depend on it; the
 * cards hold the result. Sending never waits, never throws and uses bounded memory; the next chunk that arrives counts the
 * characters that were dropped before it.
 */
import { objectOf } from '@bellwether/base'
import { defaultChannel, subjects } from '@bellwether/protocol'

/** The turn that produced the text. */
export interface ChunkTurn {
  readonly projectId: string
  readonly channelId?: string
  readonly agentId: string
  readonly agentTurnId: string
  readonly turnEpoch: number
}

/** The payload of `str.agent.{agent_id}.chunk`. */
export interface Chunk {
  readonly agent_id: string
  readonly agent_turn_id: string
  readonly turn_epoch: number
  /** `text`, `reasoning`, `stdout`, `stderr`: named by the executor. */
  readonly kind: string
  readonly text: string
  /** Numbers the chunks of one turn and epoch from 1; a gap means that chunks were lost. */
  readonly seq: number
  /** Characters dropped before this chunk because the connection was slow or closed. */
  readonly dropped?: number
}

export interface ChunkCounts {
  readonly sent: number
  /** Characters. */
  readonly dropped: number
}

export interface Chunks {
  readonly kind: 'notify' | 'nats'
  send(turn: ChunkTurn, piece: { readonly kind: string; readonly text: string }): void
  /** `pattern`: a subject with wildcards, such as `subjects.chunk({ project: '*', channel: '*' }, 'ann')`. */
  listen(pattern: string, onChunk: (chunk: Chunk, subject: string) => void): Promise<{ stop(): Promise<void> }>
  counts(): ChunkCounts
  /** Sends the rest if connected. */
  close(): Promise<void>
}

/** A chunk to send. */
export interface OutgoingChunk {
  readonly subject: string
  readonly chunk: Chunk
}

export function chunkSubject({ projectId, channelId = defaultChannel, agentId }: ChunkTurn): string {
  return subjects.chunk({ project: projectId, channel: channelId }, agentId)
}

/** Undefined if the value is not a chunk: any client may have sent it. */
export function readChunk(value: unknown): Chunk | undefined {
  const { agent_id, agent_turn_id, turn_epoch, kind, text, seq, dropped } = objectOf(value)
  if (typeof agent_id !== 'string' || typeof agent_turn_id !== 'string' || typeof kind !== 'string') return undefined
  if (typeof text !== 'string' || typeof seq !== 'number' || typeof turn_epoch !== 'number') return undefined
  return { agent_id, agent_turn_id, turn_epoch, kind, text, seq, ...(typeof dropped === 'number' ? { dropped } : {}) }
}

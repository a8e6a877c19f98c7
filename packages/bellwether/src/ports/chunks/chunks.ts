/**
 * What a turn says while it works: a model's words, a program's output, as they come. Always lossy, and nothing may depend on it:
 * sending never waits, never throws and never grows; what was left out is counted in the next chunk that arrives. What counts
 * is on the cards.
 */
import { defaultChannel, subjects } from '@bellwether/protocol'
import { payloadFrom } from '../bell/ring.js'

/** Whose words they are. */
export interface ChunkTurn {
  readonly projectId: string
  readonly channelId?: string
  readonly agentId: string
  readonly agentTurnId: string
  readonly turnEpoch: number
}

/** As it is heard: the payload of `str.agent.{agent_id}.chunk`. */
export interface Chunk {
  readonly agent_id: string
  readonly agent_turn_id: string
  readonly turn_epoch: number
  /** `text`, `reasoning`, `stdout`, `stderr`: whatever the executor calls it. */
  readonly kind: string
  readonly text: string
  /** Counts the chunks of one turn and epoch, from 1: a hole means that some were lost on the way. */
  readonly seq: number
  /** Characters that were left out before this one, because the way was slow or closed. */
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
  /** Sends what is left, as far as the way is open. */
  close(): Promise<void>
}

/** A chunk on its way out. */
export interface OutgoingChunk {
  readonly subject: string
  readonly chunk: Chunk
}

export function chunkSubject({ projectId, channelId = defaultChannel, agentId }: ChunkTurn): string {
  return subjects.chunk({ project: projectId, channel: channelId }, agentId)
}

/** Anybody may have sent it: undefined when it is none. */
export function readChunk(value: unknown): Chunk | undefined {
  const { agent_id, agent_turn_id, turn_epoch, kind, text, seq, dropped } = payloadFrom(value)
  if (typeof agent_id !== 'string' || typeof agent_turn_id !== 'string' || typeof kind !== 'string') return undefined
  if (typeof text !== 'string' || typeof seq !== 'number' || typeof turn_epoch !== 'number') return undefined
  return {
    agent_id,
    agent_turn_id,
    turn_epoch,
    kind,
    text,
    seq,
    ...(typeof dropped === 'number' ? { dropped } : {}),
  }
}

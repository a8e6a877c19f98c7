/** Messages to a turn: say stores one, take gives the waiting ones to the agent, once and in order. */
import { InvalidInput, messageMaxChars, Terminal, token } from '@bellwether/protocol'
import type { Queryable } from '../../../ports/database/database.js'
import { plainText } from '../../content.js'
import { callWith, type Fence } from '../../verdict.js'

export interface NewMessage {
  readonly projectId: string
  readonly agentTurnId: string
  /** A repeated request with the same id stores the message once. */
  readonly messageId: string
  readonly sender: string
  readonly text: string
  /** Interrupt a program that reads no messages while it runs. */
  readonly urgent?: boolean | undefined
}

export interface TurnMessage {
  readonly seq: number
  readonly sender: string
  readonly text: string
  readonly createdAt: Date
}

/** More than a person types during a turn; together with the length it bounds what a turn must read. */
const messagesMax = 100

interface SayVerdict {
  readonly what: 'stored' | 'conflict' | 'ended' | 'too_many' | 'unknown_turn'
  readonly seq: number | null
  readonly outcome: string | null
  readonly delivered_at: Date | null
}

/** Throws Terminal if the turn has ended, and InvalidInput if it cannot take the message. */
export async function say(
  db: Queryable,
  message: NewMessage,
): Promise<{ readonly seq: number; readonly delivered: boolean }> {
  const { agentTurnId: turn } = message
  const [verdict] = await callWith<SayVerdict>(
    db,
    'say',
    token(message.projectId, 'project'),
    plainText(turn, 'agent_turn_id'),
    plainText(message.messageId, 'message_id'),
    plainText(message.sender, 'sender', 200),
    plainText(message.text, 'text', messageMaxChars),
    message.urgent ?? false,
    messagesMax,
  )
  switch (verdict?.what) {
    case 'stored':
      return { seq: verdict.seq!, delivered: verdict.delivered_at !== null }
    case 'ended':
      throw new Terminal(`Turn ${turn} has ended (${verdict.outcome}) and reads no more messages`, {
        code: 'turn_ended',
        hint: `start a follow-up turn: bellwether turn continue ${turn} "…"`,
      })
    case 'too_many':
      throw new InvalidInput(`Turn ${turn} has ${messagesMax} messages, which is the limit`, {
        code: 'too_many_messages',
        hint: 'stop the turn and start a new one with a complete instruction',
      })
    case 'conflict':
      throw new InvalidInput(`Turn ${turn} has another message with the id "${message.messageId}"`, {
        code: 'duplicate_message',
        hint: 'use another message_id for another text',
      })
    default:
      throw new Terminal(`Turn ${turn} does not exist in project ${message.projectId}`, { code: 'unknown_turn' })
  }
}

interface Taken {
  readonly what: 'taken' | 'stale'
  readonly seq: number
  readonly sender: string
  readonly content: string
  readonly created_at: Date
}

export async function takeMessages(db: Queryable, fence: Fence): Promise<readonly TurnMessage[] | 'stale'> {
  const { projectId, agentId, agentTurnId, turnEpoch } = fence
  const rows = await callWith<Taken>(db, 'take_messages', projectId, agentId, agentTurnId, turnEpoch)
  if (rows[0]?.what === 'stale') return 'stale'
  return rows.map(({ seq, sender, content: text, created_at: createdAt }) => ({ seq, sender, text, createdAt }))
}

/**
 * The questions of a person's turn and their answers, read from its cards. The executor keeps no other state, so that any worker can
 * continue the turn. Pure. All times are database times and are compared only with each other.
 */
import { defined, objectOf } from '@bellwether/base'
import type { ResultStatus } from '@bellwether/protocol'
import type { Card } from '../../../kernel/verbs/cards.js'
import type { ToolResult } from '@bellwether/protocol/http'

interface Answer extends Pick<ToolResult, 'status' | 'result' | 'error'> {
  /** Absent if there is no card. */
  readonly at?: Date
}

export interface Ask {
  readonly toolCallId: string
  readonly toolName: string
  readonly args: Readonly<Record<string, unknown>>
  readonly stepId: string | undefined
  readonly at?: Date
  readonly answer?: Answer
}

/** The asks in order. `results` serve an agent without an output box, which has no cards. */
export function asksOf(own: readonly Card[], results: readonly ToolResult[]): Ask[] {
  const answers = new Map<unknown, Answer>()
  for (const card of own.filter(({ type }) => type === 'tool.result')) {
    const { tool_call_id: id, status, result, error } = objectOf(card.content)
    answers.set(id, {
      status: status as ResultStatus,
      result,
      error: (error ?? null) as Answer['error'],
      at: card.created_at,
    })
  }
  const asks = own
    .filter(({ type }) => type === 'tool.call')
    .map((card): Ask => {
      const { tool_call_id: id, tool_name: name, arguments: args } = objectOf(card.content)
      const answer = answers.get(id)
      const step = card.metadata['step_id']
      return {
        toolCallId: String(id),
        toolName: String(name),
        args: objectOf(args),
        stepId: typeof step === 'string' ? step : undefined,
        at: card.created_at,
        ...defined({ answer }),
      }
    })
  const withoutCard = results.filter((result) => !asks.some((ask) => ask.toolCallId === result.tool_call_id))
  return [...asks, ...withoutCard.map(fromResult)]
}

function fromResult({ tool_call_id: toolCallId, tool_name: toolName, step_id: stepId, ...answer }: ToolResult): Ask {
  return { toolCallId, toolName, args: {}, stepId, answer }
}

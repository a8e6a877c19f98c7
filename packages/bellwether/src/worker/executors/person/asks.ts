/**
 * Who was asked in a turn and what came of it, read from its cards: the whole memory of the person executor, so that any worker can go
 * on from any point. Pure. Times are the database's, and are compared with each other only.
 */
import type { ResultStatus } from '@bellwether/protocol'
import type { Card } from '../../../kernel/verbs/cards.js'
import type { ToolResult } from '../../../kernel/reads/waits.js'

export interface Answer {
  readonly status: ResultStatus
  readonly result: unknown
  readonly error: { readonly code?: string; readonly message?: string } | null
  /** Absent where no card says it. */
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

/** In the order in which they were asked. `results`: for an agent without an output box, which has no cards to read. */
export function asksOf(output: readonly Card[], agentTurnId: string, results: readonly ToolResult[]): Ask[] {
  const own = output.filter((card) => card.metadata['agent_turn_id'] === agentTurnId)
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
        ...(answer === undefined ? {} : { answer }),
      }
    })
  const unseen = results.filter((one) => !asks.some((ask) => ask.toolCallId === one.tool_call_id))
  return [...asks, ...unseen.map(bare)]
}

function bare({ tool_call_id: toolCallId, tool_name: toolName, step_id: stepId, ...answer }: ToolResult): Ask {
  return { toolCallId, toolName, args: {}, stepId, answer }
}

export function objectOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {}
}

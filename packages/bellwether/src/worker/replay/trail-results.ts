/** The results of a step's tool calls, from the waits and cards of a trail, as `readResults` reads them from the tables. Pure. */
import { objectOf } from '@bellwether/base'
import type { ToolResult, Trail } from '@bellwether/protocol/http'
import type { Card } from '../../kernel/verbs/cards.js'

/** `stepId`: default is the last step that waited. Only calls with a result, in the order of the calls. */
export function resultsOf(trail: Trail, cards: readonly Card[], stepId?: string): ToolResult[] {
  const step = stepId ?? trail.waits.at(-1)?.step_id
  return trail.waits
    .filter((wait) => wait.step_id === step)
    .flatMap((wait) => {
      const card = cards.find(({ card_id: id }) => id === wait.tool_result_card_id)
      if (card === undefined) return []
      const { status, result, error } = objectOf(card.content)
      return [
        {
          tool_call_id: wait.tool_call_id,
          tool_name: wait.tool_name,
          step_id: wait.step_id,
          wait_status: wait.wait_status,
          after_execution: wait.after_execution,
          status,
          result,
          error: error ?? null,
        } as ToolResult,
      ]
    })
}

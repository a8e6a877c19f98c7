/** Formats turns for people: a table of many, or the transcript of one. Text of agents is sanitized. Pure. */
import type { Turn, TurnDetail } from '@bellwether/protocol/http'
import { deliverableText } from '../../client/turns.js'
import { block, plain } from '../../client/sanitize.js'
import { instant, table } from '../shared/terminal.js'

const stateOf = (turn: Pick<Turn, 'outcome' | 'status'>) => turn.outcome ?? turn.status

export function turnTable(turns: readonly Turn[], columns?: number): string {
  const rows = turns.map((turn) => [
    turn.agent_turn_id,
    stateOf(turn),
    turn.agent_id,
    instant(turn.created_at),
    instant(turn.ended_at),
    turn.error ?? '',
  ])
  return table(['TURN', 'STATE', 'AGENT', 'QUEUED (UTC)', 'ENDED (UTC)', 'ERROR'], rows, columns, [0])
}

export function turnTranscript(turn: TurnDetail): string {
  const { parent, usage } = turn
  const text = deliverableText(turn)
  return [
    plain(
      `${turn.agent_turn_id}  ${stateOf(turn)}  ${turn.agent_id}  ${instant(turn.created_at)}${turn.error === null ? '' : `  ${turn.error}`}`,
    ),
    ...(parent === null ? [] : [line('parent', `${parent.agent_turn_id}  ${parent.agent_id ?? '–'}`)]),
    ...turn.steps.map((step) =>
      line('step', `${instant(step.started_at)}  ${step.phase} ${step.status}${step.error ? `  ${step.error}` : ''}`),
    ),
    ...turn.waits.map((wait) => line('tool', `${wait.tool_name} ${wait.wait_status}  ${wait.tool_call_id}`)),
    ...turn.interventions.map((one) => line('watchdog', `${instant(one.created_at)}  ${one.kind}: ${one.reason}`)),
    ...turn.children.map((child) =>
      line('child', `${child.agent_turn_id}  ${child.agent_id ?? '–'}  ${child.outcome ?? child.status ?? ''}`),
    ),
    ...(usage.total_tokens > 0 ? [line('used', `${usage.total_tokens} tokens`)] : []),
    ...fallbackLines(turn),
    ...(text === undefined ? [] : ['', block(text)]),
  ].join('\n')
}

/** Says that the deliverable is not the agent's result, why, and what work is stored. */
function fallbackLines({ deliverable }: TurnDetail): string[] {
  const fallback = deliverable?.fallback
  if (fallback === null || fallback === undefined) return []
  const { code, ended_by: by, started, cards, tool_results_received: results, truncated, output_box_id: box } = fallback
  const work = started ? `${cards} cards, ${results} tool results in box ${box}` : 'the turn never started'
  return [line('fallback', `${code}, ended by ${by}; ${work}${truncated ? ' (shortened below)' : ''}`)]
}

const line = (name: string, text: string) => `  ${name.padEnd(9)} ${plain(text)}`

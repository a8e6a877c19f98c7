/** Formats turns for people: a table of many, or the transcript of one. Text of agents is sanitized. Pure. */
import { delivered, type Kin, type Turn } from '../../client/turns.js'
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

export function turnTranscript(turn: Turn): string {
  const { steps = [], waits = [], interventions = [], children = [], parent, usage } = turn
  const text = delivered(turn)
  const tokens = usage?.total_tokens
  return [
    plain(
      `${turn.agent_turn_id}  ${stateOf(turn)}  ${turn.agent_id}  ${instant(turn.created_at)}${turn.error === null ? '' : `  ${turn.error}`}`,
    ),
    ...(parent === undefined || parent === null ? [] : [line('parent', `${parent.agent_turn_id}  ${parent.agent_id}`)]),
    ...steps.map((step) =>
      line('step', `${instant(step.started_at)}  ${step.phase} ${step.status}${step.error ? `  ${step.error}` : ''}`),
    ),
    ...waits.map((wait) => line('tool', `${wait.tool_name} ${wait.wait_status}  ${wait.tool_call_id}`)),
    ...interventions.map((one) => line('watchdog', `${instant(one.created_at)}  ${one.kind}: ${one.reason ?? ''}`)),
    ...children.map((child) => line('child', childText(child))),
    ...(typeof tokens === 'number' && tokens > 0 ? [line('used', `${tokens} tokens`)] : []),
    ...(text === undefined ? [] : ['', block(text)]),
  ].join('\n')
}

const line = (name: string, text: string) => `  ${name.padEnd(9)} ${plain(text)}`
const childText = ({ agent_turn_id: id, agent_id: agent, status, outcome }: Kin) =>
  `${id}  ${agent}  ${outcome ?? status ?? ''}`

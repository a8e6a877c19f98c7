/** A turn as text for other places: a request for a shell, and a summary for an issue or a chat. Pure. */
import type { TurnDetail } from '../api/types.js'
import { visible, textOf } from './text.js'
import { duration, msOf } from './time.js'

/** Reads the turn with the key in BELLWETHER_KEY. */
export const curlOf = (url: string): string => `curl -sS -H "X-Api-Key: $BELLWETHER_KEY" ${shellWord(url)}`

const shellWord = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

// As much of a text as an issue needs.
const textMax = 4_000
const stepsMax = 50

export function markdownOf(turn: TurnDetail): string {
  const [from, to] = [msOf(turn.started_at), msOf(turn.ended_at)]
  const { total_tokens: tokens, cost_micros: micros } = turn.usage
  const facts = [
    ['Turn', turn.agent_turn_id],
    ['Agent', turn.agent_id],
    ['Status', turn.status],
    ['Queued', turn.created_at],
    ['Duration', from === null || to === null ? 'not ended' : duration(to - from)],
    ['Tokens', String(tokens)],
    ['Cost', micros === null ? 'not reported' : `$${(micros / 1e6).toFixed(4)}`],
    ['Trace', turn.trace_id],
  ] as const
  const instruction = turn.context_cards.find((card) => card.type === 'task.instruction')
  return [
    `## Turn of ${inline(turn.agent_id)}: ${inline(turn.status)}`,
    facts.flatMap(([name, value]) => (value === null ? [] : [`- ${name}: ${inline(value)}`])).join('\n'),
    ...(instruction === undefined ? [] : ['### Instruction', fenced(textOf(instruction.content))]),
    ...(turn.error === null ? [] : ['### Error', fenced(turn.error)]),
    ...(turn.deliverable === null ? [] : ['### Deliverable', fenced(textOf(turn.deliverable.content))]),
    ...(turn.steps.length === 0 ? [] : ['### Steps', stepTable(turn)]),
  ].join('\n\n')
}

function stepTable({ steps }: TurnDetail): string {
  const rows = steps.slice(0, stepsMax).map(({ phase, status, started_at, ended_at, error }) => {
    const [from, to] = [msOf(started_at), msOf(ended_at)]
    const length = from === null || to === null ? '' : duration(to - from)
    return `| ${[phase, status, length, error ?? ''].map(cell).join(' | ')} |`
  })
  const left = steps.length - rows.length
  return [
    '| Step | Status | Duration | Error |',
    '|---|---|---|---|',
    ...rows,
    ...(left > 0 ? [`\n${left} more steps`] : []),
  ].join('\n')
}

const cell = (text: string) => inline(text).replaceAll('|', '\\|')
const inline = (text: string) => visible(text).replaceAll(/\s+/g, ' ').slice(0, 200)

/** A fence that is longer than any in the text, so that the text cannot end it. */
function fenced(text: string): string {
  const shown = text.length > textMax ? `${text.slice(0, textMax)}\n[…]` : text
  const longest = Math.max(2, ...[...shown.matchAll(/`+/g)].map(([run]) => run.length))
  const fence = '`'.repeat(longest + 1)
  return `${fence}\n${shown}\n${fence}`
}

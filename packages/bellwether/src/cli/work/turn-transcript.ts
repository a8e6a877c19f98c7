/** Formats turns for people: a table of many, or the transcript of one. Text of agents is sanitized. Pure. */
import { duration, plural } from '@bellwether/protocol'
import type { Turn, TurnDetail } from '@bellwether/protocol/http'
import { dollars, reasonInWords, turnLimits, turnTokens } from '@bellwether/protocol/spending'
import { deliverableText } from '../../client/turns.js'
import { block, plain } from '../../client/sanitize.js'
import { instant, shortInstant, table } from '../shared/terminal.js'

const stateOf = (turn: Pick<Turn, 'outcome' | 'status'>) => turn.outcome ?? turn.status

export function turnTable(turns: readonly Turn[], nowMs: number, columns?: number): string {
  const at = (time: string) => (columns === undefined ? instant(time) : shortInstant(time, nowMs))
  const durationOf = ({ started_at: start, ended_at: end }: Turn) =>
    start === null ? '–' : duration(Math.max(0, (end === null ? nowMs : Date.parse(end)) - Date.parse(start)))
  const rows = turns.map((turn) => [
    turn.agent_turn_id,
    stateOf(turn),
    turn.agent_id,
    at(turn.created_at),
    durationOf(turn),
    reasonInWords(turn.error ?? ''),
  ])
  return table(
    ['TURN', 'STATE', 'AGENT', columns === undefined ? 'QUEUED (UTC)' : 'QUEUED', 'TIME', 'ERROR'],
    rows,
    columns,
    [0, 1, 3],
  )
}

/** `waits`: what a queued turn waits for. */
export function turnTranscript(turn: TurnDetail, nowMs: number, waits?: string): string {
  const { parent } = turn
  const text = deliverableText(turn)
  return [
    plain(
      `${turn.agent_turn_id}  ${stateOf(turn)}  ${turn.agent_id}  ${instant(turn.created_at)}${turn.error === null ? '' : `  ${reasonInWords(turn.error)}`}`,
    ),
    ...(parent === null
      ? []
      : [line(relation(turn), `${parent.agent_turn_id}  ${parent.agent_id ?? '–'}${atStep(turn)}`)]),
    ...(turn.imported_from === null
      ? []
      : [
          line(
            'imported',
            `from project ${turn.imported_from.project_id}, ${instant(turn.imported_from.imported_at)}, by ${turn.imported_from.imported_by}`,
          ),
        ]),
    ...(waits === undefined ? [] : [line('waits', waits)]),
    line('time', times(turn, nowMs)),
    ...contextLines(turn),
    ...turn.steps.map((step) =>
      line(
        'step',
        `${instant(step.started_at)}  ${step.phase} ${step.status}${step.error ? `  ${reasonInWords(step.error)}` : ''}`,
      ),
    ),
    ...turn.waits.map((wait) => line('tool', `${wait.tool_name} ${wait.wait_status}  ${wait.tool_call_id}`)),
    ...turn.messages.map(({ seq, sender, text: words, delivered_at: at }) =>
      line(
        'message',
        `${seq} ${at === null ? (turn.ended_at === null ? 'waiting' : 'not delivered') : 'delivered'}  ${sender}: ${words}`,
      ),
    ),
    ...turn.interventions.map((intervention) =>
      line('watchdog', `${instant(intervention.created_at)}  ${intervention.kind}: ${intervention.reason}`),
    ),
    ...turn.children.map((child) =>
      line('child', `${child.agent_turn_id}  ${child.agent_id ?? '–'}  ${child.outcome ?? child.status ?? ''}`),
    ),
    ...spendingLines(turn),
    ...fallbackLines(turn),
    ...(text === undefined ? [] : ['', block(text)]),
  ].join('\n')
}

const relation = ({ continues, forked_from: fork }: TurnDetail) =>
  fork !== null ? 'fork of' : continues === null ? 'parent' : 'continues'
const atStep = ({ forked_from: fork }: TurnDetail) => (fork === null ? '' : `  at step ${fork.step}`)

/** What the turn used, by kind and in money, and of which limits. */
function spendingLines({ usage, budget }: TurnDetail): string[] {
  const cost = usage.cost_micros === null ? '' : `, ${dollars(usage.cost_micros)}`
  const limits = turnLimits(budget)
  return [
    ...(usage.total_tokens > 0 ? [line('used', `${turnTokens(usage)}${cost}`)] : []),
    ...(limits === null ? [] : [line('limits', limits)]),
  ]
}

/** How long it was queued and how long it took. */
function times({ created_at: created, started_at: started, ended_at: ended }: TurnDetail, nowMs: number): string {
  const between = (from: string, to: string | null) =>
    duration(Math.max(0, (to === null ? nowMs : Date.parse(to)) - Date.parse(from)))
  const queued = `queued for ${between(created, started ?? ended)}`
  if (started === null) return `${queued}, not started`
  return `${queued}, ${ended === null ? 'has run' : 'ran'} for ${between(started, ended)}`
}

/** What the turn knew at its start. */
function contextLines({ context_size: size, session_id: session }: TurnDetail): string[] {
  if (size === null) return []
  const { memory, cards, bytes, memory_cards: earlier, memory_bytes: earlierBytes, memory_truncated: cut } = size
  const name = memory === 'session' ? `session ${session ?? '(none named)'}` : memory
  const read =
    memory === 'none'
      ? ''
      : `: ${plural(earlier, 'card')}, ${plural(earlierBytes, 'byte')}${cut ? ' (older ones left out)' : ''}`
  return [line('context', `${plural(cards, 'card')}, ${plural(bytes, 'byte')}; memory ${name}${read}`)]
}

/** Says that the deliverable is not the agent's result, why, and what work is stored. */
function fallbackLines({ deliverable }: TurnDetail): string[] {
  const fallback = deliverable?.fallback
  if (fallback === null || fallback === undefined) return []
  const { code, ended_by: by, started, cards, tool_results_received: results, truncated, output_box_id: box } = fallback
  const work = started
    ? `${plural(cards, 'card')}, ${plural(results, 'tool result')} in box ${box}`
    : 'the turn never started'
  return [line('fallback', `${code}, ended by ${by}; ${work}${truncated ? ' (shortened below)' : ''}`)]
}

const line = (name: string, text: string) => `  ${name.padEnd(9)} ${plain(text)}`

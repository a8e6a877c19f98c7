/** Builds what the terminal shows: the live table of agents, the interventions of the watchdogs, and the closing table. */
import { projectId } from './actors.js'
import type { TurnCheck } from './check.js'
import type { DemoClient } from './client.js'
import { columns } from './screen.js'

// A fork-join adds a dozen agents at once; the table shows busy agents only, up to this many.
const rowsMax = 18

export async function liveTable(client: DemoClient): Promise<string[]> {
  const { agents } = await client.ask('GET /projects/:project/agents', { query: { limit: 200 } })
  const busy = agents.filter(({ state, queued }) => queued > 0 || (state?.active_agent_turn_id ?? null) !== null)
  const lines = busy
    .slice(0, rowsMax)
    .map(({ agent_id: name, queued, state }) => [
      name,
      state?.status ?? '',
      state?.current_tool ?? state?.activity ?? '',
      String(queued),
    ])
  const more = busy.length > rowsMax ? [[`and ${busy.length - rowsMax} more`, '', '', '']] : []
  return ['', ...columns([['agent', 'status', 'activity', 'queued'], ...lines, ...more])]
}

export interface Interventions {
  /** The id of the latest one. */
  readonly latest: number
  readonly sentences: readonly string[]
}

/** Interventions of the watchdogs with an id above `after`, as sentences. */
export async function interventionsSince(client: DemoClient, after: number): Promise<Interventions> {
  const query = { project: projectId, limit: 50 }
  const { interventions } = await client.ask('GET /watchdog/interventions', { query })
  const fresh = interventions.filter((row) => row.intervention_id > after).toReversed()
  const sentences = fresh.map(({ kind, agent_id: agent, reason }) => {
    const whose = agent === null ? '' : ` (turn of ${agent})`
    return `watchdog: ${kind}${whose}: ${reason}`
  })
  return { latest: fresh.at(-1)?.intervention_id ?? after, sentences }
}

export interface Totals {
  readonly check: TurnCheck
  readonly faults: Readonly<Record<string, number>>
  readonly tasks: Readonly<Record<string, number>>
  /** How many turns of each kind replayed to the same deliverable. */
  readonly exact: Readonly<Record<string, number>>
  readonly seconds: number
}

export function finalTable({ check, faults, tasks, exact, seconds }: Totals): string[] {
  const list = (counts: Readonly<Record<string, number>>) =>
    Object.entries(counts)
      .map(([name, times]) => `${name} ${times}`)
      .join(', ') || 'none'
  const perTurn = check.turns === 0 ? 0 : check.taskEvents / check.turns
  return columns([
    ['turns', `${check.turns} in ${seconds.toFixed(0)} s`],
    ['by outcome', list(check.outcomes)],
    ['tasks of the board', list(tasks)],
    ['faults injected', list(faults)],
    ['interventions', list(check.interventions)],
    ['taken over', String(check.takenOver)],
    ['task events per turn', String(perTurn)],
    ['stuck', String(check.stuck.length)],
    ['lost', String(check.lost.length)],
    ['replayed exactly', `${Object.values(exact).reduce((sum, n) => sum + n, 0)} of ${check.turns}: ${list(exact)}`],
  ])
}

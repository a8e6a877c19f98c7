/** What the audience sees: who does what, what the watchdogs did, and the final table. Asks the house as any client does. */
import type { Audit } from './audit.js'
import { projectId } from './cast.js'
import type { Client } from './client.js'
import { columns } from './screen.js'

interface AgentRow {
  readonly agent_id: string
  readonly queued: number
  readonly state: Readonly<Record<string, string | null>> | null
}

// The children of a fork come and go by the dozen: the table shows who is at work, and this many at most.
const rowsMax = 18

/** The live table. */
export async function liveTable(client: Client): Promise<string[]> {
  const { agents } = await client.ask<{ agents: AgentRow[] }>('GET', `/projects/${projectId}/agents?limit=200`)
  const busy = agents.filter(({ state, queued }) => queued > 0 || (state?.['active_agent_turn_id'] ?? null) !== null)
  const lines = busy
    .slice(0, rowsMax)
    .map(({ agent_id: name, queued, state }) => [
      name,
      state?.['status'] ?? '',
      state?.['current_tool'] ?? state?.['activity'] ?? '',
      String(queued),
    ])
  const more = busy.length > rowsMax ? [[`and ${busy.length - rowsMax} more`, '', '', '']] : []
  return ['', ...columns([['at work', 'status', 'doing', 'queued'], ...lines, ...more])]
}

export interface Deeds {
  readonly after: number
  readonly sentences: readonly string[]
}

interface DeedRow {
  readonly intervention_id: number
  readonly kind: string
  readonly agent_id?: string | null
  readonly reason: string
}

/** What watchdogs did since `after`, in sentences. */
export async function deedsSince(client: Client, after: number): Promise<Deeds> {
  const { interventions } = await client.ask<{ interventions: DeedRow[] }>(
    'GET',
    `/watchdog/interventions?project=${projectId}&limit=50`,
  )
  const fresh = interventions.filter((row) => row.intervention_id > after).toReversed()
  const sentences = fresh.map(({ kind, agent_id: agent, reason }) => {
    const whose = agent === undefined || agent === null ? '' : ` of ${agent}’s turn`
    return `watchdog: ${kind}${whose} (${reason})`
  })
  return { after: fresh.at(-1)?.intervention_id ?? after, sentences }
}

export interface Totals {
  readonly audit: Audit
  readonly faults: Readonly<Record<string, number>>
  readonly tasks: Readonly<Record<string, number>>
  readonly seconds: number
}

export function finalTable({ audit, faults, tasks, seconds }: Totals): string[] {
  const list = (counts: Readonly<Record<string, number>>) =>
    Object.entries(counts)
      .map(([name, times]) => `${name} ${times}`)
      .join(', ') || 'none'
  const perTurn = audit.turns === 0 ? 0 : audit.taskEvents / audit.turns
  return columns([
    ['turns', `${audit.turns} in ${seconds.toFixed(0)} s`],
    ['by outcome', list(audit.outcomes)],
    ['tasks of the board', list(tasks)],
    ['faults injected', list(faults)],
    ['interventions', list(audit.interventions)],
    ['taken over', String(audit.takenOver)],
    ['task events per turn', String(perTurn)],
    ['stuck', String(audit.stuck.length)],
    ['lost', String(audit.lost.length)],
  ])
}

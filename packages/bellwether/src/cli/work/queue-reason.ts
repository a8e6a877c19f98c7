/** Says what a queued turn waits for: the turn that its agent runs now, since when, and how many are queued. */
import { Terminal } from '@bellwether/protocol'
import type { Turn } from '@bellwether/protocol/http'
import type { Client } from '../../client/client.js'
import { instant } from '../shared/terminal.js'

/** Undefined if the turn does not wait for its agent. */
export async function queueReason(
  client: Client,
  { agent_turn_id: id, agent_id: agent, status }: Pick<Turn, 'agent_turn_id' | 'agent_id' | 'status'>,
): Promise<string | undefined> {
  if (status !== 'queued') return undefined
  try {
    const { state, queued } = await client.ask('GET /projects/:project/agents/:agent', { params: { agent } })
    const active = state?.active_agent_turn_id ?? null
    if (active === null || active === id) return undefined
    const { started_at: startedAt } = await client.ask('GET /projects/:project/turns/:turn', {
      params: { turn: active },
    })
    const since = startedAt === null ? '' : ` since ${instant(startedAt)} UTC`
    return `queued: agent ${agent} runs one turn at a time, and turn ${active} has been ${state?.status ?? 'active'}${since}; ${queued} queued. To end it: bellwether turn stop ${active}`
  } catch (error) {
    // The agent or the turn was removed in the meantime.
    if (error instanceof Terminal && error.code === 'not_found') return undefined
    throw error
  }
}

/**
 * Applies events to the cache: rows on the page change in place, and every other query that an event may affect is
 * refetched at a bounded rate.
 */
import { objectOf } from '@bellwether/base'
import type { QueryClient, QueryKey } from '@tanstack/react-query'
import type { Agents, LiveEvent } from '../api/types.js'
import { patchAgents, patchTurns, type TurnPages } from './patch.js'
import { recent } from './recent.js'

export type Touch = (key: QueryKey) => void

export function applyEvents(client: QueryClient, project: string, events: readonly LiveEvent[], touch: Touch): void {
  recent.add(events)
  client.setQueryData<Agents>(['agents', project], (before) =>
    before === undefined ? before : patchAgents(before, events),
  )
  for (const [key, data] of client.getQueriesData<TurnPages>({ queryKey: ['turns', project] })) {
    if (data === undefined) continue
    const patched = patchTurns(data, events)
    if (patched.data !== data) client.setQueryData(key, patched.data)
    if (patched.unknown) touch(key)
  }
  const turns = new Set(events.map((event) => event.agent_turn_id))
  for (const [key] of client.getQueriesData({ queryKey: ['turn', project] })) if (turns.has(String(key[2]))) touch(key)
  if (events.some(isAboutPeople)) touch(['questions', project])
  if (events.some(mayConcernApprovals)) touch(['approvals', project])
  if (events.some((event) => event.kind === 'task' && event.payload['error'] !== undefined))
    touch(['interventions', project])
}

/** A turn that suspends or ends may ask for an approval, or withdraw one. */
const mayConcernApprovals = (event: LiveEvent) =>
  event.kind === 'task' || metadataOf(event)['activity'] === 'awaiting_tool_result'

/** A question was asked, or an ended turn may have withdrawn one. */
const isAboutPeople = (event: LiveEvent) => event.kind === 'task' || metadataOf(event)['current_tool'] === 'ask_person'

function metadataOf({ payload }: LiveEvent): Readonly<Record<string, unknown>> {
  const metadata = payload['metadata']
  return objectOf(metadata)
}

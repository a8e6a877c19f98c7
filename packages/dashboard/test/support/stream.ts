/** Events at a steady rate, for visible agents and others. */
import type { Fixture } from './server.js'

export interface Rate {
  readonly perSecond: number
  readonly seconds: number
}

/** Returns the text of the last event. */
export async function stream(
  fixture: Fixture,
  { perSecond, seconds }: Rate,
): Promise<{ agent_id: string; tool: string }> {
  const total = perSecond * seconds
  const startedAt = performance.now()
  let sent = 0
  let last = { agent_id: '', tool: '' }
  while (sent < total) {
    const due = Math.min(total, Math.floor(((performance.now() - startedAt) / 1_000) * perSecond))
    for (; sent < due; sent += 1) last = one(fixture, sent)
    await new Promise((done) => setTimeout(done, 10))
  }
  return last
}

// One of this many events ends a turn, and one is a step.
const round = 8

function one(fixture: Fixture, number: number): { agent_id: string; tool: string } {
  const { agent_id, state } = fixture.world.agents[(number * 7) % 60]!
  const tool = `tool_${number}`
  const agent_turn_id = state?.active_agent_turn_id ?? `turn-${number}`
  if (number % round === 1) fixture.emit('task', { agent_id, agent_turn_id: `ended-${number}`, status: 'success' })
  if (number % round === 2) fixture.emit('step', { agent_id, agent_turn_id, phase: 'think', status: 'success' })
  const metadata = { activity: 'executing_tool', current_tool: tool, waiting_tool_count: 0 }
  fixture.emit('state', {
    agent_id,
    agent_turn_id,
    status: 'running',
    turn_epoch: 9 + number,
    metadata,
  })
  return { agent_id, tool }
}

/** Helpers for tests of the relay: events to publish, and the steps that publish them. */
import { Retryable } from '@bellwether/protocol'
import type { Relay } from '../../src/pmo/relay.js'
import type { TestKernel } from './kernel.js'
import { until } from './until.js'

/** Dispatched, running, the task event, idle. */
export const eventsPerTurn = 4

/** Runs turns to their end, one after the other. */
export async function produce(t: TestKernel, turns: number): Promise<void> {
  for (let done = 0; done < turns; done += 1) {
    const turn = await t.running('ann')
    await t.kernel.deliver({ ...turn, status: 'success', content: { text: 'done' } })
  }
}
export const outbox = (t: TestKernel) =>
  t.all<{ cursor: string; kind: string; agent_turn_id: string; event_id: number; subject: string }>(
    `select xid::text || ':' || event_id as cursor, kind, agent_turn_id, event_id, subject from state.events e order by e.xid, e.event_id`,
  )
/** Steps until this many events are published, then once more, which must find nothing. A stream may refuse a step at first. */
export async function relayed(relay: Relay, count: number): Promise<void> {
  let sum = 0
  await until(`${count} events are published`, async () => {
    sum += await relay.step().catch((error: unknown) => (error instanceof Retryable ? 0 : Promise.reject(error)))
    return sum >= count || undefined
  })
  const more = await relay.step()
  if (sum + more !== count) throw new Error(`${sum + more} events were published, not ${count}`)
}

/** Every transition of a head reaches JetStream and webhooks, in order per agent: real nats-server, real HTTP receiver. */
import { systemClock, systemRandom } from '@bellwether/base'
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { expect, it, onTestFinished } from 'vitest'
import { reclaim } from '../../src/kernel/verbs/watchdog/watchdog.js'
import { openEventWebhook } from '../../src/pmo/event-webhook.js'
import { openRelay } from '../../src/pmo/relay.js'
import { eventStream, natsStream } from '../../src/ports/stream/nats.js'
import { postJson } from '../../src/ports/webhook.js'
import { fullWatchWindow } from '../support/kernel-turns.js'
import { kernelPerTest, project, target } from '../support/kernel.js'
import { startNats } from '../support/nats.js'
import { quietLog } from '../support/quiet-log.js'
import { relayed } from '../support/relay.js'
import { openWebhookReceiver } from '../support/servers/webhook-receiver.js'

const t = kernelPerTest()

/** Lease, start, suspend, resume, reclaim, takeover and end of each agent, interleaved. */
async function everyTransition(...agents: readonly string[]): Promise<void> {
  await t.agents(...agents)
  for (const agentId of agents) await t.kernel.enqueue({ projectId: project, agentId, instruction: 'go' })
  const turns = await t.claim()
  for (const turn of turns) {
    const toolCallId = `call-${turn.agentId}`
    await t.kernel.suspend({ ...turn, stepId: 's', calls: [{ toolCallId, toolName: 'grep', args: {} }] }, 600)
  }
  for (const { agentId } of turns)
    await t.kernel.report([{ projectId: project, toolCallId: `call-${agentId}`, status: 'success', result: {} }])
  for (const turn of await t.claim(99, 'dies')) expect(await t.kernel.resume(turn, 'dies')).toBe('resumed')
  await t.advance(31)
  await reclaim(t.db, target, 30, 3, fullWatchWindow)
  for (const turn of await t.claim(99, 'lives'))
    await t.kernel.deliver({ ...turn, status: 'success', content: { text: 'done' } })
}

const transitions = ['dispatched', 'running', 'suspended', 'running', 'running (reclaimed)', 'running', 'idle']
const statusOf = (payload: Readonly<Record<string, unknown>>) =>
  `${String(payload['status'])}${(payload['metadata'] as { reclaimed?: boolean } | undefined)?.reclaimed === true ? ' (reclaimed)' : ''}`

it('[T2.5] JetStream has every transition of a head in order under the subject of its agent', async () => {
  const server = await startNats()
  onTestFinished(() => server.stop())
  const stream = natsStream({ servers: server.url, log: quietLog })
  onTestFinished(() => stream.close())
  await everyTransition('ann', 'bob')
  const [{ n }] = (await t.all<{ n: number }>('select count(*)::int as n from state.events')) as [{ n: number }]
  await relayed(openRelay({ db: t.db, log: quietLog, stream }), n)

  const connection = await connect({ servers: server.url, timeout: 60_000 })
  onTestFinished(() => connection.close())
  for (const agent of ['ann', 'bob']) {
    const consumer = await jetstream(connection).consumers.get(eventStream, {
      filter_subjects: `bw.v1.${project}.*.evt.agent.${agent}.state`,
    })
    const { num_pending: pending } = await consumer.info()
    const messages = await consumer.fetch({ max_messages: pending, expires: 5_000 })
    const seen: string[] = []
    for await (const message of messages) {
      const payload = message.json<Record<string, unknown>>()
      expect(payload).toMatchObject({ agent_id: agent, turn_epoch: expect.any(Number) })
      seen.push(statusOf(payload))
    }
    expect([agent, ...seen]).toEqual([agent, ...transitions])
  }
  const manager = await jetstreamManager(connection)
  expect((await manager.streams.info(eventStream)).state.messages).toBeGreaterThanOrEqual(2 * transitions.length)
})

it('[T2.5] a webhook gets every transition of a head once and in order, from two PMOs, also after it rejected requests', async () => {
  const receiver = await openWebhookReceiver()
  onTestFinished(() => receiver.close())
  const { signal } = new AbortController()
  const sender = () =>
    openEventWebhook({
      ...{ db: t.db, url: receiver.url, post: postJson, signal, log: quietLog },
      clock: systemClock,
      random: systemRandom,
    })
  // Events from before are not sent.
  await everyTransition('early')
  const [first, second] = [await sender(), await sender()]
  expect([await first.step(), await second.step()]).toEqual([0, 0])

  await everyTransition('ann', 'bob')
  receiver.answer(503, 400)
  await expect(first.step()).rejects.toThrow('503')
  // The first one has the lease and may still be sending.
  expect(await second.step()).toBe(0)
  await expect(first.step()).rejects.toThrow('400')
  await Promise.all([first.step(), second.step()])
  await everyTransition('cid')
  await Promise.all([first.step(), second.step()])
  const states = (agent: string) =>
    receiver.events
      .filter(({ kind, payload }) => kind === 'state' && payload['agent_id'] === agent)
      .map(({ payload }) => statusOf(payload))
  for (const agent of ['ann', 'bob', 'cid']) expect([agent, ...states(agent)]).toEqual([agent, ...transitions])
  expect(states('early')).toEqual([])
  const cursors = receiver.events.map(({ cursor }) => cursor)
  expect(new Set(cursors).size).toBe(cursors.length)
  expect(receiver.events.some(({ kind }) => kind === 'command')).toBe(false)

  // The first one fails and never returns: the second one continues when the lease has ended.
  await everyTransition('dan')
  receiver.answer(503)
  await expect(first.step()).rejects.toThrow('503')
  expect(await second.step()).toBe(0)
  await t.advance(16)
  expect(await second.step()).toBeGreaterThan(0)
  expect(states('dan')).toEqual(transitions)
})

/** One suite for all chunk adapters, each against its real server: chunks arrive, and lost ones do no harm. */
import { type Clock, defined, systemClock } from '@bellwether/base'
import { connect } from '@nats-io/transport-node'
import pg from 'pg'
import { subjects } from '@bellwether/protocol'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { Chunk, Chunks } from '../../src/ports/chunks/chunks.js'
import { natsChunks } from '../../src/ports/chunks/nats.js'
import { notifyChunks } from '../../src/ports/chunks/notify.js'
import { freePort, startNats } from '../support/nats.js'
import { startOwnPostgres } from '../support/processes/own-postgres.js'
import { quietLog as log } from '../support/quiet-log.js'
import { until } from '../support/until.js'

interface Server {
  readonly url: string
  kill(): Promise<void>
  restart(): Promise<void>
  stop(): Promise<void>
}

const forged = ['', 'not json', '[]', '{"text":1}', '{"agent_id":"ann","kind":"text"}']
const chunk =
  '{"agent_id":"ann","agent_turn_id":"t","turn_epoch":1,"kind":"text","text":"true","seq":1,"dropped":"many"}'

const adapters = [
  {
    name: 'notify',
    start: startOwnPostgres as () => Promise<Server>,
    open: (url: string, clock?: Clock): Chunks => notifyChunks({ url, log, ...defined({ clock }) }),
    nowhere: async () => notifyChunks({ url: `postgres://postgres@127.0.0.1:${await freePort()}/postgres`, log }),
    async forge(url: string, subject: string) {
      const client = new pg.Client({ connectionString: url })
      await client.connect()
      const letters = [
        ...forged,
        `{"s":17,"c":${chunk}}`,
        `{"s":"${subject}","c":"x"}`,
        `{"s":"${subject}","c":${chunk}}`,
      ]
      for (const text of letters) await client.query('select pg_notify($1, $2)', ['bw_chunk', text])
      await client.end()
    },
  },
  {
    name: 'nats',
    start: (): Promise<Server> => startNats({ jetstream: false }),
    open: (servers: string, clock?: Clock): Chunks => natsChunks({ servers, log, ...defined({ clock }) }),
    nowhere: async () => natsChunks({ servers: `nats://127.0.0.1:${await freePort()}`, log }),
    async forge(url: string, subject: string) {
      const client = await connect({ servers: url, timeout: 60_000 })
      for (const text of [...forged, 'x'.repeat(200_000), chunk]) client.publish(subject, text)
      await client.flush()
      await client.close()
    },
  },
]

const everywhere = { project: '*', channel: '*' }
const turnOf = (agentId: string, agentTurnId = 't1') => ({ projectId: 'p', agentId, agentTurnId, turnEpoch: 1 })

describe.each(adapters)('chunks by $name', (adapter) => {
  let server: Server
  const opened: Chunks[] = []
  beforeAll(async () => {
    server = await adapter.start()
  })
  afterAll(() => server.stop())
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((one) => one.close()))
  })
  const open = (one = adapter.open(server.url)) => (opened.push(one), one)
  async function subscribe(chunks: Chunks, agentId: string) {
    const received: Chunk[] = []
    const listening = await chunks.listen(subjects.chunk(everywhere, agentId), (one) => void received.push(one))
    return { received, listening, text: () => received.map((one) => one.text).join('') }
  }

  it('arrive in another process in order, for subscribers of that agent only', async () => {
    const [sender, listener] = [open(), open()]
    const [ann, all] = [await subscribe(listener, 'ann'), await subscribe(listener, '*')]
    const words = Array.from({ length: 200 }, (_, at) => `word ${at} ünï "quoted"\n`)
    for (const text of words) sender.send(turnOf('ann'), { kind: 'stdout', text })
    sender.send({ ...turnOf('bob', 't9'), channelId: 'quiet' }, { kind: 'text', text: 'hello' })
    await until('all of it', async () => (ann.text() === words.join('') && all.text().includes('hello')) || undefined)
    expect(ann.received.map((one) => one.seq)).toEqual(ann.received.map((_, at) => at + 1))
    expect(ann.received[0]).toMatchObject({ agent_id: 'ann', agent_turn_id: 't1', turn_epoch: 1, kind: 'stdout' })
    expect(ann.received.some((one) => one.agent_id !== 'ann')).toBe(false)
    expect(sender.counts().sent).toBeLessThan(20)
    await ann.listening.stop()
    sender.send(turnOf('ann', 't2'), { kind: 'text', text: 'more' })
    await until('the others hear it', async () => all.text().endsWith('more') || undefined)
    expect(ann.text()).not.toContain('more')
  })

  it('arrive although they were sent before the connection was open', async () => {
    // Chunks wait 50 ms for more text; without that wait they are sent before any server has responded.
    const sleep: Clock['sleep'] = (ms, signal) => (ms < 500 ? Promise.resolve() : systemClock.sleep(ms, signal))
    const { received, text } = await subscribe(open(), 'early')
    const sender = open(adapter.open(server.url, { ...systemClock, sleep }))
    sender.send(turnOf('early'), { kind: 'text', text: 'hello' })
    await until('it arrives', async () => received.length > 0 || undefined)
    expect([text(), sender.counts().dropped]).toEqual(['hello', 0])
  })

  it('use bounded memory while a program prints without end, and the last ones count what was dropped', async () => {
    const [sender, listener] = [open(), open()]
    const { received } = await subscribe(listener, 'flood')
    const line = 'x'.repeat(1_000)
    for (let at = 0; at < 20_000; at += 1) sender.send(turnOf('flood'), { kind: 'stdout', text: line })
    sender.send(turnOf('flood'), { kind: 'stdout', text: 'the end' })
    await until('the end', async () => received.at(-1)?.text.endsWith('the end') || undefined)
    const total = received.reduce((sum, one) => sum + one.text.length + (one.dropped ?? 0), 0)
    expect(total).toBe(20_000 * 1_000 + 7)
    expect(sender.counts().dropped).toBeGreaterThan(19_000_000)
  })

  it('chunks are dropped while the server is down, and the next ones show the gap', async () => {
    const [sender, listener] = [open(), open()]
    const { received } = await subscribe(listener, 'ann')
    sender.send(turnOf('ann'), { kind: 'text', text: 'before' })
    await until('the first', async () => received.length > 0 || undefined)
    await server.kill()
    sender.send(turnOf('ann'), { kind: 'text', text: 'during the outage' })
    await until('the chunk is dropped', async () => sender.counts().dropped > 0 || undefined)
    await server.restart()
    // Sender and subscriber reconnect independently.
    const again = await until(
      'the next chunk arrives',
      async () => {
        sender.send(turnOf('ann'), { kind: 'text', text: 'after' })
        return received.find((one) => one.text.includes('after'))
      },
      30_000,
    )
    // The chunk sent during the outage is missing, and the first one after it may be missing too.
    expect(again.seq).toBeGreaterThan(2)
  })

  it('chunks are ignored if they are forged and not valid', async () => {
    const listener = open()
    const { received } = await subscribe(listener, 'ann')
    await adapter.forge(server.url, subjects.chunk({ project: 'p', channel: 'public' }, 'ann'))
    await until('the true one', async () => received.length > 0 || undefined)
    expect(received).toEqual([
      { agent_id: 'ann', agent_turn_id: 't', turn_epoch: 1, kind: 'text', text: 'true', seq: 1 },
    ])
  })

  it('chunks can be sent, subscribed to and closed without a server', async () => {
    const chunks = open(await adapter.nowhere())
    chunks.send(turnOf('ann'), { kind: 'text', text: 'hello?' })
    await until('the chunk is dropped', async () => chunks.counts().dropped === 6 || undefined)
    await (await chunks.listen(subjects.chunk(everywhere, '*'), () => undefined)).stop()
    await expect(chunks.listen('a..b', () => undefined)).rejects.toMatchObject({ code: 'invalid_subject' })
    await chunks.close()
    await expect(chunks.listen('a', () => undefined)).rejects.toMatchObject({ code: 'chunks_closed' })
  })
})

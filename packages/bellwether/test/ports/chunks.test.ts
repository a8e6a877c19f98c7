/** One suite for every way of streaming, each against its real server: what is said is heard, and nothing is harmed when it is not. */
import { connect } from '@nats-io/transport-node'
import pg from 'pg'
import { subjects } from '@bellwether/protocol'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { Chunk, Chunks } from '../../src/ports/chunks/chunks.js'
import { natsChunks } from '../../src/ports/chunks/nats.js'
import { notifyChunks } from '../../src/ports/chunks/notify.js'
import { freePort, startNats } from '../support/nats.js'
import { startOwnPostgres } from '../support/own-postgres.js'
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
    open: (url: string): Chunks => notifyChunks({ url, log }),
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
    open: (servers: string): Chunks => natsChunks({ servers, log }),
    nowhere: async () => natsChunks({ servers: `nats://127.0.0.1:${await freePort()}`, log }),
    async forge(url: string, subject: string) {
      const client = await connect({ servers: url, timeout: 5_000 })
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
  async function ear(chunks: Chunks, agentId: string) {
    const heard: Chunk[] = []
    const listening = await chunks.listen(subjects.chunk(everywhere, agentId), (one) => void heard.push(one))
    return { heard, listening, text: () => heard.map((one) => one.text).join('') }
  }

  it('are heard in another process in order, by who asks for that agent', async () => {
    const [speaker, listener] = [open(), open()]
    const [ann, all] = [await ear(listener, 'ann'), await ear(listener, '*')]
    const words = Array.from({ length: 200 }, (_, at) => `word ${at} ünï "quoted"\n`)
    for (const text of words) speaker.send(turnOf('ann'), { kind: 'stdout', text })
    speaker.send({ ...turnOf('bob', 't9'), channelId: 'quiet' }, { kind: 'text', text: 'hello' })
    await until('all of it', async () => (ann.text() === words.join('') && all.text().includes('hello')) || undefined)
    expect(ann.heard.map((one) => one.seq)).toEqual(ann.heard.map((_, at) => at + 1))
    expect(ann.heard[0]).toMatchObject({ agent_id: 'ann', agent_turn_id: 't1', turn_epoch: 1, kind: 'stdout' })
    expect(ann.heard.some((one) => one.agent_id !== 'ann')).toBe(false)
    expect(speaker.counts().sent).toBeLessThan(20)
    await ann.listening.stop()
    speaker.send(turnOf('ann', 't2'), { kind: 'text', text: 'more' })
    await until('the others hear it', async () => all.text().endsWith('more') || undefined)
    expect(ann.text()).not.toContain('more')
  })

  it('that a program prints without end cost no memory, and the last of them arrive with what is missing counted', async () => {
    const [speaker, listener] = [open(), open()]
    const { heard } = await ear(listener, 'flood')
    const line = 'x'.repeat(1_000)
    for (let at = 0; at < 20_000; at += 1) speaker.send(turnOf('flood'), { kind: 'stdout', text: line })
    speaker.send(turnOf('flood'), { kind: 'stdout', text: 'the end' })
    await until('the end', async () => heard.at(-1)?.text.endsWith('the end') || undefined)
    const said = heard.reduce((sum, one) => sum + one.text.length + (one.dropped ?? 0), 0)
    expect(said).toBe(20_000 * 1_000 + 7)
    expect(speaker.counts().dropped).toBeGreaterThan(19_000_000)
  })

  it(
    'go nowhere, and harm nobody, while the server is away; the next ones show the hole',
    { timeout: 60_000 },
    async () => {
      const [speaker, listener] = [open(), open()]
      const { heard } = await ear(listener, 'ann')
      speaker.send(turnOf('ann'), { kind: 'text', text: 'before' })
      await until('the first', async () => heard.length > 0 || undefined)
      await server.kill()
      speaker.send(turnOf('ann'), { kind: 'text', text: 'meanwhile' })
      await until('it is given up', async () => speaker.counts().dropped > 0 || undefined)
      await server.restart()
      // Whoever speaks and whoever listens come back by themselves, each in its time.
      const again = await until(
        'they hear each other again',
        async () => {
          speaker.send(turnOf('ann'), { kind: 'text', text: 'after' })
          return heard.find((one) => one.text.includes('after'))
        },
        30_000,
      )
      // A hole: what was said meanwhile is missing, and the first words after it may be, too.
      expect(again.seq).toBeGreaterThan(2)
    },
  )

  it('that others forge are not heard unless they are chunks', async () => {
    const listener = open()
    const { heard } = await ear(listener, 'ann')
    await adapter.forge(server.url, subjects.chunk({ project: 'p', channel: 'public' }, 'ann'))
    await until('the true one', async () => heard.length > 0 || undefined)
    expect(heard).toEqual([{ agent_id: 'ann', agent_turn_id: 't', turn_epoch: 1, kind: 'text', text: 'true', seq: 1 }])
  })

  it('can be sent, listened for and closed where there is no server', async () => {
    const chunks = open(await adapter.nowhere())
    chunks.send(turnOf('ann'), { kind: 'text', text: 'hello?' })
    await until('it is given up', async () => chunks.counts().dropped === 6 || undefined)
    await (await chunks.listen(subjects.chunk(everywhere, '*'), () => undefined)).stop()
    await expect(chunks.listen('a..b', () => undefined)).rejects.toMatchObject({ code: 'invalid_subject' })
    await chunks.close()
    await expect(chunks.listen('a', () => undefined)).rejects.toMatchObject({ code: 'chunks_closed' })
  })
})

/**
 * One suite for all bells, each against its real server: a bell calls its listeners, also when rings may have been missed, and
 * never throws, whatever is rung and whatever fails.
 */
import { systemClock, type Log } from '@bellwether/base'
import { createConnection, createServer } from 'node:net'
import { connect } from '@nats-io/transport-node'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { Ring } from '../../src/ports/bell/bell.js'
import { doorbellPath } from '../../src/ports/bell/doorbell.js'
import { natsBell } from '../../src/ports/bell/nats.js'
import { notifyBell } from '../../src/ports/bell/notify.js'
import type { MonitoredBell } from '../../src/ports/bell/ring.js'
import { freePort, startNats } from '../support/nats.js'
import { manualTimeout } from '../support/manual-timeout.js'
import { startOwnPostgres } from '../support/processes/own-postgres.js'
import { until } from '../support/until.js'
import { listen } from '../support/servers/listen.js'

const eventually = (what: string, look: () => boolean) => until(what, async () => look() || undefined)

const lines: { level: string; message: string; fields: object }[] = []
const note = (level: string) => (fields: object, message: string) => void lines.push({ level, message, fields })
const log: Log = { info: note('info'), warn: note('warn'), error: note('error') }

interface Server {
  readonly url: string
  kill(): Promise<void>
  restart(): Promise<void>
  stop(): Promise<void>
}

interface Adapter {
  readonly name: string
  start(): Promise<Server>
  bell(url: string): MonitoredBell
  unreachable(): Promise<MonitoredBell>
  /** What anyone with access to the server could send. */
  forge(url: string, subject: string): Promise<number>
}

const garbage = ['', 'not json', '{"p":', '[]', 'null', '17', '"text"', '\uFFFF']

async function forgeNotify(url: string, subject: string): Promise<number> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const shapes = ['[]', '17', '"text"', 'null'].map((p) => `{"s":"${subject}","p":${p},"t":{"x":1}}`)
  const lost = [...garbage, '{"s":17}', '{"s":null,"p":{}}', '{"probe":"0000"}', '{"__proto__":{"s":"x"}}']
  for (const text of [...lost, ...shapes]) await client.query('select pg_notify($1, $2)', ['bw', text])
  await client.end()
  return shapes.length
}

const adapters: Adapter[] = [
  {
    name: 'notify',
    start: startOwnPostgres,
    bell: (url) => notifyBell({ url, log }),
    unreachable: async () => notifyBell({ url: `postgres://postgres@127.0.0.1:${await freePort()}/postgres`, log }),
    forge: forgeNotify,
  },
  {
    name: 'shared notify',
    start: startOwnPostgres,
    bell: (url) => notifyBell({ url, log, sharedAt: doorbellPath(`${url}#bell.test`)! }),
    unreachable: async () => notifyBell({ url: `postgres://postgres@127.0.0.1:${await freePort()}/postgres`, log }),
    forge: forgeNotify,
  },
  {
    name: 'nats',
    start: () => startNats({ jetstream: false }),
    bell: (servers) => natsBell({ servers, log }),
    unreachable: async () => natsBell({ servers: `nats://127.0.0.1:${await freePort()}`, log }),
    async forge(url, subject) {
      const client = await connect({ servers: url, timeout: 60_000 })
      for (const text of garbage) client.publish(subject, text)
      client.publish(subject, new Uint8Array([0xff, 0xfe, 0x00]))
      client.publish(subject, 'x'.repeat(900_000))
      await client.flush()
      await client.close()
      return garbage.length + 2
    },
  },
]

const wakeup = (target: string, project = 'p1') => `bw.v1.${project}.public.cmd.agent.${target}.wakeup`
const trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'

describe.each(adapters)('the $name bell', (adapter) => {
  let server: Server
  const bells: MonitoredBell[] = []

  beforeAll(async () => {
    server = await adapter.start()
  })
  afterAll(() => server.stop())
  afterEach(async () => {
    await Promise.all(bells.splice(0).map((bell) => bell.close()))
  })

  function open(bell = adapter.bell(server.url)): MonitoredBell {
    bells.push(bell)
    return bell
  }

  /** A listener that remembers what it heard. */
  async function hearing(bell: MonitoredBell, pattern: string) {
    const heard: (Ring | undefined)[] = []
    const listening = await bell.listen(pattern, (ring) => heard.push(ring))
    return {
      listening,
      rings: () => heard.filter((ring) => ring !== undefined),
      looks: () => heard.filter((ring) => ring === undefined).length,
    }
  }

  it('reaches a listener in another process with payload and traceparent', async () => {
    const ear = await hearing(open(), 'bw.v1.*.*.cmd.agent.coder.wakeup')
    const ring = { subject: wakeup('coder'), payload: { agent_id: 'a1', text: 'ünï "quoted"' }, traceparent: trace }
    await open().ring([ring])
    await eventually('the ring', () => ear.rings().length > 0)
    expect(ear.rings()).toEqual([ring])
  })

  it('calls every listener once without a ring after it connects', async () => {
    const bell = open()
    const first = await hearing(bell, 'bw.>')
    await eventually('the first look', () => first.looks() > 0)
    const second = await hearing(bell, 'bw.>')
    await eventually('the second look', () => second.looks() > 0)
    await bell.ring([{ subject: wakeup('last'), payload: {} }])
    await eventually('a later ring', () => first.rings().length > 0 && second.rings().length > 0)
    expect([first.looks(), second.looks()]).toEqual([1, 1])
  })

  it('wakes only listeners whose pattern matches', async () => {
    const bell = open()
    const one = await hearing(bell, 'bw.v1.*.*.cmd.agent.coder.wakeup')
    const rest = await hearing(bell, 'bw.v1.p1.>')
    const subjects = [wakeup('coder'), wakeup('writer'), wakeup('coder', 'p2'), 'bw.v1.p1']
    await bell.ring(subjects.map((subject) => ({ subject, payload: {} })))
    await bell.ring([{ subject: 'bw.v1.p1.end', payload: {} }])
    await eventually('the last ring', () => rest.rings().some((ring) => ring.subject === 'bw.v1.p1.end'))
    await eventually('both wakeups', () => one.rings().length === 2)
    expect(one.rings().map((ring) => ring.subject)).toEqual([wakeup('coder'), wakeup('coder', 'p2')])
    expect(rest.rings().map((ring) => ring.subject)).toEqual([wakeup('coder'), wakeup('writer'), 'bw.v1.p1.end'])
  })

  it('delivers forged and malformed rings with an empty payload (T1.7)', async () => {
    const bell = open()
    const ear = await hearing(bell, 'bw.v1.*.*.cmd.agent.forged.wakeup')
    const readable = await adapter.forge(server.url, wakeup('forged'))
    await bell.ring([{ subject: wakeup('forged'), payload: { honest: true } }])
    await eventually('the honest ring', () => ear.rings().some((ring) => ring.payload['honest'] === true))
    const forged = ear.rings().filter((ring) => ring.payload['honest'] !== true)
    expect(forged).toEqual(Array.from({ length: readable }, () => ({ subject: wakeup('forged'), payload: {} })))
  })

  it('calls the other listeners if one throws', async () => {
    const bell = open()
    await bell.listen('bw.>', () => {
      throw new Error('a bug of the listener')
    })
    const ear = await hearing(bell, 'bw.>')
    await bell.ring([{ subject: wakeup('coder'), payload: {} }])
    await eventually('the ring', () => ear.rings().length > 0)
    expect(lines.some((line) => line.level === 'error' && line.message.includes('threw'))).toBe(true)
  })

  it('rings without a payload that is too large or not JSON, and drops invalid subjects', async () => {
    const bell = open()
    const ear = await hearing(bell, 'bw.>')
    const circular: Record<string, unknown> = {}
    circular['self'] = circular
    await bell.ring([
      { subject: wakeup('giant'), payload: { text: 'ü'.repeat(2_000_000) }, traceparent: trace },
      { subject: wakeup('edge'), payload: { text: 'x'.repeat(7_880) } },
      { subject: wakeup('circular'), payload: circular },
      { subject: wakeup('lying'), payload: {}, traceparent: 'x\r\nPUB evil' },
      { subject: 'bw.v1 space\r\n', payload: {} },
      { subject: '', payload: {} },
      { subject: `bw.${'x'.repeat(9_000)}`, payload: {} },
      { subject: wakeup('after'), payload: { small: 1 } },
    ])
    await eventually('the last ring', () => ear.rings().some((ring) => ring.subject === wakeup('after')))
    expect(ear.rings()[0]).toEqual({ subject: wakeup('giant'), payload: {}, traceparent: trace })
    const kept = ear.rings().map((ring) => ring.subject)
    expect(kept).toEqual(['giant', 'edge', 'circular', 'lying', 'after'].map((target) => wakeup(target)))
    expect(ear.rings()[3]).toEqual({ subject: wakeup('lying'), payload: {} })
    expect(bell.status().dropped).toBe(3)
  })

  it('sends 1,000 concurrent rings in a few round trips', async () => {
    const toolCall = 'bw.v1.p1.public.cmd.tool.many.call'
    const ear = await hearing(open(), 'bw.v1.*.*.cmd.tool.many.call')
    const bell = open()
    await bell.ring([{ subject: toolCall, payload: { n: -1 } }])
    await eventually('the first ring', () => ear.rings().length === 1)
    const before = bell.status().trips
    const calls = Array.from({ length: 1_000 }, (_, n) => bell.ring([{ subject: toolCall, payload: { n } }]))
    await Promise.all(calls)
    await eventually('all rings', () => new Set(ear.rings().map((ring) => ring.payload['n'])).size === 1_001)
    await eventually('all counted', () => bell.status().sent === 1_001)
    expect(bell.status().trips - before).toBeLessThanOrEqual(5)
  })

  it('calls only the listeners that have not stopped', async () => {
    const bell = open()
    const gone = await hearing(bell, 'bw.>')
    const stays = await hearing(bell, 'bw.>')
    await gone.listening.stop()
    await gone.listening.stop()
    await bell.ring([{ subject: wakeup('coder'), payload: {} }])
    await eventually('the ring', () => stays.rings().length > 0)
    expect(gone.rings()).toEqual([])
  })

  it('starts, rings and closes without a server', async () => {
    const bell = open(await adapter.unreachable())
    const ear = await hearing(bell, 'bw.>')
    await bell.ring([{ subject: wakeup('coder'), payload: {} }])
    expect([ear.looks(), bell.status().connected]).toEqual([0, false])
  })

  it('rejects an invalid pattern', async () => {
    await expect(open().listen('bw.v1 .>', () => {})).rejects.toMatchObject({ code: 'invalid_subject' })
  })

  it('neither throws nor blocks while the server is down, and calls its listeners after it reconnects (hazard 13)', async () => {
    const bell = open()
    const ear = await hearing(bell, 'bw.>')
    await eventually('the first look', () => ear.looks() === 1)
    await server.kill()
    await eventually('the loss', () => !bell.status().connected)
    const calls = Array.from({ length: 50 }, (_, n) => bell.ring([{ subject: wakeup('lost'), payload: { n } }]))
    await Promise.all(calls)
    await server.restart()
    await eventually('the second look', () => ear.looks() === 2)
    await eventually('the connection', () => bell.status().connected)
    await bell.ring([{ subject: wakeup('back'), payload: {} }])
    await eventually('a ring after the restart', () => ear.rings().some((ring) => ring.subject === wakeup('back')))
    expect(ear.looks()).toBe(2)
  })

  it('limits its queue while the server is down and counts dropped rings', async () => {
    const bell = open(await adapter.unreachable())
    const rings = Array.from({ length: 12_000 }, (_, n) => ({ subject: wakeup(`flood-${n}`), payload: { n } }))
    await bell.ring(rings)
    expect(bell.status().dropped).toBeGreaterThanOrEqual(7_000)
  })
})

describe('the notify bell under load', () => {
  let server: Awaited<ReturnType<typeof startOwnPostgres>>
  beforeAll(async () => {
    server = await startOwnPostgres()
  })
  afterAll(() => server.stop())

  it('sends a ring that comes during the round trip of an equal one', async () => {
    let nowMs = 0
    // Each reading is a second later, so that no round trip waits for the interval.
    const clock = { ...systemClock, monotonicMs: () => (nowMs += 1_000) }
    const bell = notifyBell({ url: server.url, log, clock })
    const heard: unknown[] = []
    await bell.listen('bw.>', (ring) => heard.push(ring?.payload['n']))
    await eventually('the connection', () => bell.status().connected)
    await bell.ring([{ subject: wakeup('start'), payload: { n: 0 } }])
    await eventually('the first ring', () => heard.includes(0))
    // The first one starts a round trip at once; the second one must not count as sent by it.
    await Promise.all([1, 2].map((n) => bell.ring([{ subject: wakeup('same'), payload: { n } }])))
    await bell.ring([{ subject: wakeup('end'), payload: { n: 3 } }])
    await eventually('the last ring', () => heard.includes(3))
    expect(heard.filter((n) => n !== undefined)).toEqual([0, 1, 2, 3])
    await bell.close()
  })

  it('sends one of the rings that wait to wake the same workers, and never loses one that comes later', async () => {
    const bell = notifyBell({ url: server.url, log })
    const heard: (Ring | undefined)[] = []
    await bell.listen('bw.>', (ring) => heard.push(ring))
    await eventually('the connection', () => bell.status().connected)
    const rings = Array.from({ length: 500 }, (_, n) => bell.ring([{ subject: wakeup('same'), payload: { n } }]))
    // During the first round trip: the ring must go in another one.
    const toolCall = { subject: 'bw.v1.p1.public.cmd.tool.t.call', payload: { tool_call_id: 'c1' } }
    await Promise.all([...rings, bell.ring([toolCall]), bell.ring([{ subject: wakeup('other'), payload: {} }])])
    const { sent, coalesced } = bell.status()
    expect({ all: sent + coalesced, few: sent < 20 }).toEqual({ all: 502, few: true })
    await bell.ring([{ subject: wakeup('same'), payload: { n: 'later' } }])
    await eventually('the later ring', () => heard.some((ring) => ring?.payload['n'] === 'later'))
    expect(heard).toContainEqual(toolCall)
    expect(heard).toContainEqual({ subject: wakeup('other'), payload: {} })
    await bell.close()
  })
})

/** Passes bytes on to a server, and misspells the statement "ring" once the server has prepared it, as if its session had changed. */
async function forgetfulPooler(to: URL) {
  let bound = 0
  const pooler = createServer((socket) => {
    const server = createConnection({ host: to.hostname, port: Number(to.port) })
    const text = (data: Buffer) => data.toString('latin1')
    socket.on('data', (data) => {
      if (text(data).includes('\0ring\0')) bound += 1
      server.write(bound < 2 ? data : Buffer.from(text(data).replaceAll('\0ring\0', '\0gone\0'), 'latin1'))
    })
    server.on('data', (data) => socket.write(data))
    socket.on('close', () => server.destroy()).on('error', () => undefined)
    server.on('close', () => socket.destroy()).on('error', () => undefined)
  })
  const port = await listen(pooler)
  const url = new URL(to)
  url.hostname = '127.0.0.1'
  url.port = String(port)
  return { url: url.href, bound: () => bound, close: () => pooler.close() }
}

describe('the notify bell behind a pooler', () => {
  it('loses no ring if the pooler drops prepared statements (hazard 13)', async () => {
    const server = await startOwnPostgres()
    const pooler = await forgetfulPooler(new URL(server.url))
    const bell = notifyBell({ url: pooler.url, directUrl: server.url, log, probeEveryMs: 600_000 })
    const heard: unknown[] = []
    await bell.listen('bw.>', (ring) => heard.push(ring?.payload['n']))
    await eventually('the connection', () => bell.status().connected)
    for (const n of [1, 2, 3]) {
      await bell.ring([{ subject: wakeup(`w${n}`), payload: { n } }])
      await eventually('the ring', () => heard.includes(n))
    }
    expect({ failed: bell.status().failed, misspelled: pooler.bound() > 1 }).toEqual({ failed: 0, misspelled: true })
    await bell.close()
    pooler.close()
    await server.stop()
  })

  it('the notify bell behind a pooler warns once that rings do not arrive and reports itself unhealthy (hazard 13)', async () => {
    const server = await startOwnPostgres()
    const admin = new pg.Client({ connectionString: server.url })
    await admin.connect()
    // Notifications stay inside one database: to the bell this looks like a pooler that swallows them.
    await admin.query('create database elsewhere')
    await admin.end()
    const direct = new URL(server.url)
    direct.pathname = '/elsewhere'
    const directUrl = direct.href
    const bell = notifyBell({ url: server.url, directUrl, log, probeEveryMs: 20, probeWaitMs: 100 })
    // On a busy machine a probe of the healthy bell may take long, so its timeout never elapses.
    const probeWaitMs = 4_999
    const { clock } = manualTimeout(probeWaitMs)
    const healthy = notifyBell({ url: server.url, log, clock, probeEveryMs: 20, probeWaitMs })
    lines.length = 0
    await Promise.all([bell.listen('bw.>', () => {}), healthy.listen('bw.>', () => {})])
    await eventually('the finding', () => !bell.status().healthy)
    const trips = bell.status().trips
    await eventually('three more probes', () => bell.status().trips >= trips + 3)
    await eventually('a probe of the healthy bell has arrived', () => healthy.status().trips >= 2)
    expect(lines.filter((line) => line.message.includes('do not arrive'))).toHaveLength(1)
    expect([bell.status().connected, healthy.status().healthy]).toEqual([true, true])
    await Promise.all([bell.close(), healthy.close()])
    await server.stop()
  })
})

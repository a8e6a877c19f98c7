/** Tests that clients that send too much or read nothing do not stop heartbeats and other readers, with the default limits. */
import { connect } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { file, keyOf, openViewServer, type ViewServer, type Sensor } from './pipe-client.js'

let server: ViewServer
let sensor: Sensor
beforeEach(async () => {
  server = await openViewServer({ v: {}, other: {} })
  sensor = await server.connect('host')
  await sensor.snapshot(file('/a'))
})
afterEach(() => server.close())

const alive = async () =>
  (await sensor.heartbeat()).status === 200 && (await server.get('/views/v/tree?path=/a')).status === 200

describe('clients', () => {
  it('[V1.5] [V6.10] a flood of wrong keys, huge and nested bodies does not delay heartbeats of others', async () => {
    const other = await server.connect('calm', { view: 'other' })
    const giant = Buffer.alloc(7 * 1_024 * 1_024, ' ')
    const raw = (body: Buffer) => server.call('POST', `/pipe/ingest/${sensor.id}/events`, body)
    const nested = Buffer.from(`{"events":${'['.repeat(1_000_000)}${']'.repeat(1_000_000)}}`)
    const wrong = () => server.call('POST', '/pipe/session/', { task_id: 'x' }, { key: `wrong-${'x'.repeat(300)}` })
    let isOver = false
    const beating = (async () => {
      let beats = 0
      for (; !isOver; beats += 1) expect((await other.heartbeat()).status).toBe(200)
      return beats
    })()
    for (let round = 0; round < 5; round += 1) {
      const answers = await Promise.all([raw(giant), raw(nested), ...Array.from({ length: 20 }, wrong)])
      expect(answers.map(({ status }) => status)).toEqual([400, 400, ...Array.from({ length: 20 }, () => 401)])
    }
    isOver = true
    expect(await beating).toBeGreaterThan(5)
    expect(await alive()).toBe(true)
  })

  it('[V6.8] a client that requests everything and reads nothing delays no other client', async () => {
    await sensor.snapshot(...Array.from({ length: 15_000 }, (_, i) => file(`/big/${i}-with-a-long-name`)))
    const ask = `GET /api/v1/views/v/tree HTTP/1.1\r\nHost: x\r\nX-API-Key: ${keyOf('v')}\r\n\r\n`
    const deaf = Array.from({ length: 8 }, () => connect(Number(new URL(server.url).port), '127.0.0.1'))
    for (const socket of deaf) socket.on('error', () => socket.destroy()).write(ask)
    await Promise.all(deaf.map((socket) => new Promise((resolve) => socket.once('readable', resolve))))
    for (let i = 0; i < 3; i += 1) {
      expect(await alive()).toBe(true)
      expect((await sensor.realtime(file(`/big/more-${i}`))).body).toMatchObject({ count: 1 })
      expect((await server.get('/views/v/tree?path=/big&only_path=1')).body.children!.length).toBe(15_001 + i)
    }
    for (const socket of deaf) socket.destroy()
  })
})

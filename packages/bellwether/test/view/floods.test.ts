/** More than anybody should send, or nobody who reads: heartbeats and other readers go on. Limits of time are as served. */
import { connect } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { file, keyOf, openDesk, type Desk, type Sensor } from './pipe-client.js'

let desk: Desk
let sensor: Sensor
beforeEach(async () => {
  desk = await openDesk({ v: {}, other: {} })
  sensor = await desk.connect('host')
  await sensor.snapshot(file('/a'))
})
afterEach(() => desk.close())

const alive = async () =>
  (await sensor.heartbeat()).status === 200 && (await desk.get('/views/v/tree?path=/a')).status === 200

describe('clients', () => {
  it('[V1.5] [V6.10] that flood with wrong keys, giant bodies and nested ones do not keep others from their heartbeats', async () => {
    const other = await desk.connect('calm', { view: 'other' })
    const giant = Buffer.alloc(7 * 1_024 * 1_024, ' ')
    const raw = (body: Buffer) => desk.call('POST', `/pipe/ingest/${sensor.id}/events`, body)
    const nested = Buffer.from(`{"events":${'['.repeat(1_000_000)}${']'.repeat(1_000_000)}}`)
    const wrong = () => desk.call('POST', '/pipe/session/', { task_id: 'x' }, { key: `wrong-${'x'.repeat(300)}` })
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

  it('[V6.8] that ask for everything and read nothing are waited for, and nobody else is', async () => {
    await sensor.snapshot(...Array.from({ length: 15_000 }, (_, i) => file(`/big/${i}-with-a-long-name`)))
    const ask = `GET /api/v1/views/v/tree HTTP/1.1\r\nHost: x\r\nX-API-Key: ${keyOf('v')}\r\n\r\n`
    const deaf = Array.from({ length: 8 }, () => connect(Number(new URL(desk.url).port), '127.0.0.1'))
    for (const socket of deaf) socket.on('error', () => socket.destroy()).write(ask)
    await Promise.all(deaf.map((socket) => new Promise((resolve) => socket.once('readable', resolve))))
    for (let i = 0; i < 3; i += 1) {
      expect(await alive()).toBe(true)
      expect((await sensor.realtime(file(`/big/more-${i}`))).body).toMatchObject({ count: 1 })
      expect((await desk.get('/views/v/tree?path=/big&only_path=1')).body.children!.length).toBe(15_001 + i)
    }
    for (const socket of deaf) socket.destroy()
  })
})

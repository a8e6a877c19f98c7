/** Sensors as real processes: killed, paused, and a server that goes away and comes back. */
import { spawn, type ChildProcess } from 'node:child_process'
import { mkdirSync, unlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { barrier, differences, makeWorld, same, until, type World } from './support/world.js'

const script = fileURLToPath(new URL('support/child.ts', import.meta.url))
const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href

describe('a sensor process', () => {
  let world: World
  const children: ChildProcess[] = []
  beforeEach(async () => {
    world = await makeWorld({ sessionTimeoutSeconds: 3 })
    mkdirSync(world.at('d'))
    writeFileSync(world.at('d', 'f'), '1')
  })
  afterEach(async () => {
    for (const child of children.splice(0)) child.kill('SIGKILL')
    await world.end()
  })
  function start(id: string): ChildProcess {
    const words = ['--import', tsx, '--conditions=@bellwether/source', script, world.root, world.fusion.url, id]
    const child = spawn(process.execPath, words, { stdio: ['pipe', 'ignore', 'inherit'] })
    children.push(child)
    return child
  }
  const settled = (snapshots: number) =>
    until(
      `${snapshots} snapshots`,
      () => world.fusion.snapshots >= snapshots && world.fusion.audits.length >= snapshots,
      25_000,
    )

  it('[V5.1] killed and started anew, it tells what happened while it was away: the view equals the disk', async () => {
    const first = start('one')
    await settled(1)
    first.kill('SIGKILL')
    await until('gone', () => first.signalCode !== null)
    writeFileSync(world.at('d', 'meanwhile'), '22')
    unlinkSync(world.at('d', 'f'))
    start('one')
    await settled(2)
    expect(differences(world.fusion, world.root)).toEqual([])
  })

  it('[V5.5] [V1.6] paused beyond its session and woken, it makes a new one and misses nothing', async () => {
    const child = start('one')
    await settled(1)
    child.kill('SIGSTOP')
    writeFileSync(world.at('d', 'while-paused'), '333')
    unlinkSync(world.at('d', 'f'))
    world.fusion.endSession()
    child.kill('SIGCONT')
    await until('a new session', () => world.fusion.sessions === 2)
    await settled(2)
    await barrier(world.fusion)
    expect(differences(world.fusion, world.root)).toEqual([])
    const status = world.fusion.of('POST session/:id/heartbeat').at(-1)!.body['agent_status'] as {
      tasks: { stuck: number }[]
    }
    expect(status.tasks.every(({ stuck }) => stuck === 0)).toBe(true)
  })

  it('[V1.6] a server that dies and comes back finds the sensor at its door, with what it had not taken', async () => {
    const sensor = world.sensor()
    await settled(1)
    const { port } = world.fusion
    await world.fusion.stop()
    writeFileSync(world.at('d', 'unsent'), '4444')
    await until('a failed beat', () => sensor.status()[0]!.consecutiveErrors > 0)
    await world.fusion.start(port)
    await same(world, 25_000)
    await barrier(world.fusion)
    expect(sensor.units().every(({ state }) => state === 'ok')).toBe(true)
  })
})

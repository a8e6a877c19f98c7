/** Tests sensors as real processes that are killed or paused, and a server that restarts. */
import { spawn, type ChildProcess } from 'node:child_process'
import { mkdirSync, unlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { barrier, differences, openFixture, same, until, type Fixture } from './support/fixture.js'

const script = fileURLToPath(new URL('support/child.ts', import.meta.url))
const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href

describe('a sensor process', () => {
  let fixture: Fixture
  const children: ChildProcess[] = []
  beforeEach(async () => {
    fixture = await openFixture({ sessionTimeoutSeconds: 3 })
    mkdirSync(fixture.at('d'))
    writeFileSync(fixture.at('d', 'f'), '1')
  })
  afterEach(async () => {
    for (const child of children.splice(0)) child.kill('SIGKILL')
    await fixture.end()
  })
  function start(id: string): ChildProcess {
    const words = ['--import', tsx, '--conditions=@bellwether/source', script, fixture.root, fixture.server.url, id]
    const child = spawn(process.execPath, words, { stdio: ['pipe', 'ignore', 'inherit'] })
    children.push(child)
    return child
  }
  const settled = (snapshots: number) =>
    until(
      `${snapshots} snapshots`,
      () => fixture.server.snapshots >= snapshots && fixture.server.audits.length >= snapshots,
      25_000,
    )

  it('[V5.1] a sensor that is killed and restarted reports what changed in between: the view equals the disk', async () => {
    const first = start('one')
    await settled(1)
    first.kill('SIGKILL')
    await until('gone', () => first.signalCode !== null)
    writeFileSync(fixture.at('d', 'during'), '22')
    unlinkSync(fixture.at('d', 'f'))
    start('one')
    await settled(2)
    expect(differences(fixture.server, fixture.root)).toEqual([])
  })

  it('[V5.5] [V1.6] a sensor that is paused longer than its session timeout creates a new session and misses nothing', async () => {
    const child = start('one')
    await settled(1)
    child.kill('SIGSTOP')
    writeFileSync(fixture.at('d', 'while-paused'), '333')
    unlinkSync(fixture.at('d', 'f'))
    fixture.server.endSession()
    child.kill('SIGCONT')
    await until('a new session', () => fixture.server.sessions === 2)
    await settled(2)
    await barrier(fixture.server)
    expect(differences(fixture.server, fixture.root)).toEqual([])
    const status = fixture.server.of('POST session/:id/heartbeat').at(-1)!.body['agent_status'] as {
      tasks: { stuck: number }[]
    }
    expect(status.tasks.every(({ stuck }) => stuck === 0)).toBe(true)
  })

  it('[V1.6] keeps unacknowledged events until a restarted server accepts them', async () => {
    const sensor = fixture.sensor()
    await settled(1)
    const { port } = fixture.server
    await fixture.server.stop()
    writeFileSync(fixture.at('d', 'unsent'), '4444')
    await until('a failed heartbeat', () => sensor.status()[0]!.consecutiveErrors > 0)
    await fixture.server.start(port)
    await same(fixture, 25_000)
    await barrier(fixture.server)
    expect(sensor.units().every(({ state }) => state === 'ok')).toBe(true)
  })
})

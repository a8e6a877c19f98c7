/** Tests several sensor processes on one directory: leadership, takeover, and recovery after a dead server or session. */
import { mkdirSync, rmSync, unlinkSync, writeFileSync } from 'node:fs'
import { afterEach, describe, expect, it } from 'vitest'
import { until } from '../../support/until.js'
import { Fleet, countLogged, type FleetOptions } from './fleet.js'

const fleets: Fleet[] = []
async function fleetOf(options: FleetOptions, ...ids: readonly string[]): Promise<Fleet> {
  const fleet = new Fleet(options)
  fleets.push(fleet)
  for (let d = 0; d < 60; d += 1) {
    mkdirSync(fleet.at(`d${d}`))
    for (let f = 0; f < 50; f += 1) writeFileSync(fleet.at(`d${d}`, `f${f}`), 'x'.repeat(f))
  }
  await fleet.serve()
  for (const id of ids) {
    fleet.sensor(id)
    // One after the other, because the first to connect leads.
    await until(`session of ${id}`, async () => (await fleet.sessions()).some((s) => s.agent_id === id) || undefined)
    // The server must know that it is realtime before the next regular heartbeat: barriers go to realtime sensors only.
    await until(`${id} follows changes`, async () => (await ofAgent(fleet, id))?.can_realtime || undefined)
  }
  await fleet.connected(...ids)
  return fleet
}
const ofAgent = async (fleet: Fleet, id: string) => (await fleet.sessions()).find(({ agent_id }) => agent_id === id)

afterEach(async () => {
  for (const fleet of fleets.splice(0)) await fleet.end()
})

describe('sensors on one directory', () => {
  it('[V1.1] [V1.2] [V1.3] [V1.7] [V2.2] the first sensor leads and followers scan nothing; a leader that is killed during an audit or frozen is replaced without loss', async () => {
    // So long that a busy machine alone replaces no leader.
    const fleet = await fleetOf({ session: 6, audit: 0.4 }, 'a', 'b', 'c')
    expect(await fleet.leader()).toBe('a')
    await fleet.audited()
    for (const id of ['b', 'c']) {
      const cli = fleet.sensors.get(id)!
      const { agent_status: status } = (await ofAgent(fleet, id))!
      expect(status!.tasks.map(({ name }) => name)).toEqual(['pipe-1/realtime'])
      expect([countLogged(cli, 'snapshot sent'), countLogged(cli, 'audit sent')]).toEqual([0, 0])
    }
    expect(countLogged(fleet.sensors.get('a')!, 'snapshot sent')).toBe(1)

    await until('an audit is under way', async () => ((await fleet.stats())?.is_auditing ? true : undefined))
    fleet.sensors.get('a')!.signal('SIGKILL')
    unlinkSync(fleet.at('d1', 'f1'))
    writeFileSync(fleet.at('d2', 'after-the-kill'), 'new')
    const second = await fleet.leads('b', 'c')
    const third = second === 'b' ? 'c' : 'b'
    await fleet.equal()
    await fleet.audited()
    expect(countLogged(fleet.sensors.get(second)!, 'snapshot sent')).toBe(1)
    expect(await fleet.leader()).toBe(second)

    fleet.sensors.get(second)!.signal('SIGSTOP')
    rmSync(fleet.at('d3'), { recursive: true })
    writeFileSync(fleet.at('d4', 'while-frozen'), 'new')
    await fleet.leads(third)
    await fleet.equal()
    fleet.sensors.get(second)!.signal('SIGCONT')
    // After SIGCONT it learns that its session has ended and follows; it does not become leader again.
    await until(`${second} follows`, async () => (await ofAgent(fleet, second))?.role === 'follower' || undefined)
    await fleet.audited()
    expect(await fleet.leader()).toBe(third)
    expect(countLogged(fleet.sensors.get(third)!, 'snapshot sent')).toBe(1)
    await fleet.equal()
  })

  it('[V1.4] [V1.6] [V5.1] [V6.8] sensors fill a restarted server again, and replace a session that was ended by force at once', async () => {
    // A regular heartbeat would notice it only after 20 s.
    // So long that a busy machine alone replaces no leader.
    const fleet = await fleetOf({ session: 60 }, 'a', 'b')
    await fleet.equal()
    const before = (await ofAgent(fleet, 'a'))!.session_id
    fleet.server.signal('SIGKILL')
    await fleet.server.ended
    unlinkSync(fleet.at('d5', 'f5'))
    writeFileSync(fleet.at('d6', 'while-the-server-was-dead'), 'new')
    await fleet.serve()
    await fleet.connected('a', 'b')
    await fleet.equal()
    expect((await ofAgent(fleet, 'a'))!.session_id).not.toBe(before)

    const leader = (await fleet.leader())!
    const { session_id: ended } = (await ofAgent(fleet, leader))!
    expect((await fleet.ask(`/views/v/sessions/${ended}`, { method: 'DELETE' })).status).toBe(200)
    writeFileSync(fleet.at('d7', 'after-the-end-by-force'), 'new')
    const again = await until(
      'another session of the same sensor',
      async () => {
        const session = await ofAgent(fleet, leader)
        return session !== undefined && session.session_id !== ended ? session : undefined
      },
      5_000,
    )
    expect(again.role).toBe('follower')
    expect(await fleet.leader()).toBe(leader === 'a' ? 'b' : 'a')
    await fleet.equal()
  })
})

/** Several sensor processes on one directory: who leads, who takes over, and what a dead server or session costs. */
import { mkdirSync, rmSync, unlinkSync, writeFileSync } from 'node:fs'
import { afterEach, describe, expect, it } from 'vitest'
import { until } from '../../support/until.js'
import { Fleet, said, type FleetOptions } from './fleet.js'

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
    // One after the other: the first to connect leads.
    await until(`session of ${id}`, async () => (await fleet.sessions()).some((s) => s.agent_id === id) || undefined)
    // Long before the next heartbeat of a long session is due: barriers ask only those that are known to follow changes.
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
  it('[V1.1] [V1.2] [V1.3] [V1.7] [V2.2] the first leads, followers read nothing; killed in the middle of an audit or frozen, it is replaced, and nothing is lost', async () => {
    const fleet = await fleetOf({ session: 2 }, 'a', 'b', 'c')
    expect(await fleet.leader()).toBe('a')
    await fleet.audited()
    for (const id of ['b', 'c']) {
      const cli = fleet.sensors.get(id)!
      const { agent_status: status } = (await ofAgent(fleet, id))!
      expect(status!.tasks.map(({ name }) => name)).toEqual(['pipe-1/realtime'])
      expect([said(cli, 'snapshot done'), said(cli, 'audit done')]).toEqual([0, 0])
    }
    expect(said(fleet.sensors.get('a')!, 'snapshot done')).toBe(1)

    await until('an audit is under way', async () => ((await fleet.stats())?.is_auditing ? true : undefined))
    fleet.sensors.get('a')!.signal('SIGKILL')
    unlinkSync(fleet.at('d1', 'f1'))
    writeFileSync(fleet.at('d2', 'after-the-kill'), 'new')
    const second = await fleet.leads('b', 'c')
    const third = second === 'b' ? 'c' : 'b'
    await fleet.equal()
    await fleet.audited()
    expect(said(fleet.sensors.get(second)!, 'snapshot done')).toBe(1)
    expect(await fleet.leader()).toBe(second)

    fleet.sensors.get(second)!.signal('SIGSTOP')
    rmSync(fleet.at('d3'), { recursive: true })
    writeFileSync(fleet.at('d4', 'while-frozen'), 'new')
    await fleet.leads(third)
    await fleet.equal()
    fleet.sensors.get(second)!.signal('SIGCONT')
    // Woken, it learns that its session is over, and follows: a lead is not taken back.
    await until(`${second} follows`, async () => (await ofAgent(fleet, second))?.role === 'follower' || undefined)
    await fleet.audited()
    expect(await fleet.leader()).toBe(third)
    expect(said(fleet.sensors.get(third)!, 'snapshot done')).toBe(1)
    await fleet.equal()
  }, 60_000)

  it('[V1.4] [V1.6] [V5.1] [V6.8] a server killed and started again is filled by its sensors; a session ended by force is made anew at once', async () => {
    // Silence alone would take 20 s to be noticed.
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
  }, 60_000)
})

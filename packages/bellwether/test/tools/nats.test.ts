/** Tools on NATS: hosts that are no part of a worker hear commands from a real nats-server and claim before they act. */
import { connect } from '@nats-io/transport-node'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startNats, type NatsServer } from '../support/nats.js'
import { hostOutside } from '../support/outside-host.js'
import { openToolWorld, project, type ToolWorld } from './world.js'

let nats: NatsServer
let world: ToolWorld
beforeAll(async () => {
  nats = await startNats()
  world = await openToolWorld({}, nats.url)
  await world.kernel.putTool({ projectId: project, toolName: 'weather', description: 'tells the weather' })
  await Promise.all([world.add('worker'), world.add('pmo')])
}, 90_000)
afterAll(async () => {
  await world.stop()
  await nats.stop()
})

it(
  'a call on NATS is run once, by one of several hosts, and lies on the wire start nothing',
  { timeout: 60_000 },
  async () => {
    const runs: unknown[] = []
    const act = async (args: unknown) => {
      runs.push(args)
      return { sky: 'blue' }
    }
    const hosts = await Promise.all([1, 2, 3].map(() => hostOutside(world.kernel, nats.url, 'weather', act)))
    const turns = await Promise.all([1, 2, 3, 4].map((n) => world.begin({ tool: 'weather', args: { n } })))
    for (const turn of turns) expect(await world.ended(turn)).toEqual({ weather: 'success' })
    expect(runs).toHaveLength(4)

    // Commands that nobody sent for, or again for calls that are long answered.
    const liar = await connect({ servers: nats.url })
    const [wait] = await world.db.query<{ tool_call_id: string }>({
      text: 'select tool_call_id from state.turn_waiting_tools limit 1',
    })
    const before = hosts.flatMap((host) => host.heard).length
    for (const tool_call_id of [wait!.tool_call_id, 'no-such-call'])
      liar.publish(
        `bw.v1.${project}.public.cmd.tool.weather.call`,
        JSON.stringify({ tool_call_id, arguments: { n: 666 } }),
      )
    await liar.flush()
    await expect.poll(() => hosts.flatMap((host) => host.heard).length).toBe(before + 6)
    expect(runs).toHaveLength(4)
    await liar.close()
    await Promise.all(hosts.map((host) => host.stop()))
  },
)

it('[T1.4] a call that nobody heard is sent again, and runs when a host comes', { timeout: 60_000 }, async () => {
  const turn = await world.begin({ tool: 'weather' })
  const sent = () =>
    world.db.query({ text: "select from state.events where agent_turn_id = $1 and kind = 'command'", values: [turn] })
  await expect.poll(async () => (await sent()).length, { timeout: 20_000 }).toBeGreaterThan(1)
  const host = await hostOutside(world.kernel, nats.url, 'weather', async () => {
    throw new Error('no sky today')
  })
  expect(await world.ended(turn)).toEqual({ weather: 'tool_failed' })
  await host.stop()
})

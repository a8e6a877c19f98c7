/** Tools on NATS: hosts outside a worker receive commands from a real nats-server and claim before they act. */
import { connect } from '@nats-io/transport-node'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startNats, type NatsServer } from '../support/nats.js'
import { hostOutside } from '../support/agents/outside-host.js'
import { openToolProcesses, project, type ToolProcesses } from './tool-processes.js'

let nats: NatsServer
let processes: ToolProcesses
beforeAll(async () => {
  nats = await startNats()
  processes = await openToolProcesses({}, nats.url)
  await processes.kernel.putTool({ projectId: project, toolName: 'weather', description: 'tells the weather' })
  await Promise.all([processes.add('worker'), processes.add('pmo')])
})
afterAll(async () => {
  await processes.stop()
  await nats.stop()
})

it('one of several hosts runs a call on NATS once, and forged commands start nothing', async () => {
  const runs: unknown[] = []
  const act = async (args: unknown) => {
    runs.push(args)
    return { sky: 'blue' }
  }
  const hosts = await Promise.all([1, 2, 3].map(() => hostOutside(processes.kernel, nats.url, 'weather', act)))
  const turns = await Promise.all([1, 2, 3, 4].map((n) => processes.begin({ tool: 'weather', args: { n } })))
  for (const turn of turns) expect(await processes.ended(turn)).toEqual({ weather: 'success' })
  expect(runs).toHaveLength(4)

  // Forged commands, and repeated commands for calls that have ended.
  const liar = await connect({ servers: nats.url })
  const [wait] = await processes.db.query<{ tool_call_id: string }>({
    text: 'select tool_call_id from state.turn_waiting_tools limit 1',
  })
  const before = hosts.flatMap((host) => host.verdicts).length
  for (const tool_call_id of [wait!.tool_call_id, 'no-such-call'])
    liar.publish(
      `bw.v1.${project}.public.cmd.tool.weather.call`,
      JSON.stringify({ tool_call_id, arguments: { n: 666 } }),
    )
  await liar.flush()
  await expect.poll(() => hosts.flatMap((host) => host.verdicts).length).toBe(before + 6)
  expect(runs).toHaveLength(4)
  await liar.close()
  await Promise.all(hosts.map((host) => host.stop()))
})

it('[T1.4] resends the command of a call until a host runs it', async () => {
  const turn = await processes.begin({ tool: 'weather' })
  const sent = () =>
    processes.db.query({
      text: "select from state.events where agent_turn_id = $1 and kind = 'command'",
      values: [turn],
    })
  await expect.poll(async () => (await sent()).length).toBeGreaterThan(1)
  const host = await hostOutside(processes.kernel, nats.url, 'weather', async () => {
    throw new Error('no sky today')
  })
  expect(await processes.ended(turn)).toEqual({ weather: 'tool_failed' })
  await host.stop()
})

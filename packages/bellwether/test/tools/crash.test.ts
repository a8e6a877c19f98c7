/** Workers killed at random while tools run: a counter on the other side tells how often each call took effect. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { readProcesses } from '../../src/ports/processes/proc.js'
import { startCounter, type Counter } from '../support/agents/counter.js'
import { fakeMcp, type Cli } from '../support/process.js'
import { thorough } from '../support/thorough.js'
import { until } from '../support/until.js'
import { codeDefinitions, openToolProcesses, type ToolProcesses } from './tool-processes.js'

let counter: Counter
let processes: ToolProcesses
let servers: ToolProcesses
beforeAll(async () => {
  counter = await startCounter()
  const tool = { description: 'counts', url: counter.url, allow_private: true, timeout_seconds: 3 }
  const declared = { tools: { once: tool, free: { ...tool, idempotent: true } } }
  const mcp = { command: process.execPath, args: [fakeMcp, 'stdio'] }
  processes = await openToolProcesses({ 'tools.json': declared })
  servers = await openToolProcesses({ 'tools.json': declared, 'mcp.json': { mcpServers: { fake: mcp } } })
})
afterAll(async () => {
  await Promise.all([processes.stop(), servers.stop()])
  await counter.stop()
})

interface Wait {
  readonly agent_turn_id: string
  readonly tool_call_id: string
  readonly tool_name: string
  readonly started_by: string | null
}
const waits = (where: string, ...values: unknown[]) => waitsIn(processes, where, ...values)
const waitsIn = ({ db }: ToolProcesses, where: string, ...values: unknown[]) =>
  db.query<Wait>({ text: `select * from state.turn_waiting_tools where ${where}`, values })

it('[T8.2] if hosts are killed with SIGKILL during calls, non-idempotent calls run at most once and idempotent calls succeed', async () => {
  const workers = new Map<string, Cli>()
  const addWorker = async () => {
    const cli = await processes.add('worker')
    workers.set(String((await cli.ready())['worker_id']), cli)
  }
  await Promise.all([addWorker(), addWorker()])
  const turns: string[] = []
  const ask = async () => {
    const begun = Array.from({ length: 6 }, () => processes.begin({ tool: 'once' }, { tool: 'free' }))
    turns.push(...(await Promise.all(begun)))
  }

  /** Kills a worker while a call of this tool that it has started is being worked on by the service. */
  async function killOneAtWork(tool: string): Promise<string> {
    const { id, victim } = await until('a call is in the middle', async () => {
      for (const one of await waits("tool_name = $1 and wait_status = 'waiting' and started_by is not null", tool)) {
        const busy = workers.get(one.started_by!)
        if (counter.pending.has(one.tool_call_id) && busy?.alive() === true)
          return { id: one.tool_call_id, victim: busy }
      }
      return undefined
    })
    victim.signal('SIGKILL')
    await Promise.all([victim.ended, addWorker()])
    return id
  }
  const cut: string[] = []
  const kills = thorough ? ['once', 'free', 'once', 'free'] : ['once', 'free']
  for (const tool of kills) {
    const begun = ask()
    cut.push(await killOneAtWork(tool))
    await begun
  }

  const results = new Map<string, Readonly<Record<string, string>>>()
  for (const turn of turns) results.set(turn, await processes.ended(turn, 90_000))
  const all = await waits('true')
  expect(all).toHaveLength(12 * kills.length)
  const wrong = all.filter(({ agent_turn_id, tool_call_id, tool_name }) => {
    const count = counter.counts.get(tool_call_id) ?? 0
    const result = results.get(agent_turn_id)?.[tool_name]
    if (tool_name === 'free') return result !== 'success' || count < 1
    return result === 'success' ? count !== 1 : result !== 'tool_timeout' || count > 1
  })
  expect(wrong).toEqual([])
  // The interrupted calls: the non-idempotent ones are unknown, the idempotent ones were repeated.
  const waitOf = (id: string) => all.find((one) => one.tool_call_id === id)!
  for (const id of cut) {
    const { agent_turn_id: turn, tool_name: tool } = waitOf(id)
    const count = counter.counts.get(id) ?? 0
    // An idempotent call is repeated once, or more often if the next host was slow and counted as dead.
    const repeated = count > 1
    expect({ tool, result: results.get(turn)?.[tool], repeated }).toEqual(
      tool === 'once' ? { tool, result: 'tool_timeout', repeated: false } : { tool, result: 'success', repeated: true },
    )
  }
  for (const cli of workers.values()) cli.signal('SIGTERM')
  await Promise.all([...workers.values()].map((cli) => cli.ended))
})

it('a worker runs function and MCP tools, and leaves no server process after SIGKILL', async () => {
  expect(codeDefinitions).toEqual({ agents: ['*'], tools: ['double'] })
  const worker = await servers.add('worker')
  const turn = await servers.begin(
    { tool: 'fake__echo', args: { text: 'x' } },
    { tool: 'fake__refuse' },
    { tool: 'fake__breed' },
    { tool: 'double', args: { n: 21 } },
  )
  expect(await servers.ended(turn)).toEqual({
    fake__echo: 'success',
    fake__refuse: 'mcp_error',
    fake__breed: 'success',
    double: 'success',
  })
  const serverProcesses = () => readProcesses().filter((one) => one.token?.includes(`.${worker.pid}.`) ?? false)
  expect(serverProcesses().length).toBeGreaterThanOrEqual(2)
  worker.signal('SIGKILL')
  await until('nothing is left', async () => serverProcesses().length === 0 || undefined, 10_000)
})

it('a worker that gets SIGTERM ends its MCP servers and reports every call', async () => {
  const worker = await servers.add('worker')
  const turn = await servers.begin({ tool: 'once' })
  const [wait] = await until('it is at work', async () => {
    const rows = await waitsIn(servers, 'agent_turn_id = $1 and started_by is not null', turn)
    return rows.length > 0 && counter.pending.has(rows[0]!.tool_call_id) ? rows : undefined
  })
  worker.signal('SIGTERM')
  expect(await worker.ended).toBe(0)
  expect(readProcesses().filter((one) => one.token?.includes(`.${worker.pid}.`) ?? false)).toEqual([])
  const rows = await servers.db.query({
    text: "select from state.agent_inbox where correlation_id = $1 and message_type = 'tool_result'",
    values: [wait!.tool_call_id],
  })
  expect(rows).toHaveLength(1)
  expect(counter.counts.get(wait!.tool_call_id)).toBe(1)
})

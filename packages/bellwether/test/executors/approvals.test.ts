/** A coding agent asks for permission: real workers that are killed, the stand-in of claude, its real flags and its MCP bridge. */
import { chmodSync, existsSync, readFileSync } from 'node:fs'
import { createConnection } from 'node:net'
import { createInterface } from 'node:readline'
import { once } from 'node:events'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { readApprovals } from '../../src/kernel/reads/approvals.js'
import { runAs } from '../../src/ports/processes/run-as.js'
import { onPath } from '../support/agents/coding-agents.js'
import type { Cli } from '../support/process.js'
import { until } from '../support/until.js'
import { openCommandSetup, type CommandSetup } from './command-setup.js'
import { openWorkerProcesses, project, type WorkerProcesses } from './worker-processes.js'

let b: CommandSetup
onPath()
beforeAll(async () => {
  b = await openCommandSetup()
})
afterAll(() => b.close())

const claude = (order: string) => `---\npreset: claude\napprove: ask\n---\n${order}\n`
const kill = async (worker: Cli) => {
  worker.signal('SIGKILL')
  await worker.ended
}
const request = (processes: WorkerProcesses, agent: string) =>
  until(
    `${agent} asks`,
    async () => {
      const query = { projectId: project, show: 'waiting', limit: 10 } as const
      return (await readApprovals(processes.kernel.db, query)).find((one) => one.agent_id === agent)
    },
    30_000,
  )
/** The request of the program that runs now: its worker has the current epoch. */
const askedAgain = (processes: WorkerProcesses, turn: string, epochs: number) =>
  until(
    'the next worker asks again',
    async () => {
      const [row] = await processes.kernel.db.query<{ turn_epoch: number }>({
        text: `select turn_epoch from state.approvals where agent_turn_id = $1 and status = 'waiting'`,
        values: [turn],
      })
      return row !== undefined && row.turn_epoch > epochs ? row.turn_epoch : undefined
    },
    40_000,
  )

it.concurrent('a request survives three killed workers: the allowed command runs once, the denied one never', async ({
  onTestFinished,
}) => {
  const processes = await openWorkerProcesses({
    good: claude('stand-in: run echo ran >> work/good.txt'),
    bad: claude('stand-in: run echo ran >> work/bad.txt'),
  })
  onTestFinished(() => processes.stop())
  let worker = await processes.add('worker')
  await processes.add('pmo')
  const [good, bad] = [await processes.begin('good'), await processes.begin('bad')]
  const asked = await request(processes, 'good')
  expect(asked).toMatchObject({
    tool_name: 'Bash',
    arguments: { command: 'echo ran >> work/good.txt' },
    tool_call_id: null,
    agent_turn_id: good,
  })
  const refused = await request(processes, 'bad')
  let epochs = [0, 0]
  for (let restart = 0; restart < 3; restart += 1) {
    await kill(worker)
    worker = await processes.add('worker')
    epochs = await Promise.all([good, bad].map((turn, at) => askedAgain(processes, turn, Math.max(epochs[at]!, 1))))
  }
  // The same two requests, however often they were asked.
  const query = { projectId: project, show: 'all', limit: 10 } as const
  expect((await readApprovals(processes.kernel.db, query)).map((one) => one.approval_id).sort()).toEqual(
    [asked.approval_id, refused.approval_id].sort(),
  )
  const { kernel } = processes
  const decision = { projectId: project, by: 'ann' }
  await kernel.decideApproval({ ...decision, approvalId: asked.approval_id, scope: 'once' })
  await kernel.decideApproval({ ...decision, approvalId: refused.approval_id, reason: 'it is not needed' })
  expect(await processes.ended(good)).toMatchObject({ outcome: 'success', task_events: 1 })
  expect(await processes.ended(bad)).toMatchObject({ task_events: 1, text: expect.stringContaining('permission') })
  expect(processes.read('work/good.txt')).toBe('ran\n')
  expect(existsSync(join(processes.folder, 'work/bad.txt'))).toBe(false)
  const denial = await kernel.db.query({
    text: `select 1 from state.transcript t where t.agent_turn_id = $1 and t::text like '%Denied by ann: it is not needed%'`,
    values: [bad],
  })
  expect(denial).toHaveLength(1)
})

it('no person is asked about a call that claude’s own flags allow', async () => {
  const allowed = await b.run({
    preset: 'claude',
    approve: 'ask',
    args: ['--allowedTools', 'Bash(echo fine)'],
    instructions: 'stand-in: run echo fine',
  })
  expect(allowed).toMatchObject({ outcome: 'success' })
  const query = { projectId: 'p', show: 'all', limit: 10 } as const
  expect(await readApprovals(b.t.db, query)).toEqual([])
})

it('a program that a message interrupts while it waits asks for the same item again', async () => {
  const instructions = 'stand-in: run echo ran >> interrupted.txt'
  const turn = await b.begin({ preset: 'claude', approve: 'ask', steering: 'off', instructions })
  const query = { projectId: 'p', show: 'all', limit: 10 } as const
  const items = async () => (await readApprovals(b.t.db, query)).filter((one) => one.agent_turn_id === turn)
  const asked = await until('the program asks', async () => (await items())[0])
  const message = { projectId: 'p', agentTurnId: turn, messageId: 'm', sender: 'rita', text: 'hurry', urgent: true }
  await b.t.kernel.say(message)
  await until('the program has been interrupted', async () => {
    const rows = await b.t.all(
      'select from state.turn_messages where delivered_at is not null and agent_turn_id = $1',
      turn,
    )
    return rows.length > 0 || undefined
  })
  await b.t.kernel.decideApproval({ projectId: 'p', by: 'ann', approvalId: asked.approval_id, scope: 'once' })
  expect(await b.ended(turn)).toMatchObject({ outcome: 'success', taskEvents: 1 })
  expect(readFileSync(join(b.folder, 'interrupted.txt'), 'utf8')).toBe('ran\n')
  expect(await items()).toHaveLength(1)
})

it('the program’s socket only asks, and only for its own turn', async () => {
  const script = `echo "$BELLWETHER_APPROVALS $BELLWETHER_APPROVALS_TOKEN" > handle; until test -e done; do sleep 0.05; done`
  const begun = await b.begin({ command: script, approve: 'ask' })
  const handle = await until('the program runs', async () => {
    const file = join(b.folder, 'handle')
    return existsSync(file) ? readFileSync(file, 'utf8') || undefined : undefined
  })
  const [socketPath, token] = handle.trim().split(' ')
  const send = async (message: object): Promise<unknown> => {
    const socket = createConnection(socketPath!)
    socket.write(`${JSON.stringify(message)}\n`)
    const [line] = (await once(createInterface({ input: socket }), 'line')) as [string]
    return JSON.parse(line)
  }
  const ask = { tool_name: 'Bash', input: { command: 'id' } }
  const invalid = { behavior: 'deny', message: expect.stringContaining('invalid') }
  expect(await send({ ...ask, token: 'guessed' })).toMatchObject(invalid)
  expect(await send({ token, decision: 'allow', approval_id: 'x' })).toMatchObject(invalid)
  expect(await send({ token, tool_name: 'Bash', input: 'id' })).toMatchObject(invalid)
  const answer = send({ ...ask, token, agent_turn_id: 'another', decision: 'allow' })
  const query = { projectId: 'p', show: 'waiting', limit: 10 } as const
  const [asked] = await until('it is asked', async () => {
    const found = await readApprovals(b.t.db, query)
    return found.length > 0 ? found : undefined
  })
  expect(asked).toMatchObject({ agent_turn_id: begun, arguments: { command: 'id' } })
  await b.t.kernel.decideApproval({ projectId: 'p', approvalId: asked!.approval_id, scope: 'turn', by: 'ann' })
  expect(await answer).toEqual({ behavior: 'allow' })
  // An equal call needs no second decision; any other one does.
  expect(await send({ ...ask, token })).toEqual({ behavior: 'allow' })
  const other = send({ token, tool_name: 'Bash', input: { command: 'id; id' } })
  const [next] = await until('the other is asked', async () => {
    const found = await readApprovals(b.t.db, query)
    return found.length > 0 ? found : undefined
  })
  await b.t.kernel.decideApproval({ projectId: 'p', approvalId: next!.approval_id, by: 'ann' })
  expect(await other).toEqual({ behavior: 'deny', message: 'Denied by ann.' })
  await b.write('done', '')
  await b.ended(begun)
  expect(existsSync(socketPath!)).toBe(false)
})

const asked = (setup: CommandSetup, count: number) =>
  until(`${count} requests wait`, async () => {
    const found = await readApprovals(setup.t.db, { projectId: 'p', show: 'waiting', limit: 10 })
    return found.length === count ? found : undefined
  })
const allow = (setup: CommandSetup, approvalId: string) =>
  setup.t.kernel.decideApproval({ projectId: 'p', approvalId, scope: 'once', by: 'ann' })

it('a turn that waits for a person gives its place back, and as many wait as the worker may run', async () => {
  const setup = await openCommandSetup({ concurrency: 1 })
  try {
    const asking = { preset: 'claude', approve: 'ask' } as const
    const first = await setup.begin({ ...asking, instructions: 'stand-in: run echo first >> ran.txt' })
    const [one] = await asked(setup, 1)
    // The worker gives the place back after it has stored the request.
    await until('the place is free', async () => setup.worker.free() === 1 || undefined)
    expect(await setup.run({ command: 'echo other' })).toMatchObject({ outcome: 'success', text: 'other' })
    const second = await setup.begin({ ...asking, instructions: 'stand-in: run echo second >> ran.txt' })
    const both = await asked(setup, 2)
    // Two programs of a worker with one place: no third one is started.
    expect(setup.worker.free()).toBe(0)
    const third = await setup.begin({ command: 'echo third' })
    expect([...setup.worker.running.keys()].sort()).toEqual([first, second].sort())
    await allow(setup, one!.approval_id)
    expect(await setup.ended(first)).toMatchObject({ outcome: 'success' })
    await until('the third has started', async () => (await setup.worker.step()).started > 0 || undefined)
    expect(await setup.ended(third)).toMatchObject({ outcome: 'success' })
    await allow(setup, both.find(({ agent_turn_id: turn }) => turn === second)!.approval_id)
    expect(await setup.ended(second)).toMatchObject({ outcome: 'success' })
    expect(readFileSync(join(setup.folder, 'ran.txt'), 'utf8')).toBe('first\nsecond\n')
  } finally {
    await setup.close()
  }
})

// Only root may run commands as another account.
it.runIf(process.getuid?.() === 0)('a program of another account asks, too', async () => {
  const account = runAs('nobody')
  const setup = await openCommandSetup({ runAs: account })
  try {
    chmodSync(setup.folder, 0o777)
    const script = `node -e '
      const { createConnection } = require("node:net")
      const { BELLWETHER_APPROVALS: path, BELLWETHER_APPROVALS_TOKEN: token } = process.env
      const socket = createConnection(path, () => socket.write(JSON.stringify({ token, tool_name: "deploy", input: { uid: process.getuid() } }) + "\\n"))
      socket.on("data", (answer) => process.stdout.write(answer))
    '`
    const turn = await setup.begin({ command: script, approve: 'ask' })
    const [one] = await asked(setup, 1)
    expect(one).toMatchObject({ arguments: { uid: account.account!.uid } })
    await allow(setup, one!.approval_id)
    expect(await setup.ended(turn)).toMatchObject({ outcome: 'success', text: expect.stringContaining('"allow"') })
  } finally {
    await setup.close()
  }
})

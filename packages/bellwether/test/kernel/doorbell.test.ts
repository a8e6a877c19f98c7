import { connect, headers } from '@nats-io/transport-node'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openKernel, type Kernel } from '../../src/kernel/kernel.js'
import type { Bell } from '../../src/ports/bell/bell.js'
import { natsBell } from '../../src/ports/bell/nats.js'
import { notifyBell } from '../../src/ports/bell/notify.js'
import type { EventStream, StreamEvent } from '../../src/ports/stream/stream.js'
import { runPmo } from '../../src/pmo/loop.js'
import type { AgentFunction } from '../../src/worker/agent.js'
import { runWorker } from '../../src/worker/loop.js'
import { kernelPerFile, project, target } from '../support/kernel.js'
import { fingerprint, turnRow } from '../support/kernel-rows.js'
import { startNats, type NatsServer } from '../support/nats.js'
import { quietLog } from '../support/quiet-log.js'
import { pmoHandlers } from '../../src/runtime/parts/pmo-tools.js'
import { until } from '../support/until.js'
import { silentBell } from '../support/silent-bell.js'

const t = kernelPerFile({ time: 'real' })
let nats: NatsServer
beforeAll(async () => {
  nats = await startNats({ jetstream: false })
})
afterAll(async () => {
  await nats.stop()
})

const settings = {
  concurrency: 16,
  suspendTimeoutSeconds: 30,
  resumeLeaseSeconds: 30,
  inboxProcessingTimeoutSeconds: 30,
}
const pace = (pollSeconds: number) => ({
  pollSeconds,
  beatSeconds: 5,
  drainSeconds: 1,
  watchdogIntervalSeconds: 60,
  inboxProcessingTimeoutSeconds: 30,
  maxDeaths: 3,
  resumeLeaseSeconds: 30,
})

/** Drops every ring. */

async function withWorker(
  bell: Bell,
  pollSeconds: number,
  agent: AgentFunction,
  use: (kernel: Kernel, claims: () => number) => Promise<void>,
): Promise<void> {
  const kernel = openKernel({ db: t.db, bell, ids: t.ids })
  let claims = 0
  const counting: Kernel = { ...kernel, claim: (claimant) => ((claims += 1), kernel.claim(claimant)) }
  const stop = new AbortController()
  const running = await runWorker({
    kernel: counting,
    bell,
    clock: t.clock,
    log: quietLog,
    signal: stop.signal,
    workerId: t.ids.next(),
    workerTarget: target,
    settings,
    loop: pace(pollSeconds),
    agent: () => agent,
  })
  try {
    await use(kernel, () => claims)
  } finally {
    stop.abort()
    await running.ended
  }
}

it('[T1.4] with every ring dropped all work completes: turns, queued turns, tools and stops', async () => {
  const agents = Array.from({ length: 20 }, (_, n) => `deaf-${n}`)
  await t.agents(...agents)
  const act: AgentFunction = async (context) =>
    context.results.length > 0
      ? { deliver: { text: 'done' } }
      : { suspend: { calls: [{ toolCallId: context.newId(), toolName: 'echo', args: {} }] } }
  await withWorker(silentBell, 0.02, act, async (kernel) => {
    const turns = await kernel.enqueueMany(
      [...agents, ...agents, ...agents].map((agentId) => ({ projectId: project, agentId, instruction: 'x' })),
    )
    const [first] = turns as { agentTurnId: string }[]
    await kernel.stop({ projectId: project, agentTurnId: first!.agentTurnId })
    await until('every turn has ended', async () => {
      // The tool host polls too.
      const open = await t.all<{ id: string }>(
        "select tool_call_id as id from state.turn_waiting_tools where wait_status = 'waiting'",
      )
      await kernel.report(open.map(({ id }) => ({ projectId: project, toolCallId: id, status: 'success' })))
      const left = await t.all("select from state.turns where agent_id like 'deaf-%' and ended_at is null")
      return left.length === 0 || undefined
    })
  })
  const ends = await t.all(
    "select outcome, count(*)::int as n from state.turns where agent_id like 'deaf-%' group by 1 order by 1",
  )
  expect(ends).toEqual([
    { outcome: 'canceled', n: 1 },
    { outcome: 'success', n: 59 },
  ])
})

it('[T1.4] the relay polls too: every event reaches the stream without a ring', async () => {
  await t.agents('relayed')
  const published: StreamEvent[] = []
  const stream: EventStream = {
    kind: 'notify',
    remembers: false,
    lastCursor: async () => undefined,
    publish: async (events) => (published.push(...events), 'ok'),
    close: async () => undefined,
  }
  const stop = new AbortController()
  const kernel = openKernel({ db: t.db, bell: silentBell, ids: t.ids })
  const patient = {
    watchdogIntervalSeconds: 600,
    retentionDays: 30,
    trendRetentionDays: 100,
    relayPollMs: 20,
    maxDeaths: 3,
  }
  const limits = { dispatchedRetrySeconds: 600, pendingWakeupSeconds: 600, pendingWakeupSkipSeconds: 600 }
  const reaping = {
    dispatchedTimeoutSeconds: 600,
    maxQueueSeconds: 600,
    activeReapSeconds: 600,
    suspendedReapSeconds: 600,
    inboxProcessingTimeoutSeconds: 600,
  }
  const settings = { ...patient, ...limits, ...reaping }
  const ports = { kernel, bell: silentBell, stream, clock: t.clock, log: quietLog, signal: stop.signal }
  const pmo = runPmo({ ...ports, settings, handlers: pmoHandlers(kernel), onNoWorker: () => undefined })
  const turn = await t.running('relayed')
  await t.kernel.deliver({ ...turn, status: 'success', content: { text: 'x' } })
  const ids = () => published.filter((event) => event.subject.includes('.relayed.')).map((event) => event.msgId)
  await until('its events are published', async () => ids().length >= 4 || undefined)
  stop.abort()
  await pmo
  expect(ids()).toHaveLength(4)
  expect(ids()[2]).toBe(`task:${turn.agentTurnId}`)
})

it('[T1.4] every request and receipt is a row of the inbox', async () => {
  await t.agents('truth')
  await t.kernel.enqueue({ projectId: project, agentId: 'truth', instruction: 'x' })
  const rings = t.rings().filter((ring) => ring.payload.agent_id === 'truth')
  await t.all("delete from state.agent_inbox where agent_id = 'truth'")
  expect(rings).toHaveLength(1)
  expect((await t.claim()).filter((turn) => turn.agentId === 'truth')).toEqual([])
})

const subject = `bw.v1.${project}.public.cmd.agent.${target}.wakeup`
/** Rings whose headers or payloads are wrong. */
const lies = [
  {},
  { agent_id: 'liar' },
  { agent_id: 'ghost', inbox_id: 'no-such-row' },
  {
    agent_id: 'liar',
    inbox_id: 'x',
    metadata: { agent_turn_id: 'forged', turn_epoch: 99, message_type: 'stop', status: 'idle' },
  },
  { agent_id: "'; delete from state.agent_inbox; --", turn_epoch: -1 },
]

interface Adapter {
  readonly name: string
  bell(): Bell
  forge(): Promise<void>
}

const adapters: Adapter[] = [
  {
    name: 'notify',
    bell: () => notifyBell({ url: t.url, log: quietLog }),
    async forge() {
      for (const p of [...lies, 17, null, 'text'])
        await t.all('select pg_notify($1, $2)', 'bw', JSON.stringify({ s: subject, p, t: 'lie' }))
      for (const text of ['', 'not json', '{"s":1}']) await t.all('select pg_notify($1, $2)', 'bw', text)
    },
  },
  {
    name: 'nats',
    bell: () => natsBell({ servers: nats.url, log: quietLog }),
    async forge() {
      const client = await connect({ servers: nats.url })
      const forged = headers()
      for (const [name, value] of [
        ['agent_turn_id', 'forged'],
        ['turn_epoch', '99'],
        ['traceparent', 'lie'],
        ['Nats-Msg-Id', 'x'],
      ] as const)
        forged.set(name, value)
      for (const lie of lies) client.publish(subject, JSON.stringify(lie), { headers: forged })
      for (const text of ['', 'not json', '[]']) client.publish(subject, text)
      await client.flush()
      await client.close()
    },
  },
]

describe.each(adapters)('over $name', (adapter) => {
  const { name } = adapter
  it('[T1.7] a wakeup with a wrong or empty header only wakes a worker: the inbox row decides', async () => {
    const agent = `liar-${name}`
    await t.agents(agent, `free-${name}`)
    const running = await t.running(agent)
    const bell = adapter.bell()
    // Only a ring can wake this worker.
    await withWorker(
      bell,
      600,
      async () => ({ deliver: { text: 'done' } }),
      async (kernel, claims) => {
        await until('the worker has looked once', async () => claims() > 0 || undefined)
        await until(
          'the worker has signed in',
          async () =>
            (await t.all("select from state.workers where seen_at > state.now() - interval '10 minutes'")).length > 0 ||
            undefined,
        )
        const before = await fingerprint(t.db, ['state.workers'])
        const seen = claims()
        await adapter.forge()
        await until('a lie has woken the worker', async () => claims() > seen || undefined)
        expect(await fingerprint(t.db, ['state.workers'])).toEqual(before)
        const { agentTurnId } = await kernel.enqueue({ projectId: project, agentId: `free-${name}`, instruction: 'x' })
        await until('an honest ring is still heard', async () =>
          (await turnRow(t, agentTurnId)).ended_at === null ? undefined : true,
        )
      },
    )
    await bell.close()
    expect(await t.kernel.beat([running], null)).toEqual(new Set([running]))
  })
})

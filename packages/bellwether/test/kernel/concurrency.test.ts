import { systemClock } from '@bellwether/base'
import { afterAll, expect, it } from 'vitest'
import type { ClaimedTurn } from '../../src/kernel/verbs/turn/claim.js'
import { openKernel, type Kernel } from '../../src/kernel/kernel.js'
import {
  expireWaits,
  reap,
  reclaim,
  requeueExpiredResumeLedgers,
  sweepQueued,
} from '../../src/kernel/verbs/watchdog/watchdog.js'
import type { Database } from '../../src/ports/database/database.js'
import { openDatabase } from '../../src/ports/database/pool.js'
import { kernelPerFile, project, target } from '../support/kernel.js'
import { deliverTurn, fullWatchWindow, grepCalls, reportSuccess, suspendedTurn } from '../support/kernel-turns.js'
import { silentBell } from '../support/silent-bell.js'

const t = kernelPerFile()
const opened: Database[] = []
afterAll(async () => {
  await Promise.all(opened.map((db) => db.close()))
})

/** A kernel with its own connections and batches, like a separate process. */
async function processOf(poolSize = 2): Promise<Kernel> {
  const db = await openDatabase({ url: t.url, poolSize })
  opened.push(db)
  return openKernel({ db, bell: silentBell, ids: t.ids })
}

const names = (prefix: string, count: number) => Array.from({ length: count }, (_, n) => `${prefix}-${n}`)

/** Queries that return offenders: all of them must be empty. */
const invariants: Readonly<Record<string, string>> = {
  'an agent with two active turns': `select project_id, agent_id from state.agent_inbox
    where message_type in ('turn', 'ui_action') and status in ('pending', 'processing') group by 1, 2 having count(*) > 1`,
  'an ended turn without exactly one task event': `select i.agent_turn_id from state.agent_inbox i where i.ended_at is not null
    and 1 <> (select count(*) from state.events e where e.agent_turn_id = i.agent_turn_id and e.kind = 'task')`,
  'a task event of a turn that has not ended': `select e.agent_turn_id from state.events e join state.agent_inbox i on i.agent_turn_id = e.agent_turn_id
    and i.message_type = 'turn' where e.kind = 'task' and i.ended_at is null`,
  'an ended turn whose deliverable is not in its output box': `select e.agent_turn_id from state.events e where e.kind = 'task' and not exists (
    select from cards.box_cards b join cards.cards c on c.card_id = b.card_id
    where b.box_id = e.payload ->> 'output_box_id' and b.card_id = e.payload ->> 'deliverable_card_id' and c.type = 'task.deliverable'
      and c.metadata ->> 'agent_turn_id' = e.agent_turn_id)`,
  'a turn with two deliverables': `select metadata ->> 'agent_turn_id' from cards.cards where type = 'task.deliverable' group by 1 having count(*) > 1`,
  'an idle head with a queued row': `select h.agent_id from state.agent_state_head h where h.status = 'idle' and exists (
    select from state.agent_inbox i where i.project_id = h.project_id and i.agent_id = h.agent_id and i.status = 'queued')`,
  'an active head whose row is not pending or processing under its epoch': `select h.agent_id from state.agent_state_head h
    join state.agent_inbox i on i.agent_turn_id = h.active_agent_turn_id and i.message_type = 'turn'
    where i.status not in ('pending', 'processing') or i.turn_epoch <> h.turn_epoch`,
  'a count of waits that is not the number of waits': `select h.agent_id from state.agent_state_head h where h.status = 'suspended' and h.waiting_tool_count <> (
    select count(*) from state.turn_waiting_tools w where w.agent_turn_id = h.active_agent_turn_id and w.turn_epoch = h.turn_epoch and w.wait_status = 'waiting')`,
  'a wait that outlived its turn': `select w.tool_call_id from state.turn_waiting_tools w join state.agent_inbox i on i.agent_turn_id = w.agent_turn_id
    and i.message_type = 'turn' where i.ended_at is not null and w.wait_status = 'waiting'`,
}

/** Each query is one snapshot, so the invariant must hold at every moment, not only at the end. */
async function offenders(): Promise<Record<string, object[]>> {
  const found: Record<string, object[]> = {}
  for (const [name, text] of Object.entries(invariants)) {
    const rows = await t.all(text)
    if (rows.length > 0) found[name] = rows
  }
  return found
}

async function deadlocks(): Promise<number> {
  const { n } = await t.one<{ n: number }>(
    'select deadlocks::int as n from pg_stat_database where datname = current_database()',
  )
  return n
}

it('[T1.1] [T1.6] 16 workers over 200 agents of 4 turns each: none claimed twice, none lost, one task event each, no deadlock', async () => {
  const agents = names('fleet', 200)
  await t.agents(...agents)
  const turns = [1, 2, 3, 4].flatMap(() => agents.map((agentId) => ({ projectId: project, agentId, instruction: 'x' })))
  const claimed: ClaimedTurn[] = []
  let left = turns.length
  const worker = async (_: unknown, n: number) => {
    const kernel = await processOf()
    while (left > 0) {
      const { turns: mine } = await kernel.claim({
        workerTarget: target,
        workerId: `worker-${n}`,
        max: 8,
        resumeLeaseSeconds: 30,
      })
      claimed.push(...mine)
      const answers = await Promise.all(
        mine.map((turn) => kernel.deliver({ ...turn, status: 'success', content: { text: `${n}` } })),
      )
      expect(answers.filter((one) => one.what !== 'ended')).toEqual([])
      left -= mine.length
    }
  }
  await Promise.all([t.kernel.enqueueMany(turns), ...Array.from({ length: 16 }, worker)])
  expect(new Set(claimed.map((turn) => turn.agentTurnId)).size).toBe(turns.length)
  expect(claimed).toHaveLength(turns.length)
  expect(
    await t.one(
      "select count(*)::int as n, count(distinct agent_turn_id)::int as turns from state.events where kind = 'task'",
    ),
  ).toEqual({ n: 800, turns: 800 })
  expect(await offenders()).toEqual({})
  expect(await deadlocks()).toBe(0)
})

it('[T3.4b] of several workers that claim two concurrent receipts exactly one resumes each turn', async () => {
  const agents = names('pair', 40)
  await t.agents(...agents)
  const kernels = await Promise.all(Array.from({ length: 4 }, () => processOf()))
  for (const agent of agents) await suspendedTurn(t, agent, grepCalls(`${agent}-1`, `${agent}-2`))
  const resumed: string[] = []
  const claimer = async (kernel: Kernel, n: number) => {
    for (let idle = 0; idle < 20;) {
      const { turns, again } = await kernel.claim({
        workerTarget: target,
        workerId: `w${n}`,
        max: 3,
        resumeLeaseSeconds: 30,
      })
      resumed.push(...turns.map((turn) => turn.agentId))
      idle = turns.length > 0 || again || resumed.length < agents.length ? 0 : idle + 1
    }
  }
  const reports = agents.flatMap((agent) =>
    [1, 2].map((n) => kernels[n]!.report([{ projectId: project, toolCallId: `${agent}-${n}`, status: 'success' }])),
  )
  await Promise.all([...reports, ...kernels.map(claimer)])
  expect(resumed.toSorted()).toEqual(agents.toSorted())
  expect(await offenders()).toEqual({})
})

const stormMs = 4_000
const hasty = {
  dispatchedRetrySeconds: 0.1,
  dispatchedTimeoutSeconds: 0.2,
  maxQueueSeconds: 0.4,
  activeReapSeconds: 0.3,
  suspendedReapSeconds: 0.3,
  inboxProcessingTimeoutSeconds: 0.1,
  maxDeaths: 3,
}

it('[T1.1] [T1.6] [T3.6] every invariant holds under concurrent enqueues, deliveries, tools, stops, takeovers and reaps', async () => {
  const agents = names('storm', 24)
  await t.agents(...agents)
  const pick = <T>(from: readonly T[]) => from[Math.floor(Math.random() * from.length)]!
  const untilMs = systemClock.monotonicMs() + stormMs
  const asked: string[] = []
  let stopped = 0
  const actor = async (act: (kernel: Kernel) => Promise<unknown>) => {
    const kernel = await processOf()
    while (systemClock.monotonicMs() < untilMs) await act(kernel)
  }
  const work = async (kernel: Kernel) => {
    const { turns } = await kernel.claim({
      workerTarget: target,
      workerId: t.ids.next(),
      max: 4,
      resumeLeaseSeconds: 0.05,
    })
    await Promise.all(
      turns.map(async (turn) => {
        if (turn.kind === 'resume' && Math.random() < 0.8 && (await kernel.resume(turn, 'w')) === 'stale') return
        const luck = Math.random()
        if (luck < 0.2) return // this worker has died
        await kernel.record({
          ...turn,
          cards: [{ type: 'agent.thought', content: {} }],
          step: { stepId: t.ids.next(), phase: 'p', status: 'done' },
        })
        if (luck < 0.3) await kernel.beat([turn], 'w')
        if (luck < 0.5 && turn.kind === 'turn')
          await kernel.suspend({ ...turn, stepId: t.ids.next(), calls: grepCalls(t.ids.next(), t.ids.next()) }, 0.1)
        else await kernel.deliver({ ...turn, status: 'success', content: { text: 'x' } })
      }),
    )
  }
  const host = async (kernel: Kernel) => {
    const open = await kernel.db.query<{ id: string }>({
      text: "select tool_call_id as id from state.turn_waiting_tools where wait_status = 'waiting' order by random() limit 3",
    })
    await kernel.report([...open, ...open].map(({ id }) => ({ projectId: project, toolCallId: id, status: 'success' })))
  }
  const ask = async (kernel: Kernel) => {
    const [{ n } = { n: 0 }] = await kernel.db.query<{ n: number }>({
      text: "select count(*)::int as n from state.agent_inbox where status = 'queued'",
    })
    if (n > 100) return systemClock.sleep(5)
    const { agentTurnId } = await kernel.enqueue({ projectId: project, agentId: pick(agents), instruction: 'x' })
    asked.push(agentTurnId)
  }
  // Stops one turn in ten, some twice, so that most turns meet the other faults.
  const stop = async (kernel: Kernel) => {
    if (stopped < asked.length / 10)
      stopped = await kernel.stop({ projectId: project, agentTurnId: pick(asked.slice(-200)) }).then(() => stopped + 1)
    else await systemClock.sleep(5)
  }
  const guard = async ({ db }: Kernel) => {
    await reclaim(db, target, 0.1, 3, fullWatchWindow)
    await expireWaits(db, t.ids, target, fullWatchWindow)
    await requeueExpiredResumeLedgers(db)
    await reap(db, t.ids, hasty, fullWatchWindow)
    await sweepQueued(db, 0.1)
  }
  const rejoin = (kernel: Kernel) =>
    kernel.reconcile({ workerTarget: target, workerId: 'w', max: 4, resumeLeaseSeconds: 0.05 })
  const broken: Record<string, object[]>[] = []
  const judge = async () => {
    const { 'an idle head with a queued row': _late, ...found } = await offenders()
    if (Object.keys(found).length > 0) broken.push(found)
  }
  await Promise.all([...[ask, ask, work, work, work, work, host, stop, guard, guard, rejoin].map(actor), actor(judge)])
  expect(broken).toEqual([])

  // Liveness: without faults every enqueued turn ends.
  for (let rounds = 0; rounds < 500; rounds += 1) {
    const { n } = await t.one<{ n: number }>(
      "select count(*)::int as n from state.turns where agent_id like 'storm-%' and ended_at is null",
    )
    if (n === 0) break
    for (const turn of await t.claim()) {
      if (turn.kind === 'resume') await t.kernel.resume(turn, 'w')
      await deliverTurn(t, turn)
    }
    const open = await t.all<{ id: string }>(
      "select tool_call_id as id from state.turn_waiting_tools where wait_status = 'waiting'",
    )
    for (const { id } of open) await reportSuccess(t, id)
    await t.advance(0.5)
    await guard(t.kernel)
  }
  const ends = await t.all<{ id: string; outcome: string | null }>(
    "select agent_turn_id as id, outcome from state.turns where agent_id like 'storm-%'",
  )
  expect(ends.filter((turn) => turn.outcome === null)).toEqual([])
  expect(ends.map((turn) => turn.id).toSorted()).toEqual(asked.toSorted())
  // The faults were effective: turns ended in several ways. Whether one also timed out depends on the load of the machine.
  const ways = [...new Set(ends.map((turn) => String(turn.outcome)))].filter((way) => way !== 'timeout')
  expect(ways.toSorted()).toEqual(['canceled', 'failed', 'success'])
  expect(await offenders()).toEqual({})
  expect(await deadlocks()).toBe(0)
})

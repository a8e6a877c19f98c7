/**
 * Races: two or three callers of single verbs on a prepared head. Each is the race of one hazard, and small enough that a few dozen seeds, or a
 * crash at every statement, cover it.
 */
import { beginning, readEvents } from '../src/kernel/verbs/events.js'
import type { Kernel } from '../src/kernel/kernel.js'
import type { ClaimedTurn } from '../src/kernel/verbs/turn/claim.js'
import { dispatchTasks } from '../src/kernel/verbs/batches/dispatch_tasks.js'
import { batchIdOfCall } from '../src/kernel/verbs/batches/fork.js'
import { suspend } from '../src/kernel/verbs/turn/suspend.js'
import type { Queryable } from '../src/ports/database/database.js'
import { project, relay, target, thought, type Shelf } from './actors.js'
import { noFaults, type Fibre } from './engine/index.js'
import { always, settled } from './invariants.js'
import { openJoiner } from '../src/pmo/batches.js'
import type { Story } from './story.js'
import { claimant, open, race, type Opening } from './race.js'

const forkCall = { toolCallId: 'f1', toolName: 'fork_join', args: {} } as const
const done = { status: 'success', content: { text: 'done' } } as const
const delivery = (turn: ClaimedTurn) => ({
  ...turn,
  status: 'success' as const,
  content: { text: `epoch ${turn.turnEpoch}` },
})

const seen = settled.filter(({ name }) => name.includes('seen'))

const announce = (db: Queryable) =>
  db.query({
    text: `insert into state.outbox (project_id, subject, kind, payload, created_at)
      values ('p', 'bw.v1.p.public.evt.agent.ann.step', 'step', '{}', state.now())`,
  })

/** A reader follows the outbox while two transactions write to it, one of which stays open for a while. Few steps, so that all orders occur. */
async function twoWriters({ stage }: Opening) {
  await announce(stage.db)
  return {
    writer1: (fibre: Fibre) =>
      fibre.db.transaction(async (tx) => {
        await announce(tx)
        await fibre.clock.sleep(15_000)
      }),
    writer2: (fibre: Fibre) => announce(fibre.db),
    async reader(fibre: Fibre) {
      let cursor = beginning
      // Reads between the writers' statements. Time passes only when no other fibre can run, so the last reads come at the end.
      for (let round = 1; round <= 8; round += 1) {
        const events = await readEvents(fibre.db, cursor, 100)
        for (const event of events)
          await fibre.db.query({ text: 'insert into state.sim_seen values ($1)', values: [event.event_id] })
        cursor = events.at(-1)?.cursor ?? cursor
        if (round > 5) await fibre.clock.sleep(10_000)
      }
    },
  }
}

/** A turn borrows the box of another agent until it is stopped. The owner starts a turn of its own at the same time: one of the two waits in the queue. */
const borrowedBox: Story = {
  ...race(
    ['borrower', 'owner'],
    async ({ stage }) => {
      const [head] = await stage.db.query<{ box: string }>({
        text: `select home_box_id as box from state.agent_state_head where agent_id = 'ann'`,
      })
      return {
        async borrower(_, kernel) {
          const turn = { projectId: project, agentId: 'bob', outputBoxId: head!.box }
          const { agentTurnId } = await kernel.enqueue(turn)
          await kernel.stop({ projectId: project, agentTurnId })
        },
        owner: (_, kernel) => kernel.enqueue({ projectId: project, agentId: 'ann' }),
      }
    },
    ['ann', 'bob'],
  ),
  always: always.filter(({ name }) => name !== 'no idle agent leaves a turn queued'),
}

/** A worker claims while two turns are leased; its last claims come after both commits. */
const claimsWhileLeasing = race(
  ['client1', 'client2', 'worker'],
  async () => ({
    async client1(_, kernel) {
      // The second one is queued, and locks the head while the first one waits for the worker.
      for (let turn = 1; turn <= 2; turn += 1) await kernel.enqueue({ projectId: project, agentId: 'ann' })
    },
    client2: (_, kernel) => kernel.enqueue({ projectId: project, agentId: 'bob' }),
    async worker(fibre, kernel) {
      for (let round = 1; round <= 6; round += 1) {
        await kernel.claim(claimant('worker'))
        if (round > 3) await fibre.clock.sleep(1_000)
      }
    },
  }),
  ['ann', 'bob'],
  [{ name: 'every leased turn is claimed', sql: "select agent_id from state.agent_inbox where status = 'pending'" }],
)

export const races = {
  'enqueue against deliver': race(['client', 'worker'], async ({ running }) => {
    const turn = await running('ann')
    return {
      worker: (_, kernel) => kernel.deliver({ ...turn, ...done }),
      client: (_, kernel) => kernel.enqueue({ projectId: project, agentId: 'ann' }),
    }
  }),
  'two first turns of an agent without a head': race(['client1', 'client2'], async ({ stage }) => {
    await stage.db.query({ text: 'delete from state.agent_state_head' })
    const first = (_: Fibre, kernel: Kernel) => kernel.enqueue({ projectId: project, agentId: 'ann' })
    return { client1: first, client2: first }
  }),
  'a borrowed box against its owner': borrowedBox,
  // No faults: a worker that dies claims nothing more.
  'claims while turns are leased': { plan: () => noFaults, ...claimsWhileLeasing },
  'two claims at once': race(['worker1', 'worker2'], async ({ kernel: before }) => {
    await before.enqueue({ projectId: project, agentId: 'ann' })
    const take = (fibre: Fibre, kernel: Kernel) => kernel.claim(claimant(fibre.name))
    return { worker1: take, worker2: take }
  }),
  'record against stop': race(['worker', 'client'], async ({ running }) => {
    const turn = await running('ann')
    return {
      async worker(_, kernel) {
        // Only cards: the event of a step cannot be written for an idle head.
        for (let step = 1; step <= 3; step += 1) await kernel.record({ ...turn, cards: [thought(turn.agentTurnId)] })
      },
      client: (_, kernel) => kernel.stop({ projectId: project, agentTurnId: turn.agentTurnId }),
    }
  }),
  'two receipts at once': race(['worker1', 'worker2'], async ({ kernel: before, running }) => {
    const turn = await running('ann')
    const calls = ['c1', 'c2'].map((toolCallId) => ({ toolCallId, toolName: 'answers', args: {} }))
    await before.suspend({ ...turn, stepId: 's1', calls }, 60)
    for (const { toolCallId } of calls)
      await before.report([{ projectId: project, toolCallId, status: 'success', result: 1 }])
    return {
      worker1: (fibre, kernel) => kernel.claim(claimant(fibre.name, 1)),
      worker2: (fibre, kernel) => kernel.claim(claimant(fibre.name, 1)),
    }
  }),
  'two receipts reported at once': race(['host1', 'host2', 'worker'], async ({ kernel: before, running }) => {
    const turn = await running('ann')
    await before.suspend({ ...turn, stepId: 's1', calls: [{ toolCallId: 'c1', toolName: 'answers', args: {} }] }, 60)
    const answer = (_: Fibre, kernel: Kernel) =>
      kernel.report([{ projectId: project, toolCallId: 'c1', status: 'success', result: 1 }])
    return { host1: answer, host2: answer, worker: (fibre, kernel) => kernel.claim(claimant(fibre.name)) }
  }),
  'two hosts, one call': race(['host1', 'host2'], async ({ kernel: before, running }) => {
    const turn = await running('ann')
    await before.suspend({ ...turn, stepId: 's1', calls: [{ toolCallId: 'c1', toolName: 'answers', args: {} }] }, 60)
    const act = async (fibre: Fibre, kernel: Kernel) => {
      const started = await kernel.startTool(project, 'c1', fibre.name)
      if (started?.what !== 'started') return
      await fibre.db.query({ text: 'insert into state.sim_effects values ($1, $2)', values: ['c1', fibre.name] })
      await kernel.report([{ projectId: project, toolCallId: 'c1', status: 'success', result: 1 }])
    }
    return { host1: act, host2: act }
  }),
  'claim against stop': race(['worker', 'client'], async ({ kernel: before }) => {
    const turn = await before.enqueue({ projectId: project, agentId: 'ann' })
    return {
      worker: (fibre, kernel) => kernel.claim(claimant(fibre.name)),
      client: (_, kernel) => kernel.stop({ projectId: project, agentTurnId: turn.agentTurnId }),
    }
  }),
  'stop against cancel and claim': race(['client1', 'client2', 'worker'], async ({ kernel: before, running }) => {
    const turn = await running('ann')
    await before.record({ ...turn, cards: [thought(turn.agentTurnId)] })
    await before.suspend({ ...turn, stepId: 's1', calls: [{ toolCallId: 'c1', toolName: 'answers', args: {} }] }, 60)
    await before.report([{ projectId: project, toolCallId: 'c1', status: 'success', result: 1 }])
    const next = await before.enqueue({ projectId: project, agentId: 'ann' })
    return {
      client1: (_, kernel) => kernel.stop({ projectId: project, agentTurnId: next.agentTurnId }),
      client2: (_, kernel) => kernel.stop({ projectId: project, agentTurnId: turn.agentTurnId }),
      worker: (fibre, kernel) => kernel.claim(claimant(fibre.name)),
    }
  }),
  'cancel against lease': race(['worker', 'client'], async ({ kernel: before, running }) => {
    const turn = await running('ann')
    const next = await before.enqueue({ projectId: project, agentId: 'ann' })
    return {
      worker: (_, kernel) => kernel.deliver({ ...turn, ...done }),
      client: (_, kernel) => kernel.stop({ projectId: project, agentTurnId: next.agentTurnId }),
    }
  }),
  'the silent worker comes back': race(['silent', 'other'], async ({ running }) => {
    const turn = await running('ann')
    return {
      async silent(fibre, kernel) {
        await fibre.db.query({
          text: "insert into state.sim_claims values ($1, $2, 'silent')",
          values: [turn.agentTurnId, turn.turnEpoch],
        })
        await kernel.record({
          ...turn,
          cards: [{ type: 'agent.thought', content: { text: 'hm' }, metadata: { agent_turn_id: turn.agentTurnId } }],
        })
        await kernel.deliver(delivery(turn))
      },
      async other(fibre, kernel) {
        await fibre.clock.sleep(1)
        await fibre.db.query({ text: `select * from state.reclaim('${target}', 0, 3, 'epoch', 'infinity', 10)` })
        const { turns } = await kernel.claim(claimant(fibre.name))
        for (const again of turns) {
          const values = [again.agentTurnId, again.turnEpoch]
          await fibre.db.query({ text: "insert into state.sim_claims values ($1, $2, 'other')", values })
          await kernel.deliver(delivery(again))
        }
      },
    }
  }),
  'a stale and a live delivery in one batch': race(['worker', 'client'], async ({ kernel: before, running, stage }) => {
    const stale = await running('ann')
    // No time passes while a race is prepared: with a timeout of −1 s the turn counts as silent.
    await stage.db.query({ text: `select * from state.reclaim('${target}', -1, 3, 'epoch', 'infinity', 10)` })
    const [live] = (await before.claim(claimant('opening'))).turns
    return {
      // One process, as when a server delivers for remote workers: both calls share a batch.
      async worker(fibre, kernel) {
        const turns = fibre.random.next() < 0.5 ? [stale, live!] : [live!, stale]
        const answers = await Promise.all(turns.map((turn) => kernel.deliver(delivery(turn))))
        for (const [position, { agentTurnId, turnEpoch }] of turns.entries()) {
          const values = [agentTurnId, turnEpoch, answers[position]!.what]
          await fibre.db.query({ text: 'insert into state.sim_answers values ($1, $2, $3)', values })
        }
      },
      client: (_, kernel) => kernel.enqueue({ projectId: project, agentId: 'ann' }),
    }
  }),
  'fork against stop': race(
    ['worker', 'client'],
    async ({ running }) => {
      const turn = await running('ann')
      const tasks = ['bob', 'cid'].map((targetRef) => ({
        targetStrategy: 'reuse' as const,
        targetRef,
        instruction: 'x',
      }))
      const calls = [{ ...forkCall, batch: { tasks } }]
      return {
        worker: (_, kernel) => kernel.suspend({ ...turn, stepId: 's1', calls }, 60),
        // The actor that stops the parent also joins its batches, as a PMO does.
        async client(fibre, kernel) {
          await kernel.stop({ projectId: project, agentTurnId: turn.agentTurnId })
          const joiner = openJoiner({ kernel })
          for (let round = 1; round <= 3; round += 1) {
            await joiner.step()
            await fibre.clock.sleep(1_000)
          }
        },
      }
    },
    ['ann', 'bob', 'cid'],
  ),
  'dispatch against stop': race(
    ['worker', 'client'],
    async ({ running, stage }) => {
      const turn = await running('ann')
      const batch = { tasks: [{ targetStrategy: 'reuse' as const, targetRef: 'bob', instruction: 'x' }] }
      // Only the second half of a fork: the batch exists, its child does not.
      await suspend(stage.db, stage.ids, { ...turn, stepId: 's1', calls: [{ ...forkCall, batch }] }, 60)
      return {
        worker: (fibre) => dispatchTasks(fibre.db, batchIdOfCall(project, forkCall.toolCallId), [0]),
        async client(_, kernel) {
          await kernel.stop({ projectId: project, agentTurnId: turn.agentTurnId })
          await openJoiner({ kernel }).step()
        },
      }
    },
    ['ann', 'bob'],
  ),
  'reserve against stop': race(['worker', 'client'], async ({ kernel: before }) => {
    await before.enqueue({ projectId: project, agentId: 'ann', budget: { tokens: 100 } })
    const { turns } = await before.claim(claimant('opening'))
    const turn = turns[0]!
    return {
      async worker(_, kernel) {
        await kernel.reserve(turn, { reservationId: 'r1', tokens: 40 })
        await kernel.commitUsage(turn, { reservationId: 'r1', tokens: 10 })
        await kernel.reserve(turn, { reservationId: 'r2', tokens: 40 })
      },
      client: (_, kernel) => kernel.stop({ projectId: project, agentTurnId: turn.agentTurnId }),
    }
  }),
  'two spenders, one parent': race(
    ['worker1', 'worker2', 'worker3'],
    async ({ kernel: before }) => {
      await before.enqueue({ projectId: project, agentId: 'ann', budget: { tokens: 100 } })
      const parent = (await before.claim(claimant('opening'))).turns[0]!
      const tasks = ['bob', 'cid', 'dan'].map((targetRef) => ({
        targetStrategy: 'reuse' as const,
        targetRef,
        instruction: 'x',
      }))
      await before.suspend(
        { ...parent, stepId: 's1', calls: [{ toolCallId: 'f1', toolName: 'fork_join', args: {}, batch: { tasks } }] },
        60,
      )
      const { turns } = await before.claim(claimant('opening'))
      const [bob, cid, dan] = ['bob', 'cid', 'dan'].map((agentId) => turns.find((turn) => turn.agentId === agentId)!)
      // The first returns its share while the others each reserve more than their own.
      const greedy = (turn: ClaimedTurn) => async (_: Fibre, kernel: Kernel) => {
        for (const [at, tokens] of [33, 30].entries())
          await kernel.reserve(turn, { reservationId: `${turn.agentId}${at}`, tokens })
        await kernel.deliver(delivery(turn))
      }
      return { worker1: (_, kernel) => kernel.deliver(delivery(bob!)), worker2: greedy(cid!), worker3: greedy(dan!) }
    },
    ['ann', 'bob', 'cid', 'dan'],
  ),
  'a reader behind two writers': {
    // No faults: a slow writer would commit after the reader's last read. This story depends on the schedule only.
    plan: () => noFaults,
    ...race(['writer1', 'writer2'], twoWriters, ['ann'], seen),
  },
  'a stranger holds a transaction open': {
    plan: () => noFaults,
    ...race(
      ['writer1', 'writer2'],
      async (opening) => ({
        ...(await twoWriters(opening)),
        // It ends long after the reader's last read.
        stranger: (fibre) =>
          fibre.db.transaction(async (tx) => {
            await tx.query({ text: 'select pg_current_xact_id()' })
            await fibre.clock.sleep(60_000)
          }),
      }),
      ['ann'],
      seen,
    ),
  },
  'two relays': {
    // One relay dies permanently at any statement, and the other must publish the rest.
    plan: (seed) => ({ faults: [{ kind: 'crash', at: { fibre: `relay${1 + (seed % 2)}`, nth: seed % 40 } }] }),
    fibres: ['relay1', 'relay2'],
    yields: 30,
    always,
    atEnd: settled.filter(({ name }) => name.includes('published')),
    async scenario(stage) {
      const opening = await open(stage, ['ann', 'bob'])
      for (const agentId of ['ann', 'bob'])
        await opening.kernel.deliver({ ...(await opening.running(agentId)), ...done })
      const shelf: Shelf = { stored: [] }
      for (const name of ['relay1', 'relay2']) stage.spawn(name, relay(shelf), { daemon: true })
      stage.spawn('observer', async (fibre) => {
        await fibre.clock.sleep(60_000)
        for (const [seq, { cursor, msgId }] of shelf.stored.entries()) {
          await fibre.db.query({
            text: 'insert into state.sim_published values ($1, $2, $3)',
            values: [seq, cursor, msgId],
          })
        }
      })
    },
  },
} as const satisfies Record<string, Story>

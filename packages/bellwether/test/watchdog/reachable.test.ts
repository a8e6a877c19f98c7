/**
 * W5.1: turns are abandoned at random points; then only the PMO lives (and, in half of the runs, a worker's watchdog
 * that claims nothing). Every turn ends in time, and the database records what happened, when and why.
 */
import { expect, it } from 'vitest'
import { project, testKernel, type TestKernel } from '../support/kernel.js'
import { turnRow } from '../support/kernel-rows.js'
import { thorough } from '../support/thorough.js'
import { guardAlone, intervalSeconds, interventionsOf, tasksOf, workerOn } from '../support/watchdog.js'

/** Small and seeded: a failing run is repeated by its number. */
function chance(seed: number) {
  let state = seed
  const next = () => {
    state = (state + 0x6d_2b_79_f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  return { below: (n: number) => Math.floor(next() * n) }
}

interface Left {
  readonly agentTurnId: string
  readonly agentId: string
  readonly where: string
  /** The seconds of silence after which it must end, from the last sign of life. */
  readonly seconds: number
  readonly at: Date
}

const points = [
  'queued',
  'dispatched',
  'row lost',
  'running',
  'recorded',
  'suspended',
  'no card',
  'reported',
  'partial',
  'received',
  'resumed',
] as const
const turnsPerRun = 33

async function leave(
  t: TestKernel,
  where: (typeof points)[number],
  number: number,
  luck: ReturnType<typeof chance>,
): Promise<Left> {
  const agentId = `agent-${number}`
  const workerTarget = agentId
  const deadline = luck.below(4) === 0 ? 40 + luck.below(200) : 100_000
  await t.kernel.putAgents([
    { projectId: project, agentId, workerTarget, turnDeadlineSeconds: deadline, outputBox: luck.below(6) > 0 },
  ])
  const claim = () => t.kernel.claim({ workerTarget, workerId: 'doomed', max: 5, resumeLeaseSeconds: 30 })
  const toolName = luck.below(2) === 0 ? 'quick' : 'slow'
  const toolSeconds = toolName === 'slow' ? 60 : 30
  const left = async (agentTurnId: string, silence: number): Promise<Left> => {
    const { at, spent } = await t.one<{ at: Date; spent: number }>(
      `select state.now() as at, coalesce(extract(epoch from state.now() - (select leased_at from state.agent_state_head where agent_id = $1)), 0)::float8 as spent`,
      agentId,
    )
    return { agentTurnId, agentId, where, seconds: Math.min(silence, Math.max(deadline - spent, 0)), at }
  }

  if (where === 'queued') {
    const id = t.ids.next()
    await t.all(
      `insert into state.agent_inbox (inbox_id, project_id, agent_id, worker_target, channel_id, message_type, status, agent_turn_id)
       values ($1, $2, $3, $3, 'public', 'turn', 'queued', $1)`,
      id,
      project,
      agentId,
    )
    return left(id, intervalSeconds + Math.min(30, deadline))
  }
  const { agentTurnId } = await t.kernel.enqueue({ projectId: project, agentId, instruction: 'x' })
  if (where === 'row lost') await t.all('delete from state.agent_inbox where agent_turn_id = $1', agentTurnId)
  if (where === 'dispatched' || where === 'row lost') return left(agentTurnId, 30)
  const [turn] = (await claim()).turns
  if (turn === undefined) throw new Error('not claimed')
  if (where === 'recorded')
    await t.kernel.record({ ...turn, cards: [{ type: 'agent.thought', content: { text: 'hm' } }] })
  if (where === 'running' || where === 'recorded') return left(agentTurnId, 300)

  const ids = Array.from({ length: 2 + luck.below(3) }, (_, index) => `${agentId}-${index}`)
  const calls = ids.map((toolCallId) => ({ toolCallId, toolName, args: {} }))
  await t.kernel.suspend({ ...turn, stepId: agentId, calls }, 30)
  const report = (some: readonly string[]) =>
    t.kernel.report(some.map((toolCallId) => ({ projectId: project, toolCallId, status: 'success' as const })))
  if (where === 'no card') {
    await t.all(
      'delete from cards.cards where card_id = (select tool_call_card_id from state.turn_waiting_tools where tool_call_id = $1)',
      ids[0],
    )
  }
  if (where === 'suspended' || where === 'no card') return left(agentTurnId, toolSeconds + 300)
  await report(where === 'partial' || where === 'reported' ? ids.slice(1) : ids)
  if (where === 'reported') return left(agentTurnId, toolSeconds + 300)
  await claim()
  if (where === 'partial') return left(agentTurnId, toolSeconds + 300)
  if (where === 'received') return left(agentTurnId, 300)
  expect(await t.kernel.resume(turn, 'doomed')).toBe('resumed')
  return left(agentTurnId, 300)
}

for (let run = 1; run <= (thorough ? 6 : 3); run += 1) {
  const watched = run % 2 === 0
  it(`[W5.1] every turn ends in time, and its history can be replayed (seed ${run}, ${watched ? 'with' : 'without'} a worker’s watchdog)`, async () => {
    const t = await testKernel()
    const luck = chance(run)
    try {
      await t.agents('bystander')
      await t.kernel.putTool({ projectId: project, toolName: 'slow', options: { timeout_seconds: 60 } })
      // Targets without live workers keep their turns for this long; here no longer than a silent worker's turn.
      const guard = guardAlone(t, { maxQueueSeconds: 30 })
      const watchers = watched
        ? Array.from({ length: turnsPerRun }, (_, number) =>
            workerOn(t, { workerId: `w-${number}`, workerTarget: `agent-${number}` }),
          )
        : []
      const step = async () => {
        await t.advance(intervalSeconds)
        await Promise.all(watchers.map((one) => one.step()))
        await guard.step()
      }
      await guard.step()
      const all: Left[] = []
      for (let number = 0; number < turnsPerRun; number += 1) {
        all.push(await leave(t, points[luck.below(points.length)]!, number, luck))
        if (luck.below(3) === 0) await step()
      }
      for (let steps = 0; steps < 90; steps += 1) await step()
      for (const one of all) await check(t, one, !watched)
      expect(await t.all(`select agent_id from state.agent_state_head where status <> 'idle'`)).toEqual([])
      expect(
        await t.all(`select inbox_id from state.agent_inbox where status in ('queued', 'pending', 'processing')`),
      ).toEqual([])
    } finally {
      await t.drop()
    }
  })
}

/** Checks from the database alone: one ending, in time, the same in every table, with the states before and after. */
async function check(t: TestKernel, left: Left, exact: boolean): Promise<void> {
  const about = (what: unknown) => ({ where: left.where, agent: left.agentId, what })
  const row = await turnRow(t, left.agentTurnId)
  const { ended_at: endedAt } = await t.one<{ ended_at: Date }>(
    `select ended_at from state.agent_inbox where agent_turn_id = $1 and message_type = 'turn'`,
    left.agentTurnId,
  )
  const took = (endedAt.getTime() - left.at.getTime()) / 1_000
  const soonest = exact && left.where !== 'queued' ? left.seconds - 2 : 0
  expect(took, JSON.stringify(about('too late'))).toBeLessThanOrEqual(left.seconds + 2 * intervalSeconds + 1)
  expect(took, JSON.stringify(about('too soon'))).toBeGreaterThanOrEqual(soonest)

  const boxless = row.deliverable_card_id === null
  expect(about(await tasksOf(t, left.agentTurnId))).toMatchObject(
    about([
      {
        status: row.outcome,
        error: row.error,
        deliverable_card_id: row.deliverable_card_id,
        ...(boxless ? { deliverable_error: 'no_output_box' } : {}),
      },
    ]),
  )
  const card = await t.kernel.readCard(row.deliverable_card_id ?? '')
  const fallback = {
    text: expect.stringContaining(`The watchdog ended this turn (${row.error}): `) as string,
    status: row.outcome,
    error: row.error,
    fallback: expect.objectContaining({ code: row.error, ended_by: 'watchdog' }) as object,
  }
  expect(card?.content).toEqual(boxless ? undefined : fallback)

  const story = await interventionsOf(t, left.agentTurnId)
  const end = story.at(-1)!
  expect(about(end)).toMatchObject(
    about({ kind: 'reap', reason: row.error, after: { status: 'idle', outcome: row.outcome } }),
  )
  expect(end.created_at.getTime() - endedAt.getTime()).toBeLessThan(1_000)
  expect(Number(end.after.turn_epoch)).toBe(Number(end.before.turn_epoch) + 1)
  expect(['dispatched', 'running', 'suspended']).toContain(end.before.status)
  expect(story.filter((one) => one.kind === 'reap')).toHaveLength(1)
  const [forced] = await t.all<{ reason: string }>(
    'select reason from state.force_terminations where agent_turn_id = $1',
    left.agentTurnId,
  )
  expect(forced?.reason).toBe(row.error)
}

/**
 * The story of a task across the three systems: the board leases it, the kernel runs its turn and a child of it, the view proves the file
 * that it wrote, the board accepts it. Each test kills processes with SIGKILL at one joint. `npm test` tests three joints,
 * `npm run thorough` all of them.
 */
import { join } from 'node:path'
import { systemClock, systemRandom } from '@bellwether/base'
import { checkTurns } from '@bellwether/demo'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { rebuildSnapshot } from '../../src/board/repair/rebuild.js'
import { Reader } from '../../src/board/log/fold/replay.js'
import { readBudget } from '../../src/kernel/reads/budgets.js'
import { systemDisk } from '../../src/ports/disk/disk.js'
import { systemMachine } from '../../src/ports/disk/machine.js'
import { uuidv7 } from '../../src/ports/ids.js'
import { quietLog } from '../support/quiet-log.js'
import { differingReplays } from '../support/replays.js'
import { thorough } from '../support/thorough.js'
import { until } from '../support/until.js'
import { project, startInstallation, type Installation } from './installation.js'
import { joints, type Joint } from './joints.js'

let s: Installation
beforeAll(async () => {
  s = await startInstallation()
})
afterAll(() => s?.stop())

// Steps of author and helper in agents.mjs.
const tokens = { author: 300, helper: 50 }
const microsPerToken = 10

interface TaskDetail {
  readonly status: string
  readonly createdAt: string
  readonly costMicros: number
  readonly budget: { readonly tokenUsage: number; readonly costMicros: number }
  readonly runs: readonly { readonly agentTurnId: string; readonly outcome: string }[]
  readonly fields: Readonly<Record<string, unknown>>
}

interface TurnDetail {
  readonly agent_turn_id: string
  readonly outcome: string
  readonly parent: { readonly agent_turn_id: string } | null
  readonly children: readonly { readonly agent_turn_id: string; readonly agent_id: string }[]
}

const readTurn = async (turn: string) =>
  (await s.ask('GET', `/projects/${project}/turns/${turn}`)) as unknown as TurnDetail

const all: readonly Joint[] = Object.values(joints)
const chosen: readonly Joint[] = thorough ? all : [joints.afterIntent, joints.whileRunning, joints.evidenceSensor]

const cases = chosen.map((joint) => [joint.name, joint] as const)
it.each(cases)('a task keeps its budget, evidence, events and lineage if kill -9 hits %s', async (_name, joint) => {
  const task = `task-${all.indexOf(joint) + 1}`
  await joint.act(s, task)
  const detail = await until(`${task} is done`, async () => {
    const now = (await s.ask('GET', `/board/tasks/${task}`)) as unknown as TaskDetail
    return now.status === 'done' ? now : undefined
  })

  // One run, its turn, and the child of that turn: each ended once.
  expect(detail.runs).toMatchObject([{ outcome: 'success' }])
  const turn = await readTurn(detail.runs[0]!.agentTurnId)
  expect(turn).toMatchObject({ outcome: 'success', parent: null, children: [{ agent_id: 'helper' }] })
  const child = await readTurn(turn.children[0]!.agent_turn_id)
  expect(child).toMatchObject({ outcome: 'success', parent: { agent_turn_id: turn.agent_turn_id }, children: [] })
  const turnIds = [turn.agent_turn_id, child.agent_turn_id]
  const check = await checkTurns(s.db, project, turnIds, 'story')
  expect(check).toMatchObject({ stuck: [], lost: [], outcomes: { success: 2 }, taskEvents: 2 })
  const edges = await s.db.query<{ target_agent_turn_id: string }>({
    text: `select distinct target_agent_turn_id from state.execution_edges
      where source_agent_turn_id = $1 and target_agent_turn_id is not null and target_agent_turn_id <> $1`,
    values: [turn.agent_turn_id],
  })
  expect(edges.map((edge) => edge.target_agent_turn_id)).toEqual([child.agent_turn_id])

  // Each step was charged once, whatever was repeated: in the purse of the task, and on the board.
  const total = tokens.author + tokens.helper
  expect(await readBudget(s.db, `task:${task}:${detail.createdAt}:0`)).toMatchObject({
    tokens_used: total,
    cost_micros_used: total * microsPerToken,
    tokens_reserved: 0,
    tokens_escrowed: 0,
    open_children: 0,
  })
  expect(detail).toMatchObject({ budget: { tokenUsage: total, costMicros: total * microsPerToken } })

  expect(detail.fields['evidence']).toMatchObject({
    files: [{ path: `${task}.txt`, size: `written for ${task}`.length, from: joint.from }],
  })

  // The log replays without a problem to what the server shows.
  const replayed = new Reader()
  const log = await systemDisk.openLog(join(s.root, 'state', 'tasks.jsonl'), 'read')
  if (log === 'missing') throw new Error('the board has no log')
  await replayed.read(log)
  await log.close()
  const { status, runs, fields } = replayed.fold.state().tasks.get(task)!
  expect(replayed.report).toMatchObject({ counts: {}, torn: false })
  expect(detail).toMatchObject({ status, runs })
  // What the run changed is shown beside the fields.
  const { changes, ...others } = fields
  expect(detail).toMatchObject({ fields: others, changes })
  expect(detail.fields).not.toHaveProperty('changes')

  // The reader followed from the first cursor through all restarts of the server: each event once, in order.
  const events = await s.db.query<{ cursor: string }>({
    text: "select xid::text || ':' || event_id as cursor from state.events where project_id = $1 order by xid, event_id",
    values: [project],
  })
  await until('the reader has every event', async () => s.events.seen.length >= events.length || undefined)
  expect(s.events.seen.map(({ id }) => id)).toEqual(events.map(({ cursor }) => cursor))
  const ends = s.events.seen.filter(({ event, data }) => event === 'task' && turnIds.includes(data.agent_turn_id!))
  expect(ends.map(({ data }) => data.agent_turn_id)).toEqual(turnIds.toReversed())
})

it('[T2.5] the webhook got every event in order, through all deaths of the PMO', async () => {
  const events = await s.db.query<{ cursor: string }>({
    text: `select xid::text || ':' || event_id as cursor from state.events where kind <> 'command' order by xid, event_id`,
  })
  // A page is sent again if the PMO died before it stored its position.
  const received = () => [...new Set(s.webhook.events.map(({ cursor }) => cursor))]
  await until('the webhook has every event', async () => received().length >= events.length || undefined)
  expect(received()).toEqual(events.map(({ cursor }) => cursor))
})

it('after all of it the snapshot of a clean shutdown equals the log, and no process is left', async () => {
  expect(await differingReplays(s.db)).toEqual([])
  const [ended] = await s.db.query<{ turns: number }>({
    text: 'select count(*)::int as turns from state.turns where ended_at is not null',
  })
  expect(ended!.turns).toBe(2 * chosen.length)
  await s.shutDown()
  const ports = {
    disk: systemDisk,
    machine: systemMachine,
    clock: systemClock,
    ids: uuidv7(systemClock, systemRandom),
    log: quietLog,
  }
  const report = await rebuildSnapshot({ root: s.root, apply: false }, ports)
  expect(report).toMatchObject({ ok: true, match: true, errors: { total: 0 }, held: [], tornLastLine: false })
  expect(s.remaining()).toEqual([])
})

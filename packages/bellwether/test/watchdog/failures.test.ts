/** Messages about failed turns: real database, two PMOs. */
import { defined } from '@bellwether/base'
import { expect, it } from 'vitest'
import { openFailures } from '../../src/pmo/failures.js'
import { kernelPerTest, project } from '../support/kernel.js'
import { quietLog } from '../support/quiet-log.js'
import { guardOn, pass } from '../support/watchdog.js'

const t = kernelPerTest()
const open = () => openFailures({ db: t.db, channels: ['webhook', 'email'], log: quietLog })
const notices = (channel = 'email') =>
  t.all<{ kind: string; text: string; path: string }>(
    `select kind, content ->> 'text' as text, content ->> 'path' as path from state.notices where channel = $1
      order by created_at, notice_id`,
    channel,
  )

async function end(agent: string, status: 'failed' | 'success', error?: string) {
  const turn = await t.running(agent)
  await t.kernel.deliver({ ...turn, status, content: { text: 'x' }, ...defined({ error }) })
  return turn.agentTurnId
}

it('announces failed turns and exceeded budgets once per agent, kind and hour, with a link to the turn', async () => {
  await t.agents('ann', 'bob')
  await end('ann', 'failed', 'before')
  const pmos = [await open(), await open()]
  const step = () => Promise.all(pmos.map((pmo) => pmo.step()))
  await step()
  expect(await notices()).toEqual([])
  const first = await end('ann', 'failed', 'the tests do not pass')
  await end('ann', 'failed', 'again')
  await end('bob', 'success')
  const second = await end('bob', 'failed', 'budget_exceeded')
  await step()
  await step()
  expect((await notices()).toSorted((one, other) => (one.kind < other.kind ? -1 : 1))).toEqual([
    { kind: 'budget_exceeded', text: 'A turn of bob exceeded its budget', path: `/p/p/turns/${second}` },
    { kind: 'turn_failed', text: 'A turn of ann failed: the tests do not pass', path: `/p/p/turns/${first}` },
  ])
  expect(await notices('webhook')).toHaveLength(2)
  await t.advance(3_600)
  await end('ann', 'failed', 'command_exit_3')
  await step()
  expect((await notices()).slice(2)).toMatchObject([{ text: 'A turn of ann failed: agent exited with 3' }])
})

it('announces a turn that a watchdog ended, also if a PMO dies before it could store the message', async () => {
  await t.agents('ann')
  const { agentTurnId } = await t.running('ann')
  await open()
  const guard = guardOn(t)
  await pass(t, 310, guard)
  const dying = { ...t.db, transaction: () => Promise.reject(new Error('killed')) }
  const killed = await openFailures({ db: dying, channels: ['email'], log: quietLog })
  await expect(killed.step()).rejects.toThrow('killed')
  expect(await notices()).toEqual([])
  await (await open()).step()
  expect(await notices()).toMatchObject([{ kind: 'watchdog', path: `/p/p/turns/${agentTurnId}` }])
})

it('announces no run of a task and no task of a batch: the board and the parent decide what follows', async () => {
  await t.agents('ann')
  const reader = await open()
  for (const payload of [{ task_id: 'T-1' }, { batch_id: 'b1' }, {}]) {
    const { agentTurnId } = await t.kernel.enqueue({ projectId: project, agentId: 'ann', instruction: 'x', payload })
    const [turn] = await t.claim()
    expect(turn?.agentTurnId).toBe(agentTurnId)
    await t.kernel.deliver({ ...turn!, status: 'failed', content: { text: 'x' }, error: JSON.stringify(payload) })
  }
  expect(await reader.step()).toBe('busy')
  expect(await notices()).toMatchObject([{ text: 'A turn of ann failed: {}' }])
})

it('reads one statement per step while nothing happens, and only failures when something does', async () => {
  await t.agents('ann')
  let statements = 0
  let bytes = 0
  const counted = {
    ...t.db,
    async query<Row extends object>(query: Parameters<typeof t.db.query>[0]): Promise<Row[]> {
      const rows = await t.db.query<Row>(query)
      statements += 1
      bytes += JSON.stringify(rows).length
      return rows
    },
  }
  const reader = await openFailures({ db: counted, channels: ['email'], log: quietLog })
  await reader.step()
  statements = 0
  expect(await reader.step()).toBe('quiet')
  expect(statements).toBe(1)
  for (let turn = 0; turn < 20; turn += 1) await end('ann', 'success')
  bytes = 0
  expect(await reader.step()).toBe('busy')
  expect(bytes).toBeLessThan(500)
  expect(await reader.step()).toBe('quiet')
})

/** The SQL of docs/operating-database.md runs on a database of this version and does what the page says. */
import { expect, it } from 'vitest'
import { readEvents } from '../../src/kernel/verbs/events.js'
import { kernelPerFile, project } from '../support/kernel.js'
import { headOf, turnRow } from '../support/kernel-rows.js'
import { deliverTurn, grepCalls, reportSuccess, suspendedTurn } from '../support/kernel-turns.js'
import { pass, workerOn } from '../support/watchdog.js'
import { blocksOf } from './pages.js'

const t = kernelPerFile()

it('the SQL for a failover with loss makes every old fence stale, loses no turn, and starts a new era of events', async () => {
  await t.agents('running', 'suspended', 'waiting')
  const running = await t.running('running')
  const suspended = await suspendedTurn(t, 'suspended', grepCalls('c1'))
  const { agentTurnId: waiting } = await t.kernel.enqueue({ projectId: project, agentId: 'waiting', instruction: 'x' })
  const cursor = (await readEvents(t.db, '0:0', 1_000)).at(-1)!.cursor

  const statements = blocksOf('docs/operating-database.md').filter(({ language }) => language === 'sql')
  expect(statements).toHaveLength(3)
  for (const { text } of statements) await t.all(text)

  for (const [agent, { turnEpoch }] of [['running', running] as const, ['suspended', suspended] as const])
    expect(await headOf(t, agent)).toMatchObject({ turn_epoch: turnEpoch + 1_000_000 })
  expect(await deliverTurn(t, running)).toMatchObject({ what: 'stale' })
  expect(await reportSuccess(t, 'c1')).toBeDefined()
  const worker = workerOn(t, { agent: async () => ({ deliver: { text: 'done' } }) })
  const works = {
    async step() {
      await worker.worker.step()
      await Promise.all([...worker.worker.running.values()].map((scope) => scope.done))
    },
  }
  await pass(t, 120, worker, works)
  for (const turn of [running.agentTurnId, suspended.agentTurnId, waiting])
    expect(await turnRow(t, turn)).toMatchObject({ outcome: 'success' })
  const [era] = cursor.split(':')
  const later = (await readEvents(t.db, cursor, 1_000)).map((event) => BigInt(event.cursor.split(':')[0]!))
  expect(later.length).toBeGreaterThan(0)
  expect(later.every((one) => one > BigInt(era!))).toBe(true)
})

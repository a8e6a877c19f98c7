import { expect, it, onTestFinished } from 'vitest'
import { startFleet } from '../support/processes/fleet.js'
import { doubledEffects, startLoad } from '../support/processes/load.js'
import { startOwnPostgres } from '../support/processes/own-postgres.js'
import { isToday } from '../support/thorough.js'

it.runIf(isToday('servers'))('[T1.6] ends every turn once while PostgreSQL is killed twice under load', async () => {
  const postgres = await startOwnPostgres({ durable: true })
  onTestFinished(() => postgres.stop())
  const load = await startLoad({ url: postgres.url })
  onTestFinished(() => load.stop())
  const fleet = await startFleet({ url: postgres.url, workers: 3, pmos: 2 })
  onTestFinished(() => fleet.stop())
  await load.progress(60)

  await postgres.kill('SIGKILL')
  await postgres.restart()
  await load.progress(60)
  await postgres.kill('SIGQUIT')
  await postgres.restart()
  await load.progress(60)

  const audit = await load.settle()
  expect(audit).toMatchObject({ stuck: [], lost: [], outcomes: { success: audit.turns }, taskEvents: audit.turns })
  expect(await doubledEffects(load)).toEqual([])
  expect([...fleet.workers, ...fleet.pmos].every((one) => one.alive())).toBe(true)
})

/** An uncaught error of a function agent fails its turn; the worker drains, and the turns beside it succeed. */
import { expect, it, onTestFinished } from 'vitest'
import { startFleet } from '../support/processes/fleet.js'
import { project, target, testKernel } from '../support/kernel.js'
import { until } from '../support/until.js'

it.each(['timer', 'rejection'])('[W2.1] fails the turn of an uncaught error (%s) and no other turn', async (how) => {
  const t = await testKernel()
  onTestFinished(() => t.drop())
  const { kernel, url } = t
  const culprit = `throwing-${how}`
  await kernel.putAgents(
    ['slow-one', 'slow-two', culprit].map((agentId) => ({ projectId: project, agentId, workerTarget: target })),
  )
  for (const agentId of ['slow-one', 'slow-two', culprit]) await kernel.enqueue({ projectId: project, agentId })
  const fleet = await startFleet({ url, workers: 1, pmos: 0 })
  onTestFinished(() => fleet.stop())
  expect(await fleet.workers[0]!.ended).toBe(75)
  await fleet.add('worker')
  const turns = () =>
    kernel.db.query<{ agent_id: string; outcome: string | null; error: string | null; deaths: number }>({
      text: 'select agent_id, outcome, error, deaths from state.agent_inbox order by agent_id',
    })
  await until('every turn ends', async () =>
    (await turns()).every((turn) => turn.outcome !== null) ? true : undefined,
  )
  expect(await turns()).toEqual([
    { agent_id: 'slow-one', outcome: 'success', error: null, deaths: 0 },
    { agent_id: 'slow-two', outcome: 'success', error: null, deaths: 0 },
    { agent_id: culprit, outcome: 'failed', error: 'agent_failed', deaths: 0 },
  ])
})

/** What a function in a process leaves behind where no cgroup can be created: the subreaper must find every process. */
import { readFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock } from '@bellwether/base'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { cgroupHome } from '../../../src/ports/processes/cgroup.js'
import { openGuardian } from '../../../src/ports/processes/guardian.js'
import { readProcess, readSelf } from '../../../src/ports/processes/proc.js'
import { openIsolationExecutor } from '../../../src/worker/isolation/executor.js'
import { kernelPerFile, project } from '../../support/kernel.js'
import { turnRow } from '../../support/kernel-rows.js'
import { testFolder } from '../../support/postgres.js'
import { quietLog } from '../../support/quiet-log.js'
import { until } from '../../support/until.js'
import { testWorker } from '../../support/worker.js'

const module = new URL('./isolated-agents.mjs', import.meta.url).href
const t = kernelPerFile({ time: 'real' })
let folder = ''
beforeAll(async () => {
  process.env['BELLWETHER_CGROUPS'] = 'off'
  folder = await testFolder()
})
afterAll(() => rm(folder, { recursive: true, force: true }))

it('without a cgroup, a function in a process leaves no hidden child, whether it returns or exits', async ({
  onTestFinished,
}) => {
  const common = { clock: systemClock, log: quietLog, ttlMs: 300_000, graceMs: 300 }
  const guardian = openGuardian(common)
  const self = readSelf()
  const executor = openIsolationExecutor({
    ...common,
    guardian,
    self,
    folder,
    installation: 'contained',
    handBack: (turn) => t.kernel.handBack([turn], 'w'),
  })
  onTestFinished(async () => {
    await executor.close()
    guardian.close()
  })
  const hides = { module, name: 'hides', takesInstruction: false, isolation: 'process', memoryMaxMb: 64 } as const
  const worker = testWorker(t, () => executor.agent(hides))
  for (const exits of [false, true]) {
    const agentId = `hides-${exits}`
    const file = join(folder, agentId)
    await t.agents(agentId)
    const turn = { projectId: project, agentId, instruction: 'do it', payload: { file, exits } }
    const { agentTurnId } = await t.kernel.enqueue(turn)
    const row = await until('the turn has ended', async () => {
      await worker.step()
      await worker.beat()
      const found = await turnRow(t, agentTurnId)
      return found.ended_at === null ? undefined : found
    })
    expect(row).toMatchObject(exits ? { error: 'agent_crashed' } : { outcome: 'success' })
    const hidden = readProcess(Number(readFileSync(file, 'utf8')))
    expect(hidden === undefined || hidden.zombie).toBe(true)
  }
  expect(cgroupHome()).toBeUndefined()
})

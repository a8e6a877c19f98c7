/** W4.1: every timing is a named setting of the file and the environment, and reaches the process that uses it. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { kernelLimits, pmoSettings, workerLoopSettings, workerSettings } from '../../src/runtime/parts/part-settings.js'
import { loadSettings } from '../../src/settings/load.js'
import type { Settings } from '../../src/settings/schema.js'
import { kernelPerFile, project } from '../support/kernel.js'
import { headOf, turnRow } from '../support/kernel-rows.js'
import { guardOn } from '../support/watchdog.js'

let folder: string
const t = kernelPerFile()
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'bellwether-settings-'))
})
afterAll(async () => {
  await rm(folder, { recursive: true, force: true })
})

const timings = {
  pmo: [
    'watchdog_interval_seconds',
    'dispatched_retry_seconds',
    'dispatched_timeout_seconds',
    'pending_wakeup_seconds',
    'pending_wakeup_skip_seconds',
    'active_reap_seconds',
    'suspended_reap_seconds',
    'max_queue_seconds',
    'turn_deadline_seconds',
  ],
  worker: [
    'inbox_processing_timeout_seconds',
    'watchdog_interval_seconds',
    'suspend_timeout_seconds',
    'resume_lease_seconds',
    'beat_seconds',
    'poll_seconds',
    'max_deaths',
  ],
}

const pmoOptions = (settings: Settings) => ({ ...pmoSettings(settings), ...kernelLimits(settings) })
const workerOptions = (settings: Settings) => ({ ...workerSettings(settings), ...workerLoopSettings(settings) })

for (const [section, keys] of Object.entries(timings)) {
  for (const key of keys) {
    it(`[W4.1] reads ${section}.${key} from the file and the environment, and hands it to the process`, async () => {
      await writeFile(join(folder, 'bellwether.toml'), `[${section}]\n${key} = 7\n`)
      expect(loadSettings({ folder, env: {} })).toMatchObject({ [section]: { [key]: 7 } })
      const env = { [`BELLWETHER__${section}__${key}`.toUpperCase()]: '77' }
      const settings = loadSettings({ folder, env })
      expect(settings).toMatchObject({ [section]: { [key]: 77 } })
      const composed = section === 'pmo' ? pmoOptions(settings) : workerOptions(settings)
      // suspend_timeout_seconds → suspendTimeoutSeconds
      const name = key.replace(/_(.)/g, (_match, letter: string) => letter.toUpperCase())
      expect(composed).toMatchObject({ [name]: 77 })
      await rm(join(folder, 'bellwether.toml'))
    })
  }
}

it('[W4.1] makes the guard use the timings of the environment', async () => {
  const env = {
    BELLWETHER__PMO__DISPATCHED_TIMEOUT_SECONDS: '3',
    BELLWETHER__PMO__ACTIVE_REAP_SECONDS: '8',
    BELLWETHER__PMO__WATCHDOG_INTERVAL_SECONDS: '1',
  }
  const guard = guardOn(t, pmoSettings(loadSettings({ folder, env })))
  await t.agents('started', 'not-started')
  const started = await t.running('started')
  const { agentTurnId } = await t.kernel.enqueue({ projectId: project, agentId: 'not-started', instruction: 'x' })
  const second = async (times: number) => {
    for (let passed = 0; passed < times; passed += 1) {
      await t.advance(1)
      await guard.step()
    }
  }
  await guard.step()
  await second(2)
  expect((await headOf(t, 'not-started')).status).toBe('dispatched')
  await second(2)
  expect(await turnRow(t, agentTurnId)).toMatchObject({ error: 'dispatch_timeout' })
  expect((await headOf(t, 'started')).status).toBe('running')
  await second(5)
  expect(await turnRow(t, started.agentTurnId)).toMatchObject({ error: 'timeout_reaped_by_watchdog' })
})

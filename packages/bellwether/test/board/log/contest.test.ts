import { expect, it } from 'vitest'
import { contest, fewestAcknowledged } from './contest.js'

it('[H2.5] eight processes, some stopped beyond their lease and some killed, lose and duplicate nothing', async () => {
  const report = await contest(8, 3)
  expect(report).toMatchObject({ lost: [], outOfStep: [], crashed: [] })
  expect(report.counted).toBeGreaterThanOrEqual(report.acknowledged)
  expect(report.stopped).toBeGreaterThan(0)
  expect(report.acknowledged).toBeGreaterThan(fewestAcknowledged)
})

import { expect, it } from 'vitest'
import { differential } from './reference-differential.js'

it('[H5.1] [H5.2] the board agrees with the model of the reference on generated logs, and reopens no finished task', async () => {
  const { difference, ...sum } = await differential(300, 1)
  expect(difference).toBeUndefined()
  expect(sum).toMatchObject({ logs: 300, damagedLogs: 150 })
  expect(sum.held).toBeGreaterThan(50)
})

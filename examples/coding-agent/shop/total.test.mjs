import assert from 'node:assert/strict'
import test from 'node:test'
import { total } from './total.mjs'

test('an empty basket costs nothing', () => assert.equal(total([]), 0))
test('every line of a basket counts', () => {
  const basket = [
    { price: 250, count: 2 },
    { price: 99, count: 3 },
  ]
  assert.equal(total(basket), 797)
})

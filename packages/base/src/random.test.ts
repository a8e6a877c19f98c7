import { expect, it } from 'vitest'
import { seededRandom } from './random.js'

it('gives the same numbers and the same order for the same seed, and others for another seed', () => {
  const draw = (seed: number) => {
    const random = seededRandom(seed)
    return [random.next(), random.below(1_000), random.pick(['a', 'b', 'c']), random.shuffled([1, 2, 3, 4, 5, 6, 7, 8])]
  }
  expect(draw(7)).toEqual(draw(7))
  expect(draw(7)).not.toEqual(draw(8))
})

it('shuffles without losing or repeating an element', () => {
  const list = Array.from({ length: 100 }, (_, index) => index)
  expect(
    seededRandom(1)
      .shuffled(list)
      .toSorted((a, b) => a - b),
  ).toEqual(list)
})

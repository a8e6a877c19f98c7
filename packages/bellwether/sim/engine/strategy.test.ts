import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { arbitraryPlan } from './plan.js'
import { prng } from './prng.js'
import { pct, replay, strategyOf, type Choice } from './strategy.js'

const choices = (...fibres: string[]): Choice[] => fibres.map((fibre) => ({ fibre, label: 'x' }))

describe('chance', () => {
  it('repeats for a seed, differs between seeds, and forks independent streams', () => {
    const draw = (seed: number): number[] => {
      const random = prng(seed)
      return Array.from({ length: 5 }, () => random.next())
    }
    expect(draw(1)).toEqual(draw(1))
    expect(draw(1)).not.toEqual(draw(2))
    const one = prng(7)
    const before = one.fork('bell').next()
    one.next()
    expect(one.fork('bell').next()).toBe(before)
    expect(one.fork('ids').next()).not.toBe(before)
  })

  it('spreads over its bound', () => {
    const random = prng(3)
    const counts = [0, 0, 0, 0]
    for (let i = 0; i < 4000; i += 1) counts[random.below(4)]! += 1
    expect(Math.min(...counts)).toBeGreaterThan(850)
  })
})

describe('strategies', () => {
  it('always return one of the choices', () => {
    const sets = fc.array(fc.array(fc.constantFrom('a', 'b', 'c'), { minLength: 1, maxLength: 5 }), { maxLength: 50 })
    fc.assert(
      fc.property(fc.integer(), sets, (seed, steps) => {
        const choose = strategyOf(seed)
        for (const [step, fibres] of steps.entries()) {
          const index = choose(choices(...fibres.toSorted()), step)
          expect([...fibres.keys()]).toContain(index)
        }
      }),
    )
  })

  it('PCT lets one fibre run until a change point or the step limit', () => {
    const choose = pct(prng(5), 0, 100)
    const ran = Array.from({ length: 400 }, (_, step) => choose(choices('a', 'b'), step))
    const switches = ran.filter((fibre, step) => step > 0 && fibre !== ran[step - 1]).length
    expect(switches).toBe(1)
  })

  it('replays numbers and continues with the first choice after their end', () => {
    const choose = replay([1, 5])
    expect([0, 1, 2].map((step) => choose(choices('a', 'b', 'c'), step))).toEqual([1, 2, 0])
  })

  it('plans shrink to no faults at all', () => {
    const plans = arbitraryPlan({ fibres: ['a'], yields: 20 })
    const failed = fc.check(
      fc.property(plans, () => false),
      { seed: 1 },
    )
    expect(failed.counterexample).toMatchObject([{ faults: [] }])
  })
})

/** Without a guard, the simulation must break the invariant that the patch names. `npm run mutations` runs all of them. */
import { readdirSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { thorough, today } from '../test/support/thorough.js'
import { checkMutation, runMutations } from './mutate.js'

const names = readdirSync(new URL('mutations/', import.meta.url)).map((file) => file.replace(/\.patch$/, ''))

const textOf = (name: string) => readFileSync(new URL(`mutations/${name}.patch`, import.meta.url), 'utf8')
/** The first patch of each hazard. */
const firsts = new Map<number, string>()
for (const name of names.toSorted()) {
  for (const [, hazard] of textOf(name).matchAll(/^Hazard (\d+)/gm))
    if (!firsts.has(Number(hazard))) firsts.set(Number(hazard), name)
}

it('has a mutation for each kernel hazard', () => {
  expect([...firsts.keys()].sort((one, other) => one - other)).toEqual([
    ...Array.from({ length: 14 }, (_, index) => index + 1),
    17,
    18,
  ])
})

it('has only mutations that apply to the sources', async () => {
  const applied = await Promise.allSettled(names.map((name) => checkMutation(name)))
  expect(applied.filter(({ status }) => status === 'rejected')).toEqual([])
})

// Races that were observed on a real PostgreSQL. `npm test` plays one of them, another each day; the rest takes minutes.
const observed = [1, 3, 4, 5, 8, 9]
const reproduced = observed.filter((_, index) => thorough || index === today % observed.length)

it('finds each reproduced race when its guard is removed', { timeout: 600_000 }, async () => {
  const wanted = reproduced.flatMap((hazard) => firsts.get(hazard) ?? [])
  expect(wanted).toHaveLength(reproduced.length)
  const results = await runMutations(wanted, () => undefined)
  expect(results.filter((one) => !one.found)).toEqual([])
  expect(results.map(({ name }) => name).sort()).toEqual(wanted.sort())
})

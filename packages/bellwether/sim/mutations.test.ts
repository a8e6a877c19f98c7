/** A guard, taken out, must make the simulation fail at the invariant that the patch names; all of them: `npm run mutations`. */
import { readdirSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { judgeAll } from './mutate.js'

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

// Races that were seen on a real PostgreSQL: those the simulation must find again each time. The others take minutes.
const reproduced = [1, 3, 4, 5, 8, 9]

it('finds the races that were reproduced, each with its guard taken out', { timeout: 600_000 }, async () => {
  const wanted = reproduced.flatMap((hazard) => firsts.get(hazard) ?? [])
  expect(wanted).toHaveLength(reproduced.length)
  const judged = await judgeAll(wanted, () => undefined)
  expect(judged.filter((one) => !one.found)).toEqual([])
  expect(judged.map(({ name }) => name).sort()).toEqual(wanted.sort())
})

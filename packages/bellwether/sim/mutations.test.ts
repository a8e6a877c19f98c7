/** Each guard, taken out, must make the simulation fail at the invariant that the patch names: `npm run mutations`. */
import { readdirSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { judgeAll } from './mutate.js'

const names = readdirSync(new URL('mutations/', import.meta.url)).map((file) => file.replace(/\.patch$/, ''))

it('has a mutation for each kernel hazard', () => {
  const texts = names.map((name) => readFileSync(new URL(`mutations/${name}.patch`, import.meta.url), 'utf8'))
  const covered = new Set(
    texts.flatMap((text) => [...text.matchAll(/^Hazard (\d+)/gm)].map(([, hazard]) => Number(hazard))),
  )
  expect([...covered].sort((one, other) => one - other)).toEqual([
    ...Array.from({ length: 14 }, (_, index) => index + 1),
    17,
    18,
  ])
})

it('finds every mutation', { timeout: 600_000 }, async () => {
  const judged = await judgeAll([], () => undefined)
  expect(judged.filter((one) => !one.found)).toEqual([])
  expect(judged.map(({ name }) => name).sort()).toEqual(names.sort())
})

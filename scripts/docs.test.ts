import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { settingsPage, turnPage } from './pages.js'

const committed = (path: string) => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8')

it('[T2.1] docs/turn.md shows the TURN table as it is (npm run docs writes it)', () => {
  expect(committed('docs/turn.md')).toBe(turnPage())
})

it('docs/settings.md shows every setting as it is (npm run docs writes it)', () => {
  expect(committed('docs/settings.md')).toBe(settingsPage())
})

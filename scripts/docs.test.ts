import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { cliPage } from './cli-page.js'
import { eventsPage, httpPage } from './http-pages.js'
import { settingsPage, turnPage } from './pages.js'

const committed = (path: string) => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8')

it('[T2.1] docs/reference/turn.md shows the TURN table as it is (npm run docs writes it)', () => {
  expect(committed('docs/reference/turn.md')).toBe(turnPage())
})

it('docs/reference/settings.md shows every setting as it is (npm run docs writes it)', () => {
  expect(committed('docs/reference/settings.md')).toBe(settingsPage())
})

it('docs/reference/cli.md shows every command and option as it is (npm run docs writes it)', async () => {
  expect(committed('docs/reference/cli.md')).toBe(await cliPage())
})

it('docs/reference/http.md shows every route of the contract as it is (npm run docs writes it)', () => {
  expect(committed('docs/reference/http.md')).toBe(httpPage())
})

it('docs/reference/events.md shows every server-sent event as it is (npm run docs writes it)', () => {
  expect(committed('docs/reference/events.md')).toBe(eventsPage())
})

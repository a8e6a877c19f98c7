import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { cliPage } from './pages/cli.js'
import { eventsPage, httpPage } from './pages/http.js'
import { worstCases } from '../packages/bellwether/src/http/roles.js'
import { missingDocs, namedDocs } from './named-docs.js'
import { securityPage, settingsPage, turnPage } from './pages/pages.js'

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

it('docs/security.md shows what each role may do, and the worst it can do, as the server decides it (npm run docs writes it)', () => {
  const page = committed('docs/security.md')
  expect(page).toBe(securityPage(page))
  expect(page).toContain(worstCases.operator)
})

it('every page that an error, a hint or a file of init names exists, with its heading, and is part of the package', () => {
  const root = fileURLToPath(new URL('..', import.meta.url))
  const pages = ['bellwether', 'protocol', 'sensor'].map((name) => namedDocs(`${root}packages/${name}/src`, '.ts'))
  expect(pages.flatMap((one) => [...one.keys()])).toContain('docs/guides/agents.md')
  expect(pages.flatMap((one) => missingDocs(one, root))).toEqual([])
  const { files, scripts } = JSON.parse(committed('packages/bellwether/package.json')) as {
    files: string[]
    scripts: { prepack: string }
  }
  expect(files).toContain('docs')
  for (const part of ['../../docs', '../../*.md', '../../LICENSE']) expect(scripts.prepack).toContain(part)
  expect(
    missingDocs(
      new Map([
        ['docs/start.md#no-such-heading', ['x']],
        ['docs/none.md', ['y']],
      ]),
      root,
    ),
  ).toHaveLength(2)
})

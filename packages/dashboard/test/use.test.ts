/**
 * What a person does: signs in, presses keys, answers, stops; and that text written by an attacker is shown as plain
 * text.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTab, type Tab } from './support/browser.js'
import { openFixture, type Fixture, type FixtureOptions } from './support/server.js'
import { turnId } from './support/strings.js'
import { pages } from './support/page-list.js'

// One tab and one server for all tests: the tab keeps its compiled scripts.
let tab: Tab
let fixture: Fixture

beforeAll(async () => {
  ;[tab, fixture] = await Promise.all([openTab(), openFixture()])
})

afterAll(async () => {
  await tab?.close()
  await fixture?.close()
})

/** Runs a test with new fixture data, and a tab without storage and cookies. */
async function using(options: FixtureOptions, act: (tab: Tab) => Promise<void>, width = 1_280): Promise<void> {
  const { page } = tab
  if (page.url() !== 'about:blank')
    await page.evaluate(() => [localStorage, sessionStorage].forEach((store) => store.clear()))
  await page.goto('about:blank')
  await page.context().clearCookies()
  await tab.resize(width)
  fixture.reset(options)
  tab.errors()
  await act(tab)
}

describe('signing in', () => {
  it('asks for a key once, keeps it in the tab, and asks again when the server rejects it', () =>
    using({ key: 'right-key' }, async ({ page, errors }) => {
      await page.goto(`${fixture.url}/p/demo/board`)
      await page.getByLabel('API key').fill('wrong-key')
      await page.getByRole('button', { name: 'Sign in' }).click()
      await page.getByText('The server does not accept this key. Check it, or create a new one.').waitFor()
      await page.getByLabel('API key').fill('right-key')
      await page.keyboard.press('Enter')
      await page.getByText('Upgrade the payment library').first().waitFor()
      await page.reload()
      await page.getByText('Upgrade the payment library').first().waitFor()
      await page.evaluate(() => sessionStorage.clear())
      await page.reload()
      await page.getByLabel('API key').waitFor()
      expect(await page.evaluate(() => JSON.stringify(localStorage))).not.toContain('right-key')
      expect(errors(/status of 401/)).toEqual([])
    }))

  it('signs out at once when the key is revoked, and clears all data', () =>
    using({ key: 'right-key' }, async ({ page }) => {
      await page.goto(`${fixture.url}/p/demo/fleet`)
      await page.getByLabel('API key').fill('right-key')
      await page.keyboard.press('Enter')
      await page.getByText('planner-03').first().waitFor()
      await page.locator('[data-link=live]').waitFor()
      fixture.key = 'another'
      fixture.cut()
      await page.getByLabel('API key').waitFor()
      expect(await page.getByText('planner-03').count()).toBe(0)
    }))

  it('signs in with a one-time link and its cookie', () =>
    using({ key: 'right-key' }, async ({ page, errors }) => {
      await page.goto(`${fixture.url}/login?token=once`)
      await page.getByRole('heading', { name: 'Fleet' }).waitFor()
      await page.locator('[data-link=live]').waitFor()
      expect(page.url()).toBe(`${fixture.url}/p/demo/fleet`)
      await page.getByRole('button', { name: 'Keyboard and statuses' }).click()
      await page.getByRole('button', { name: 'Sign out' }).click()
      await page.getByLabel('API key').waitFor()
      expect(fixture.posted.map(({ method, path }) => `${method} ${path}`)).toEqual(['DELETE /logins'])
      expect(errors()).toEqual([])
    }))
})

describe('the keyboard', () => {
  it('the keyboard reaches every page, the search, lists and the help', () =>
    using({}, async ({ page, errors }) => {
      await page.goto(`${fixture.url}/p/demo/fleet`)
      await page.getByText('planner-03').first().waitFor()
      for (const [key, title] of [
        ['b', 'Board'],
        ['t', 'Turns'],
        ['n', 'Needs you'],
        ['w', 'Workspace'],
        ['h', 'Health'],
        ['f', 'Fleet'],
      ] as const) {
        await page.keyboard.press('g')
        await page.keyboard.press(key)
        await page.getByRole('heading', { level: 1, name: title }).waitFor()
      }
      await page.keyboard.press('/')
      await page.keyboard.type('reviewer-01')
      await page.getByText('1 of 24 agents').waitFor()
      await page.keyboard.press('Escape')
      await page.keyboard.press('j')
      await page.locator('[data-at="0"]:focus').waitFor()
      await page.keyboard.press('Enter')
      await page.waitForURL(`**/turns/${turnId(1)}`)
      await page.keyboard.press('?')
      await page.getByRole('dialog').getByText('Keyboard and statuses').waitFor()
      await page.keyboard.press('Escape')
      await page.getByRole('dialog').waitFor({ state: 'detached' })
      expect(errors()).toEqual([])
    }))

  it('every control is reachable by Tab and shows a focus ring', () =>
    using({}, async ({ page }) => {
      await page.goto(`${fixture.url}/p/demo/needs-you`)
      await page.getByText('Ship it today?').waitFor()
      const reached = new Set<string>()
      for (let presses = 0; presses < 60; presses += 1) {
        await page.keyboard.press('Tab')
        const shown = await page.evaluate(() => {
          const focused = document.activeElement as HTMLElement
          const { outlineStyle, outlineWidth } = getComputedStyle(focused)
          return {
            name: focused.textContent ?? '',
            tag: focused.tagName,
            ring: outlineStyle !== 'none' && outlineWidth !== '0px',
          }
        })
        if (shown.tag === 'BODY') break
        expect(shown.ring, `${shown.tag} ${shown.name}`).toBe(true)
        reached.add(`${shown.tag} ${shown.name.trim()}`)
      }
      for (const wanted of ['BUTTON Answer', 'BUTTON Decline', 'A Health', 'BUTTON Try again'])
        expect([...reached]).toContain(wanted)
    }))
})

describe('actions', () => {
  it('answers a question with a choice, text or fields, and reports missing fields first', () =>
    using({}, async ({ page, errors }) => {
      await page.goto(`${fixture.url}/p/demo/needs-you`)
      const card = (agent: string) => page.getByRole('article', { name: `Question of ${agent}` })
      await card('deployer-07').getByRole('button', { name: 'Answer' }).click()
      await card('deployer-07').getByText('choose one', { exact: true }).waitFor()
      await card('deployer-07').getByLabel('ship it').check()
      await card('deployer-07').getByRole('button', { name: 'Answer' }).click()
      await card('deployer-07').waitFor({ state: 'detached' })
      await card('planner-03').getByLabel('Your answer').fill('The second one')
      await page.keyboard.press('Control+Enter')
      await card('planner-03').waitFor({ state: 'detached' })
      await card('triage-06').getByLabel('severity').fill('two')
      await card('triage-06').getByRole('button', { name: 'Answer' }).click()
      await card('triage-06').getByText('must be a number').waitFor()
      await card('triage-06').getByLabel('severity').fill('2')
      await card('triage-06').getByLabel('is_public').selectOption('yes')
      await card('triage-06').getByRole('button', { name: 'Answer' }).click()
      await card('triage-06').waitFor({ state: 'detached' })
      expect(fixture.posted.map(({ path, body }) => [path, body])).toEqual([
        ['/projects/demo/tool-calls/ask-1/result', { status: 'success', result: 'ship it' }],
        ['/projects/demo/tool-calls/ask-2/result', { status: 'success', result: 'The second one' }],
        [
          '/projects/demo/tool-calls/ask-3/result',
          {
            status: 'success',
            result: {
              fields: [
                { name: 'severity', value: 2 },
                { name: 'is_public', value: true },
              ],
            },
          },
        ],
      ])
      expect(errors()).toEqual([])
    }))

  it('stops a turn with a reason after a confirmation', () =>
    using({}, async ({ page }) => {
      await page.goto(`${fixture.url}/p/demo/turns/${turnId(0)}`)
      await page.getByRole('button', { name: 'Stop…' }).click()
      await page.getByLabel('Reason').fill('wrong branch')
      await page.getByRole('button', { name: 'Stop turn' }).click()
      await page.getByRole('dialog').waitFor({ state: 'detached' })
      expect(fixture.posted).toEqual([
        { method: 'POST', path: `/projects/demo/turns/${turnId(0)}/stop`, body: { reason: 'wrong branch' } },
      ])
    }))

  it('shows a fallback with its reason, who ended the turn, and the work so far', () =>
    using({}, async ({ page, errors }) => {
      const turnWith = (isSuccess: boolean) =>
        fixture.world.turns.find(({ outcome }) => outcome !== null && (outcome === 'success') === isSuccess)!
      const ended = turnWith(false)
      await page.goto(`${fixture.url}/p/demo/turns/${ended.agent_turn_id}`)
      const end = page.getByRole('region', { name: 'Timeline' }).getByRole('listitem').last()
      await end.getByText(`Deliverable: ${ended.outcome}`).waitFor()
      await end.getByText('fallback', { exact: true }).waitFor()
      for (const words of ['Ended by key ops.', 'Two of the three tests pass now.'])
        await end.getByText(words).waitFor()
      await end.getByText('Tool results').click()
      await end.getByText('2 passed').waitFor()
      expect(errors()).toEqual([])
      await page.goto(`${fixture.url}/p/demo/turns/${turnWith(true).agent_turn_id}`)
      await page.getByText('Deliverable: success').waitFor()
      expect(await page.getByText('fallback', { exact: true }).count()).toBe(0)
    }))

  it('moves a task from its drawer, and loads the result of a call when it is opened', () =>
    using({}, async ({ page }) => {
      await page.goto(`${fixture.url}/p/demo/board`)
      await page.getByRole('button', { name: /T-3/ }).click()
      const answered = page.waitForResponse((response) => response.request().method() === 'PATCH')
      await page.getByRole('dialog').getByRole('button', { name: 'Try again' }).click()
      await answered
      expect(fixture.posted).toEqual([{ method: 'PATCH', path: '/board/tasks/T-3', body: { action: 'retry' } }])
      await page.goto(`${fixture.url}/p/demo/turns/${turnId(0)}`)
      await page.getByText('run_tests').click()
      await page.getByText('42 tests passed').first().waitFor()
    }))

  it('links to the columns of the board on a small window', () =>
    using(
      {},
      async ({ page }) => {
        await page.goto(`${fixture.url}/p/demo/board`)
        const card = page.getByRole('button', { name: /T-3/ })
        await card.waitFor({ state: 'attached' })
        const isSeen = async () => ((await card.boundingBox())?.x ?? Infinity) < 390
        expect(await isSeen()).toBe(false)
        await page
          .getByRole('navigation', { name: 'Columns' })
          .getByRole('button', { name: /blocked/ })
          .click()
        await expect.poll(isSeen).toBe(true)
      },
      390,
    ))

  it('opens folders one by one, large ones too, and finds files by name', () =>
    using({}, async ({ page, errors }) => {
      await page.goto(`${fixture.url}/p/demo/workspace`)
      await page.getByRole('treeitem', { name: /^many/ }).click()
      await page.getByText('file-00003.txt').waitFor()
      await page
        .getByRole('treeitem', { name: /^src/ })
        .waitFor({ state: 'detached' })
        .catch(() => undefined)
      await page.keyboard.press('/')
      await page.keyboard.type('login')
      await page.getByText('/src/login.test.ts').waitFor()
      await page.getByText('2 found').waitFor()
      expect(errors()).toEqual([])
    }))

  it('switches themes and remembers the choice', () =>
    using({}, async ({ page }) => {
      await page.goto(`${fixture.url}/p/demo/fleet`)
      const theme = () => page.evaluate(() => document.documentElement.dataset['theme'])
      await page.getByRole('button', { name: /Theme: system/ }).click()
      expect(await theme()).toBe('light')
      await page.getByRole('button', { name: /Theme: light/ }).click()
      expect(await theme()).toBe('dark')
      await page.reload()
      await page.getByRole('button', { name: /Theme: dark/ }).waitFor()
      expect(await theme()).toBe('dark')
    }))
})

describe('hostile text', () => {
  it.each([1_280, 390])('is plain text on every page at %i px: nothing runs, is hidden or widens the page', (width) =>
    using(
      { hostile: true, agents: 60 },
      async ({ page, visit, errors }) => {
        await page.goto(`${fixture.url}/p/demo/fleet`)
        const [first, ...others] = pages
        const task = { path: '/board?task=T-3', title: 'Task T-3' }
        const ended = { path: `/turns/${turnId(3)}`, title: 'Turns' }
        for (const { path, title } of [first!, task, ...others, ended]) {
          await visit(`/p/demo${path}`)
          await page
            .getByRole(path === task.path ? 'dialog' : 'heading', { name: title })
            .first()
            .waitFor()
          await page.getByText('onerror').first().waitFor({ state: 'attached' })
          for (const summary of await page.locator('summary').all()) await summary.click()
          const found = await page.evaluate(() => ({
            owned: window.__owned,
            markup: document.querySelectorAll('main img, main script, main svg[onload], dialog img').length,
            links: [...document.querySelectorAll('a')]
              .map((link) => link.protocol)
              .filter((protocol) => protocol !== 'http:' && protocol !== 'https:'),
            bare: [...document.querySelectorAll<HTMLAnchorElement>('a[target=_blank]')].filter(
              (link) => !link.rel.includes('noopener'),
            ).length,
            turned: document.body.textContent?.includes('\u202e'),
            isWider: document.documentElement.scrollWidth > innerWidth,
          }))
          expect(found, path).toEqual({
            owned: undefined,
            markup: 0,
            links: [],
            bare: 0,
            turned: false,
            isWider: false,
          })
        }
        expect(errors()).toEqual([])
      },
      width,
    ),
  )
})

/** Every page with data, wide and narrow, light and dark; empty, loading, failed, or with a response of an unexpected form. */
import { afterEach, describe, expect, it } from 'vitest'
import { screenshot, violations } from './support/browser.js'
import { fixture, tab } from './support/one-tab.js'
import { nameOf, pages } from './support/page-list.js'

afterEach(async () => {
  fixture.mood = 'ok'
  await tab.resize(1_280)
})

const load = (path: string) => tab.page.goto(`${fixture.url}/p/demo${path}`)

describe('pages with data', () => {
  it.each([1_280, 390])(
    'at %i px every page shows its data, passes axe in both themes, fits its window, and leaves the console clean',
    async (width) => {
      const { page } = tab
      await tab.resize(width)
      await load('/fleet')
      for (const { path, title, shows } of pages) {
        await tab.visit(`/p/demo${path}`)
        await page.getByRole('heading', { level: 1, name: title }).waitFor()
        await page.getByText(shows).first().waitFor()
        await page.locator('[data-link=live]').waitFor()
        const isWider = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)
        expect(isWider, `${path} is wider than its window`).toBe(false)
        await inBothThemes(`${nameOf(path)}-${width}`, width)
      }
      await tab.visit('/p/demo/board?task=T-3')
      await page.getByText('Do it well.').waitFor()
      await inBothThemes(`task-${width}`, width)
      await page.keyboard.press('Escape')
      await page.keyboard.press('?')
      await page.getByRole('heading', { name: 'Statuses', exact: true }).waitFor()
      await inBothThemes(`help-${width}`, width)
      expect(tab.errors()).toEqual([])
    },
  )
})

async function inBothThemes(name: string, width: number): Promise<void> {
  const { page } = tab
  await screenshot(page, `${name}-light`)
  expect(await violations(page), `${name}, light`).toEqual([])
  await page.emulateMedia({ colorScheme: 'dark' })
  await screenshot(page, `${name}-dark`)
  // Only the colours differ, and they are the same at every width.
  const dark = width > 390 ? await violations(page, ['color-contrast']) : []
  expect(dark, `${name}, dark`).toEqual([])
  await page.emulateMedia({ colorScheme: 'light' })
}

describe('pages without data', () => {
  it('every page says that it is empty and what to do', async () => {
    fixture.mood = 'empty'
    const { page } = tab
    await load('/fleet')
    for (const { path, empty } of pages) {
      if (empty === null) continue
      await tab.visit(`/p/demo${path}`)
      await page.getByText(empty).waitFor()
      await screenshot(page, `${nameOf(path)}-empty`)
      // The others show it in the same way.
      const found = path === '/fleet' || path === '/health' ? await violations(page) : []
      expect(found, path).toEqual([])
    }
    expect(tab.errors()).toEqual([])
  })

  it('every page shows that it is loading', async () => {
    fixture.mood = 'hang'
    const { page } = tab
    for (const [at, { path, shows }] of pages.entries()) {
      await load(path)
      await page.getByRole('status', { name: 'Loading' }).first().waitFor()
      expect(await page.getByText(shows).count()).toBe(0)
      await screenshot(page, `${nameOf(path)}-loading`)
      const found = at === 0 ? await violations(page) : []
      expect(found, path).toEqual([])
      expect(tab.errors()).toEqual([])
      // A browser has six connections per server: the hanging requests of one page would block the next one.
      await page.goto('about:blank')
      fixture.release()
    }
  })

  it('every page shows the error and retries on request', async () => {
    const { page } = tab
    for (const [at, { path, shows }] of pages.entries()) {
      await tab.resize(at % 2 === 0 ? 1_280 : 390)
      // The application retries after an internal error, but not after a rejection.
      fixture.mood = at === 0 ? 'error' : 'rejected'
      await load(path)
      await page.getByText('something went wrong inside').first().waitFor()
      await page.getByText('look at the log of the server').first().waitFor()
      await screenshot(page, `${nameOf(path)}-error`)
      expect(at === 0 ? await violations(page) : []).toEqual([])
      fixture.mood = 'ok'
      // A page may show several errors, not all at once.
      const retries = page.getByRole('alert').getByRole('button', { name: 'Try again' })
      const retry = async () => {
        await retries.evaluateAll((buttons) => buttons.forEach((button) => (button as HTMLElement).click()))
        return page.getByText(shows).count()
      }
      await expect.poll(retry, { interval: 200 }).toBeGreaterThan(0)
      // The browser logs failed responses itself.
      expect(tab.errors(/status of (?:500|409)/), path).toEqual([])
    }
  })
})

describe('the Fleet page', () => {
  it('shows no number for what needs a person if the server rejects the question', async () => {
    fixture.mood = 'rejected'
    await load('/fleet')
    await tab.page.getByText('something went wrong inside').first().waitFor()
    const tile = tab.page.getByRole('region', { name: 'Summary' }).getByRole('link', { name: /need/ })
    expect(await tile.textContent()).toBe('–need you')
    tab.errors()
  })

  it('shows that a stuck agent asks a person', async () => {
    await load('/fleet')
    const row = tab.page.getByRole('row', { name: /planner-03/ })
    const box = await row.getByRole('link', { name: 'needs you' }).boundingBox()
    expect(box?.width).toBeGreaterThan(20)
    expect(tab.errors()).toEqual([])
  })
})

describe('the Health page', () => {
  it('stops loading when the server rejects its requests', async () => {
    fixture.mood = 'rejected'
    await load('/health')
    await tab.page.getByRole('alert').nth(1).waitFor()
    await tab.page.getByRole('status', { name: 'Loading' }).first().waitFor({ state: 'detached' })
    expect(await tab.page.getByRole('alert').count()).toBeGreaterThan(1)
    tab.errors()
  })
})

describe('responses of an unexpected form', () => {
  it('break only their own page, which says so; the others stay reachable', async () => {
    fixture.mood = 'odd'
    const { page } = tab
    await load('/fleet')
    for (const { path, title } of pages) {
      await tab.visit(`/p/demo${path}`)
      await page.getByRole('heading', { level: 1, name: title }).waitFor()
      await page.getByRole('navigation').getByRole('link', { name: 'Health' }).first().waitFor()
      const alert = page.getByRole('alert').filter({ hasText: /\S/ }).first()
      await alert.waitFor()
      expect(await alert.textContent(), path).not.toBe('')
    }
    tab.errors()
  })
})

describe('unknown URLs', () => {
  it('an unknown URL shows an error page with a link back', async () => {
    const { page } = tab
    await page.goto(`${fixture.url}/nowhere/at/all`)
    await page.getByText('There is no page at this URL').waitFor()
    await page.getByRole('link', { name: 'Go to the fleet' }).click()
    await page.getByText('planner-03').first().waitFor()
    await tab.visit('/p/demo/turns/no-such-turn')
    await page.getByText('/projects/demo/turns/no-such-turn does not exist').waitFor()
    expect(tab.errors(/status of 404/)).toEqual([])
  })
})

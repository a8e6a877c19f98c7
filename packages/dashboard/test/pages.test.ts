/** Every page with data, wide and narrow, light and dark, in a real Chromium over the built pages. */
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { look, openBrowser, picture, wrongs } from './support/browser.js'
import { openFixture, type Fixture } from './support/server.js'
import { nameOf, pages } from './support/tried.js'

let browser: Browser
let fixture: Fixture

beforeAll(async () => {
  ;[browser, fixture] = await Promise.all([openBrowser(), openFixture()])
})

afterAll(async () => {
  await browser?.close()
  await fixture?.close()
})

describe.each([1_280, 390])('at %i px', (width) => {
  it('every page shows its data, passes axe in both themes, fits its window, and leaves the console clean', async () => {
    const { page, errors, close } = await look(browser, { width, height: width === 390 ? 844 : 800 })
    for (const { path, title, shows } of pages) {
      await page.goto(`${fixture.url}/p/demo${path}`)
      await page.getByText(shows).first().waitFor()
      await page.locator('[data-link=live]').waitFor()
      expect(await page.locator('h1').textContent(), path).toContain(title)
      const isWider = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)
      expect(isWider, `${path} is wider than its window`).toBe(false)
      await inBothThemes(page, `${nameOf(path)}-${width}`, width)
    }
    await page.goto(`${fixture.url}/p/demo/board?task=T-3`)
    await page.getByText('Do it well.').waitFor()
    await inBothThemes(page, `task-${width}`, width)
    await page.keyboard.press('Escape')
    await page.keyboard.press('?')
    await page.getByRole('heading', { name: 'Statuses', exact: true }).waitFor()
    await inBothThemes(page, `help-${width}`, width)
    expect(errors()).toEqual([])
    await close()
  })
})

async function inBothThemes(page: Page, name: string, width: number): Promise<void> {
  await picture(page, `${name}-light`)
  expect(await wrongs(page), `${name}, light`).toEqual([])
  await page.emulateMedia({ colorScheme: 'dark' })
  await picture(page, `${name}-dark`)
  // Only the colours differ, and they are the same at every width.
  const dark = width > 390 ? await wrongs(page, ['color-contrast']) : []
  expect(dark, `${name}, dark`).toEqual([])
  await page.emulateMedia({ colorScheme: 'light' })
}

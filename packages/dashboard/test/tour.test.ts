/** The tour of the first visit: offered once per browser, by mouse and by keyboard, and again from the help. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openTab, screenshot, violations, type Tab } from './support/browser.js'
import { openFixture, type Fixture } from './support/server.js'

let tab: Tab
let fixture: Fixture
beforeAll(async () => {
  ;[tab, fixture] = await Promise.all([openTab({ isFirstVisit: true }), openFixture()])
})
afterAll(async () => {
  await tab?.close()
  await fixture?.close()
})

it('the first visit offers the tour, which the keyboard walks through page by page, without layout shift', async () => {
  const { page } = tab
  await page.goto(`${fixture.url}/p/demo/turns`)
  await page.getByText('the tests do not pass').first().waitFor()
  const tour = page.getByRole('dialog', { name: 'Tour' })
  await tour.getByText('New here?').waitFor()
  expect(page.url()).toContain('/turns')
  expect(await violations(page)).toEqual([])
  await tab.shift()
  const seen: string[] = []
  for (let at = 0; at < 7; at += 1) {
    const before = await tour.getByRole('heading').textContent()
    await page.keyboard.press('ArrowRight')
    await expect.poll(() => tour.getByRole('heading').textContent()).not.toBe(before)
    // The step has the focus, so that a screen reader reads it.
    expect(await page.evaluate(() => document.activeElement?.getAttribute('aria-label'))).toBe('Tour')
    seen.push(new URL(page.url()).pathname.split('/').at(-1)!)
    await screenshot(page, `tour-${at + 1}`)
  }
  expect(seen).toEqual(['fleet', 'board', 'turns', 'trends', 'needs-you', 'health', 'health'])
  await tour.getByRole('button', { name: 'Done' }).click()
  await tour.waitFor({ state: 'detached' })
  expect(tab.errors()).toEqual([])
})

it('a browser that saw or skipped the tour is not asked again, and the help starts it', async () => {
  const { page } = tab
  await page.evaluate(() => localStorage.clear())
  await page.goto(`${fixture.url}/p/demo/fleet`)
  const tour = page.getByRole('dialog', { name: 'Tour' })
  await tour.getByRole('button', { name: 'Skip' }).click()
  await tour.waitFor({ state: 'detached' })
  await page.goto(`${fixture.url}/p/demo/fleet`)
  await page.getByText('planner-03').first().waitFor()
  expect(await tour.count()).toBe(0)
  await page.keyboard.press('?')
  await page.getByRole('button', { name: 'Take the tour' }).click()
  await tour.getByText('New here?').waitFor()
  await page.keyboard.press('Escape')
  await tour.waitFor({ state: 'detached' })
  expect(tab.errors()).toEqual([])
})

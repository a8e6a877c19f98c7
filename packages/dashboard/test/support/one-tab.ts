/** One tab and one fixture server for all tests of the file that imports this: the tab keeps its compiled scripts. */
import type { Page } from 'playwright-core'
import { afterAll, beforeAll } from 'vitest'
import { openTab, type Tab } from './browser.js'
import { openFixture, type Fixture, type FixtureOptions } from './server.js'

export let tab: Tab
export let page: Page
export let fixture: Fixture

beforeAll(async () => {
  ;[tab, fixture] = await Promise.all([openTab(), openFixture()])
  page = tab.page
})

afterAll(async () => {
  await tab?.close()
  await fixture?.close()
})

/** Opens the first page and waits for the event stream. */
export async function openLive(): Promise<void> {
  await page.goto(fixture.url)
  await page.locator('[data-link=live]').waitFor()
}

/** Runs a test with new fixture data, and a tab without storage and cookies. */
export async function using(options: FixtureOptions, act: (tab: Tab) => Promise<void>, width = 1_280): Promise<void> {
  if (page.url() !== 'about:blank')
    await page.evaluate(() => [localStorage, sessionStorage].forEach((store) => store.clear()))
  await page.goto('about:blank')
  await page.context().clearCookies()
  await tab.resize(width)
  fixture.reset(options)
  tab.errors()
  await act(tab)
}

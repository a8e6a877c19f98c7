/** Every page without data: empty, loading, failed, or with a response of an unexpected form. */
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { look, openBrowser, picture, wrongs, type Appearance } from './support/browser.js'
import { openFixture, type Fixture, type Mood } from './support/server.js'
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

async function visit<T>(
  mood: Mood,
  options: Parameters<typeof look>[1],
  act: (seen: Appearance) => Promise<T>,
): Promise<T> {
  fixture.mood = mood
  const seen = await look(browser, options)
  try {
    return await act(seen)
  } finally {
    await seen.close()
    fixture.mood = 'ok'
  }
}

describe('pages without data', () => {
  it('every page says that it is empty and what to do', async () => {
    await visit('empty', {}, async ({ page, errors }) => {
      for (const { path, empty } of pages) {
        if (empty === null) continue
        await page.goto(`${fixture.url}/p/demo${path}`)
        await page.getByText(empty).waitFor()
        await picture(page, `${nameOf(path)}-empty`)
        // The others show it in the same way.
        const found = path === '/fleet' || path === '/health' ? await wrongs(page) : []
        expect(found, path).toEqual([])
      }
      expect(errors()).toEqual([])
    })
  })

  it('every page shows that it is loading', async () => {
    await visit('hang', {}, async ({ page, errors }) => {
      for (const { path, shows } of pages) {
        await page.goto(`${fixture.url}/p/demo${path}`)
        await page.getByRole('status', { name: 'Loading' }).first().waitFor()
        expect(await page.getByText(shows).count()).toBe(0)
        await picture(page, `${nameOf(path)}-loading`)
      }
      expect(await wrongs(page)).toEqual([])
      expect(errors()).toEqual([])
    })
  })

  it('every page shows the error and retries on request', async () => {
    fixture.mood = 'error'
    await Promise.all(
      pages.map(async ({ path, shows }, at) => {
        const seen = await look(browser, { width: at % 2 === 0 ? 1_280 : 390 })
        await seen.page.goto(`${fixture.url}/p/demo${path}`)
        await seen.page.getByText('something went wrong inside').first().waitFor()
        await seen.page.getByText('look at the log of the server').first().waitFor()
        await picture(seen.page, `${nameOf(path)}-error`)
        return { seen, path, shows }
      }),
    ).then(async (all) => {
      expect(await wrongs(all[0]!.seen.page)).toEqual([])
      fixture.mood = 'ok'
      for (const { seen, path, shows } of all) {
        const again = seen.page.getByRole('alert').getByRole('button', { name: 'Try again' })
        while ((await again.count()) > 0) await again.first().click({ timeout: 2_000 }).catch(gone)
        await seen.page.getByText(shows).first().waitFor()
        // The browser logs responses with status 500 itself.
        expect(seen.errors(/status of 500/), path).toEqual([])
        await seen.close()
      }
    })
  })
})

/** One retry may reload everything and remove the other buttons. */
function gone(error: unknown): void {
  if (!/Timeout|detached|not attached/i.test(String(error))) throw error
}

describe('responses of an unexpected form', () => {
  it('break only their own page, which says so; the others stay reachable', async () => {
    await visit('odd', {}, async ({ page }) => {
      for (const { path } of pages) {
        await page.goto(`${fixture.url}/p/demo${path}`)
        await page.getByRole('navigation').getByRole('link', { name: 'Health' }).first().waitFor()
        const shown = page.getByRole('alert').filter({ hasText: /\S/ }).first()
        await shown.waitFor()
        expect(await shown.textContent(), path).not.toBe('')
      }
    })
  })
})

describe('unknown URLs', () => {
  it('an unknown URL shows an error page with a link back', async () => {
    await visit('ok', {}, async ({ page, errors }) => {
      await page.goto(`${fixture.url}/nowhere/at/all`)
      await page.getByText('There is no page at this URL.').waitFor()
      await page.getByRole('link', { name: 'To the fleet' }).click()
      await page.getByText('planner-03').first().waitFor()
      await page.goto(`${fixture.url}/p/demo/turns/no-such-turn`)
      await page.getByText('/projects/demo/turns/no-such-turn does not exist').waitFor()
      expect(errors(/status of 404/)).toEqual([])
    })
  })
})

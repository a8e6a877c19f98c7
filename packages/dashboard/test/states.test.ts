/** Every page without its data: nothing there, not there yet, gone wrong, of a strange shape. */
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { look, openBrowser, picture, wrongs, type Look } from './support/browser.js'
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

async function visit<T>(mood: Mood, options: Parameters<typeof look>[1], act: (seen: Look) => Promise<T>): Promise<T> {
  fixture.mood = mood
  const seen = await look(browser, options)
  try {
    return await act(seen)
  } finally {
    await seen.close()
    fixture.mood = 'ok'
  }
}

describe('without data', () => {
  it('every page says what is empty and what to do about it', async () => {
    await visit('empty', {}, async ({ page, errors }) => {
      for (const { path, empty } of pages) {
        if (empty === null) continue
        await page.goto(`${fixture.url}/p/demo${path}`)
        await page.getByText(empty).waitFor()
        await picture(page, `${nameOf(path)}-empty`)
        // The others say it in the same way.
        const found = path === '/fleet' || path === '/health' ? await wrongs(page) : []
        expect(found, path).toEqual([])
      }
      expect(errors()).toEqual([])
    })
  })

  it('every page shows that it is loading, and nothing that it does not know', async () => {
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

  it('every page says what went wrong, and tries again when asked', async () => {
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
        // The browser itself tells of answers with status 500.
        expect(seen.errors(/status of 500/), path).toEqual([])
        await seen.close()
      }
    })
  })
})

/** One press may bring everything back, and take the other buttons away. */
function gone(error: unknown): void {
  if (!/Timeout|detached|not attached/i.test(String(error))) throw error
}

describe('answers of a strange shape', () => {
  it('break no more than their own page: it says so, and the others can be reached', async () => {
    await visit('odd', {}, async ({ page }) => {
      for (const { path } of pages) {
        await page.goto(`${fixture.url}/p/demo${path}`)
        await page.getByRole('navigation').getByRole('link', { name: 'Health' }).first().waitFor()
        const told = page.getByRole('alert').filter({ hasText: /\S/ }).first()
        await told.waitFor()
        expect(await told.textContent(), path).not.toBe('')
      }
    })
  })
})

describe('what is not there', () => {
  it('an address that leads nowhere says so and leads back', async () => {
    await visit('ok', {}, async ({ page, errors }) => {
      await page.goto(`${fixture.url}/nowhere/at/all`)
      await page.getByText('There is nothing at this address.').waitFor()
      await page.getByRole('link', { name: 'To the fleet' }).click()
      await page.getByText('planner-03').first().waitFor()
      await page.goto(`${fixture.url}/p/demo/turns/no-such-turn`)
      await page.getByText('there is no /projects/demo/turns/no-such-turn').waitFor()
      expect(errors(/status of 404/)).toEqual([])
    })
  })
})

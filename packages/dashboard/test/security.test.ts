/** Signing in, and text written by an attacker, which every page shows as plain text. */
import { describe, expect, it } from 'vitest'
import { fixture, using } from './support/one-tab.js'
import { pages } from './support/page-list.js'
import { turnId } from './support/strings.js'

describe('signing in', () => {
  it('asks for a key once, keeps it in the tab, and asks again when the server rejects it', () =>
    using({ key: 'right-key' }, async ({ page, errors }) => {
      await page.goto(`${fixture.url}/p/demo/board`)
      await page.getByLabel('API key').fill('wrong-key')
      await page.getByRole('button', { name: 'Sign in', exact: true }).click()
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
      await page.goto(`${fixture.url}/login#token=once`)
      await page.getByRole('heading', { name: 'Fleet' }).waitFor()
      await page.locator('[data-link=live]').waitFor()
      expect(page.url()).toBe(`${fixture.url}/p/demo/fleet`)
      // A new tab has no session storage: it gets the page secret from this one.
      const other = await page.context().newPage()
      await other.goto(`${fixture.url}/p/demo/fleet`)
      await other.locator('[data-link=live]').waitFor()
      await other.close()
      await page.getByRole('button', { name: 'Keyboard and statuses' }).click()
      await page.getByRole('button', { name: 'Sign out' }).click()
      await page.getByLabel('API key').waitFor()
      expect(fixture.posted.map(({ method, path }) => `${method} ${path}`)).toEqual(['DELETE /logins'])
      expect(errors()).toEqual([])
    }))
})

describe('hostile text', () => {
  it.each([1_280, 390])(
    'hostile text is plain text on every page at %i px: nothing runs, is hidden or widens the page',
    (width) =>
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

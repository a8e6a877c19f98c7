/** The Evals pages: suites and runs, variants side by side, cases with their outputs, filters in the address, and starting a run. */
import { beforeAll, describe, expect, it } from 'vitest'
import { screenshot, violations } from './support/browser.js'
import { runId } from './support/evals-data.js'
import { fixture, openLive, page, tab } from './support/one-tab.js'

beforeAll(openLive)

const address = () => new URL(page.url())

describe('evals', () => {
  it('lists suites with their problems, starts a run, and opens it', async () => {
    await tab.visit('/p/demo/evals')
    const suites = page.getByRole('list', { name: 'Suites' })
    await suites.getByText('120 cases × 2 variants: support, terse').waitFor()
    await suites.getByText('evals/broken.toml:3: "repeat"').waitFor()
    expect(await suites.getByRole('button').count()).toBe(1)
    await page.getByRole('list', { name: 'Runs' }).getByText('200 of 240 passed (83 %)').waitFor()
    expect(await violations(page)).toEqual([])
    await suites.getByRole('button', { name: 'Run support' }).click()
    await expect.poll(() => address().pathname).toBe(`/p/demo/evals/${runId}`)
    expect(tab.errors()).toEqual([])
  })

  it('shows variants side by side, what became worse, and the cases that differ', async () => {
    await tab.visit(`/p/demo/evals/${runId}`)
    const variants = page.getByRole('region', { name: 'Variants' })
    await variants.getByRole('row', { name: /terse 80 of 120 67 % \$0\.20 .* 1\.2 s 4\.8 s/ }).waitFor()
    await page.getByRole('list', { name: 'Changes' }).getByText('worse').waitFor()
    const cases = page.getByRole('region', { name: 'Cases' })
    expect(await cases.getByRole('row').count()).toBe(101)
    await cases.getByRole('button', { name: 'Show more' }).click()
    await expect.poll(() => cases.getByRole('row').count()).toBe(121)
    await cases.getByRole('button', { name: 'Differing' }).click()
    await expect.poll(() => address().search).toBe('?show=differing')
    await expect.poll(() => cases.getByRole('row').count()).toBe(41)
    expect(await violations(page)).toEqual([])
  })

  it('opens a case with its input, checks, turns, and the difference of its outputs', async () => {
    await tab.visit(`/p/demo/evals/${runId}?show=differing`)
    await page.getByRole('link', { name: 'case 3', exact: true }).click()
    const drawer = page.getByRole('dialog')
    await drawer.getByText('How long do refunds take?').waitFor()
    const terse = drawer.getByRole('region', { name: 'terse' })
    await terse.getByText('the output does not contain "30 days"').waitFor()
    const diff = terse.getByRole('group', { name: 'Output of terse against support' })
    expect((await diff.textContent())?.replaceAll(/\s+/g, ' ')).toBe(
      'Hello.− Refunds take 30 days.+ A month. Goodbye.'.replace('Hello.', ' Hello.'),
    )
    expect(await terse.getByRole('link', { name: 'Turn', exact: true }).getAttribute('href')).toMatch(
      /\/p\/demo\/turns\//,
    )
    await terse.getByRole('link', { name: 'judge' }).waitFor()
    expect(await violations(page)).toEqual([])
    await page.keyboard.press('Escape')
    await expect.poll(() => address().search).toBe('?show=differing')
    expect(tab.errors()).toEqual([])
  })

  it('an empty page teaches the next step', async () => {
    fixture.mood = 'empty'
    await tab.visit('/p/demo/evals')
    await page.getByText('No suites yet').waitFor()
    expect(await page.getByText('evals/NAME.toml').count()).toBe(1)
    fixture.mood = 'ok'
  })

  it.each([1440, 390])('fits %i pixels, light and dark', async (width) => {
    for (const scheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme: scheme })
      await page.setViewportSize({ width, height: 900 })
      for (const [name, path] of [
        ['evals', ''],
        ['evals-run', `/${runId}`],
        ['evals-case', `/${runId}?case=3`],
      ] as const) {
        await tab.visit(`/p/demo/evals${path}`)
        await page
          .getByText(
            name === 'evals'
              ? '120 cases × 2 variants: support, terse'
              : name === 'evals-case'
                ? 'How long do refunds take?'
                : '80 of 120',
          )
          .first()
          .waitFor()
        expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0)
        await screenshot(page, `${name}-${width}-${scheme}`)
      }
    }
  })
})

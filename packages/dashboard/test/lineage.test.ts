/** The parent and children of a turn as a graph: what each box says, the keyboard, many children, and both widths. */
import { beforeAll, describe, expect, it } from 'vitest'
import { screenshot, violations } from './support/browser.js'
import { fixture, openLive, page, tab } from './support/one-tab.js'
import { turnId } from './support/strings.js'
import { wideTurn } from './support/turn-data.js'

beforeAll(openLive)

const section = () => page.getByRole('region', { name: 'Parent and children' })
const boxes = () => section().getByRole('listitem')
const box = (text: string | RegExp) => boxes().filter({ hasText: text })
const placeOf = async (text: string | RegExp) => (await box(text).boundingBox())!

describe('the graph of a turn', () => {
  it('shows the parent, the turn itself and its children from left to right, each with agent, status and how it began', async () => {
    const turn = fixture.world.turns.find(({ recursion_depth: depth }) => depth === 1)!
    await page.goto(`${fixture.url}/p/demo/turns/${turn.agent_turn_id}`)
    await box('this turn').waitFor()
    expect(await tab.shift()).toBeLessThan(0.1)
    await expect.poll(() => section().locator('[aria-current]').innerText()).toContain(turn.agent_id)
    await box('1 takeover').getByText('this turn, delegate of planner-03').waitFor()
    for (const [agent, words] of [
      ['planner-03', 'suspended'],
      ['tester-10', 'success'],
      ['tester-10', '9.0 s'],
      ['tester-10', `fork_join of ${turn.agent_id}`],
      ['writer-13', 'enqueued of tester-10'],
      ['reviewer-11', `follow-up of ${turn.agent_id}`],
      ['tester-12', 'failed'],
    ] as const)
      await box(agent).filter({ hasText: words }).first().waitFor()
    const [parent, self, child, grandchild] = await Promise.all(
      ['suspended', 'this turn', 'fork_join', 'writer-13'].map((text) =>
        section().getByRole('listitem').filter({ hasText: text }).first().boundingBox(),
      ),
    )
    expect([parent!.x < self!.x, self!.x < child!.x, child!.x < grandchild!.x]).toEqual([true, true, true])
    expect(child!.y).toBe(self!.y)
    expect((await placeOf('reviewer-11')).y).toBeGreaterThan(child!.y)
    // One line per box but the first.
    expect(await section().locator('svg:not(li svg) path[d^="M"]').count()).toBe((await boxes().count()) - 1)
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme })
      for (const width of [1_440, 390]) {
        await tab.resize(width)
        await section().scrollIntoViewIfNeeded()
        expect(await violations(page)).toEqual([])
        await screenshot(page, `lineage-${width}-${colorScheme}`)
      }
    }
    await page.emulateMedia({ colorScheme: 'light' })
  })

  it('at 390 px the turn is in view beside its parent, and the page is as wide as its window', async () => {
    const { x, width } = await placeOf('this turn')
    expect(x + width).toBeLessThanOrEqual(390)
    expect(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)).toBe(false)
    await tab.resize(1_280)
  })

  it('the keyboard reaches each turn in the order of the tree, and opens it', async () => {
    const links = section().getByRole('link')
    await links.first().focus()
    await page.keyboard.press('Tab')
    await expect.poll(() => links.nth(1).evaluate((link) => link === document.activeElement)).toBe(true)
    await page.keyboard.press('Enter')
    await page.waitForURL(`**/turns/${turnId(1)}`)
    await box('this turn').waitFor()
  })

  it('of more than 200 children the first are shown, and a button shows the others', async () => {
    await tab.visit(`/p/demo/turns/${wideTurn}`)
    const more = section().getByRole('button', { name: /^30 more/ })
    await more.waitFor()
    expect(
      await section()
        .getByRole('link', { name: /^part-/ })
        .count(),
    ).toBe(200)
    const end = (await section().boundingBox())!
    expect(end.height).toBeLessThan(560)
    await more.focus()
    await page.keyboard.press('Enter')
    // The keyboard stays where the button was.
    await section().locator(':focus').getByText('part-200').waitFor()
    await box('part-229').waitFor()
    expect(await more.count()).toBe(0)
    expect(
      await section()
        .getByRole('link', { name: /^part-/ })
        .count(),
    ).toBe(230)
    await screenshot(page, 'lineage-many')
    expect(tab.errors()).toEqual([])
  })
})

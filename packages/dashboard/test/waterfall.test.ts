/** The waterfall on the page of a turn: every kind of span, zoom by mouse and keyboard, details, and ten thousand spans. */
import { beforeAll, describe, expect, it } from 'vitest'
import { screenshot } from './support/browser.js'
import { fixture, openLive, page, tab } from './support/one-tab.js'
import { longTurn } from './support/spans-data.js'
import { turnId } from './support/strings.js'

beforeAll(async () => {
  // The turn still runs: with time, on the clock of the page or of the server, its axis would grow.
  await page.clock.setFixedTime(new Date())
  fixture.hasDate = false
  await openLive()
})

const section = () => page.getByRole('region', { name: 'Waterfall' })
const row = (name: string | RegExp) => section().getByRole('listitem', { name })
const axis = () => section().locator('[data-track] > span').allInnerTexts()

describe('the waterfall of a turn', () => {
  it('shows each kind of span with its duration, and what happened to the turn on the same axis', async () => {
    await tab.visit(`/p/demo/turns/${turnId(0)}`)
    for (const name of [
      'In the queue: 1.5 s, from 0 ms',
      'Leased, waits for a worker: 500 ms, from 1.5 s',
      'Answered, waits for a worker: 400 ms, from 38.0 s',
      /^Run: planner-00: .* so far, from 2.0 s$/,
      'Step: model: 8.0 s, from 3.0 s, success',
      'run_tests: 13.0 s, from 11.0 s, applied',
      'Question to a person: 14.0 s, from 24.0 s, expired',
      'Limit of account openai: 3.0 s, from 38.0 s',
      'Child turn: tester: 5.0 s, from 41.0 s, failed',
    ])
      await row(name).waitFor()
    expect(
      await section()
        .getByRole('img', { name: /^Watchdog/ })
        .count(),
    ).toBeGreaterThan(0)
    await page.keyboard.press('m')
    const message = page.getByRole('textbox', { name: 'Message to the agent' })
    await expect.poll(() => message.evaluate((one) => one === document.activeElement)).toBe(true)
    const summary = page.locator('dl').first()
    await summary.getByText('Make the login test pass on CI.').waitFor()
    const legend = await section().getByRole('list', { name: 'Legend' }).getByRole('listitem').allInnerTexts()
    for (const sign of ['In the queue', 'Step', 'Tool', 'Failed', 'Until the first token', 'Not ended', 'Watchdog'])
      expect(legend).toContain(sign)
    for (const width of [1_440, 390]) {
      await tab.resize(width)
      await screenshot(page, `waterfall-${width}`)
    }
    await tab.resize(1_280)
  })

  it('a row opens its details: tokens, cost, first token, tries, arguments and result, and the child turn', async () => {
    await row(/^Step: model: 8.0 s, from/).click()
    const details = section().getByRole('region', { name: 'Selected span' })
    for (const words of ['sonnet', 'after 1.9 s', '12k', '$0.08', '2'])
      await details.getByText(words, { exact: true }).waitFor()
    await details.getByText('The test waits for a fixed time.').waitFor()
    await details.getByText('Prompt: 1 card').click()
    await details.getByText('Make the login test pass on CI.').waitFor()
    await row(/^run_tests/).click()
    await details.getByText('Arguments').waitFor()
    await row(/^Child turn/).click()
    await details.getByText('no display').waitFor()
    await details.getByRole('button', { name: 'Close' }).click()
    await expect.poll(() => details.count()).toBe(0)
  })

  it('the waterfall of a turn is zoomed and moved with buttons, keys and the wheel, and never leaves the turn', async () => {
    const all = await axis()
    await section().getByRole('button', { name: 'Zoom in' }).click()
    await expect.poll(axis).not.toEqual(all)
    await row(/^Step: model: 8.0 s, from/).focus()
    await page.keyboard.press('0')
    await expect.poll(axis).toEqual(all)
    await page.keyboard.press('+')
    await page.keyboard.press('ArrowLeft')
    await page.keyboard.press('ArrowLeft')
    await page.keyboard.press('ArrowLeft')
    await expect.poll(async () => (await axis())[0]).toBe(all[0])
    await page.keyboard.press('-')
    await section().getByRole('button', { name: 'Show all' }).isDisabled()
    await row(/^run_tests/).hover()
    await page.keyboard.down('Control')
    await page.mouse.wheel(0, -100)
    await page.keyboard.up('Control')
    await expect.poll(axis).not.toEqual(all)
    await section().getByRole('button', { name: 'Show all' }).click()
    await expect.poll(axis).toEqual(all)
  })

  it('the turn is copied as JSON, as a curl command and as Markdown', async () => {
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    const buttons = page.getByRole('group', { name: 'Copy this turn' }).getByRole('button')
    const clipboard = () => page.evaluate(() => navigator.clipboard.readText())
    // The word is shown for 1.5 s only.
    const saysCopied = page.evaluate(
      () =>
        new Promise<void>((resolve) => {
          const watch = new MutationObserver(() => {
            if (document.body.textContent.includes('copied')) resolve()
          })
          watch.observe(document.body, { subtree: true, childList: true, characterData: true })
        }),
    )
    await buttons.filter({ hasText: 'JSON' }).click()
    await saysCopied
    await expect.poll(clipboard).toMatch(/^\{/)
    expect(JSON.parse(await clipboard())).toMatchObject({ agent_turn_id: turnId(0) })
    for (const [form, words] of [
      ['curl', `/api/v1/projects/demo/turns/${turnId(0)}'`],
      ['Markdown', '### Instruction'],
    ] as const) {
      await buttons.filter({ hasText: form }).click()
      await expect.poll(clipboard).toContain(words)
    }
  })

  it('renders the visible rows of ten thousand spans', async () => {
    await tab.visit(`/p/demo/turns/${longTurn}`)
    await section().getByText('10,000 spans').waitFor()
    await row(/^tool-0:/).waitFor()
    expect(await section().getByRole('listitem').count()).toBeLessThan(60)
    const box = section().getByRole('list', { name: 'Spans of this turn' })
    await box.evaluate((list) => list.scrollTo(0, list.scrollHeight))
    await row(/^tool-9996:/).waitFor()
    expect(tab.errors()).toEqual([])
  })
})

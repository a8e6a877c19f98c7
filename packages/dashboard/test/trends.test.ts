/** The Trends page: range and agent in the address, bars by pointer and keyboard, the table with its links, CSV, no layout shift. */
import { text } from 'node:stream/consumers'
import { beforeAll, describe, expect, it } from 'vitest'
import { screenshot, violations } from './support/browser.js'
import { fixture, openLive, page, tab, using } from './support/one-tab.js'

beforeAll(openLive)

const address = () => new URL(page.url())
const chart = (title: string) => page.getByRole('region', { name: title, exact: true })
const open = async (search = '') => {
  await tab.visit(`/p/demo/trends${search}`)
  await chart('Turns by outcome').waitFor()
}

describe('trends', () => {
  it('keeps range and agent in the address, and shows an empty state that teaches the next step', async () => {
    await open()
    await page.getByRole('button', { name: '7 d' }).click()
    await expect.poll(() => address().search).toBe('?range=7d')
    await page.getByRole('button', { name: '7 d', pressed: true }).waitFor()
    await page.getByRole('searchbox', { name: 'Agent' }).fill('Coder!')
    await expect.poll(() => address().search).toBe('?range=7d&agent=coder')
    await chart('Queue depth').getByText('all agents').waitFor()
    await page.reload()
    await page.getByRole('button', { name: '7 d', pressed: true }).waitFor()
    fixture.mood = 'empty'
    await page.reload()
    await page.getByText('No turn of this agent has ended in this time').waitFor()
    await page.getByText('bellwether turn run AGENT').waitFor()
    fixture.mood = 'ok'
    expect(tab.errors()).toEqual([])
  })

  it('reads bars to the keyboard, and opens the turns of a bar, of an outcome and of an agent', async () => {
    await open('?range=24h')
    const plot = chart('Turns by outcome').getByRole('group')
    await plot.focus()
    await page.keyboard.press('Home')
    const readout = chart('Turns by outcome').locator('[aria-live]')
    await expect.poll(() => readout.textContent()).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d–\d\d:\d\d \S+: success \d+/)
    const first = await readout.textContent()
    await page.keyboard.press('ArrowRight')
    await expect.poll(() => readout.textContent()).not.toBe(first)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'Turns' }).waitFor()
    const { searchParams } = address()
    expect(Date.parse(searchParams.get('to')!) - Date.parse(searchParams.get('from')!)).toBe(3_600_000)
    await page.getByRole('button', { name: /^Ended .*: show all times$/ }).click()
    await expect.poll(() => address().search).toBe('')

    await open('?range=24h')
    await chart('Turns by outcome').getByRole('button', { name: 'Table of Turns by outcome' }).click()
    const table = chart('Turns by outcome').getByRole('table')
    expect(await table.getByRole('row').count()).toBe(25)
    expect(await violations(page)).toEqual([])
    await screenshot(page, 'trends-table-1280')
    await table.getByRole('row').nth(1).getByRole('link').nth(1).click()
    await page.getByRole('heading', { level: 1, name: 'Turns' }).waitFor()
    expect(address().searchParams.get('status')).toBe('failed')

    await open('?range=90d')
    await chart('Cost by agent').getByRole('button', { name: 'Table of Cost by agent' }).click()
    await chart('Cost by agent').getByRole('row').nth(5).getByRole('link').first().click()
    await page.getByRole('heading', { level: 1, name: 'Turns' }).waitFor()
    expect(address().searchParams.get('agent')).toBe('coder')
    expect(tab.errors()).toEqual([])
  })

  it('a click on a bar opens what it counts, and interventions open on the Health page', async () => {
    await open('?range=30d')
    const bars = chart('Interventions by rule').locator('svg').last()
    await bars.scrollIntoViewIfNeeded()
    await bars.hover({ position: { x: 12, y: 40 } })
    await bars.click({ position: { x: 12, y: 40 } })
    await page.getByRole('heading', { level: 1, name: 'Health' }).waitFor()
    expect(tab.errors()).toEqual([])
  })

  it('saves one chart and all charts as CSV, with names that no spreadsheet takes for a formula', async () => {
    await using({ hostile: false }, async () => {
      await page.goto(`${fixture.url}/p/demo/trends?range=6h`)
      const saved = async (click: () => Promise<void>) => {
        const [download] = await Promise.all([page.waitForEvent('download'), click()])
        return (await text(await download.createReadStream())).trimEnd().split('\r\n')
      }
      const one = await saved(() =>
        chart('Tokens by kind').getByRole('button', { name: 'CSV of Tokens by kind' }).click(),
      )
      expect(one[0]).toBe('chart,series,unit,starts_at,value')
      expect(one).toHaveLength(1 + 4 * 24)
      expect(one[1]).toMatch(/^tokens,input,tokens,\d{4}-\d\d-\d\dT\d\d:\d\d:00\.000Z,\d+$/)
      const all = await saved(() => page.getByRole('button', { name: 'Export CSV' }).click())
      expect(new Set(all.slice(1).map((line) => line.split(',')[0])).size).toBe(9)
      expect(tab.errors()).toEqual([])
    })
  })

  it.each([1_440, 1_024, 390])('shifts no layout while it loads and while bars are read at %i px', async (width) => {
    await tab.resize(width)
    await tab.visit('/p/demo/fleet')
    await page.getByRole('heading', { level: 1, name: 'Fleet' }).waitFor()
    await page.getByRole('status', { name: 'Loading' }).waitFor({ state: 'detached' })
    await tab.shift()
    await open('?range=90d')
    const plot = chart('Turns by outcome').getByRole('group')
    await plot.focus()
    for (const key of ['End', 'ArrowLeft', 'ArrowLeft', 'Escape']) await page.keyboard.press(key)
    expect(await tab.shift()).toBe(0)
    for (const scheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme: scheme })
      await screenshot(page, `trends-90d-${width}-${scheme}`)
    }
    await page.emulateMedia({ colorScheme: 'light' })
    expect(tab.errors()).toEqual([])
  })
})

/**
 * Every page at desktop and tablet width: it fits its window, and nothing moves after it has appeared. With SCREENSHOTS=1 also every state of every
 * page at 1440, 1024 and 390 px, light and dark, as files in screenshots/.
 */
import { afterEach, describe, expect, it } from 'vitest'
import { screenshot } from './support/browser.js'
import { fixture, page, tab } from './support/one-tab.js'
import { nameOf, pages } from './support/page-list.js'

const isWriting = process.env['SCREENSHOTS'] !== undefined

afterEach(async () => {
  await page.goto('about:blank')
  fixture.reset({})
  await tab.resize(1_280)
})

async function shoot(name: string): Promise<void> {
  if (!isWriting) return
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme })
    await screenshot(page, `${name}-${colorScheme}`)
  }
  await page.emulateMedia({ colorScheme: 'light' })
}

/** Tables whose columns do not fit, and headings and numbers that wrap. Runs in the page. */
const misfits = () => {
  const tables = [...document.querySelectorAll('[role=table]')].filter((one) => one.scrollWidth > one.clientWidth)
  const lines = [
    ...document.querySelectorAll('.panel > header > h2, [aria-label=Summary] a > span:first-child'),
  ].filter((one) => {
    const range = document.createRange()
    range.selectNodeContents(one)
    return new Set([...range.getClientRects()].map(({ top }) => top)).size > 1
  })
  return [...tables.map((one) => one.getAttribute('aria-label')), ...lines.map((one) => one.textContent)]
}

describe.each(isWriting ? [1_440, 1_024, 390] : [1_440, 1_024])('%i px', (width) => {
  // On a small window, the sections of Health arrive one after the other.
  const shiftMax = width === 390 ? 0.5 : 0.1
  it('every page fits its window, and nothing moves after it has appeared', async () => {
    await tab.resize(width)
    for (const { path, shows } of pages) {
      await page.goto(`${fixture.url}/p/demo${path}`)
      await page.getByText(shows).first().waitFor()
      await page.locator('[data-link=live]').waitFor()
      const isWider = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)
      expect(isWider, `${path} is wider than its window`).toBe(false)
      expect(await page.evaluate(misfits), path).toEqual([])
      expect(await tab.shift(), path).toBeLessThan(shiftMax)
      await shoot(`${width}-${nameOf(path)}`)
    }
    expect(tab.errors()).toEqual([])
  })

  if (!isWriting) return
  it('writes the states of every page', async () => {
    await tab.resize(width)
    for (const mood of ['empty', 'rejected'] as const) {
      fixture.mood = mood
      for (const { path } of pages) {
        await page.goto(`${fixture.url}/p/demo${path}`)
        await page.locator('[data-link=live]').waitFor()
        await page.getByRole('status', { name: 'Loading' }).first().waitFor({ state: 'detached' })
        await shoot(`${width}-${nameOf(path)}-${mood}`)
      }
    }
    fixture.mood = 'ok'
    const open = async (name: string, path: string, act: () => Promise<void>) => {
      await page.goto(`${fixture.url}/p/demo${path}`)
      await page.locator('[data-link=live]').waitFor()
      await act()
      await shoot(`${width}-${name}`)
    }
    const dialog = page.getByRole('dialog')
    await open('task', '/board?task=T-3', () => dialog.getByText('Do it well.').waitFor())
    await open('new-task', '/board', async () => {
      await page.getByRole('button', { name: 'New task…' }).click()
      await dialog.getByLabel('Title').waitFor()
    })
    await open('bulk-turns', '/turns', async () => {
      await page.getByRole('button', { name: /^Select all/ }).click()
      await page.getByRole('button', { name: 'Actions…' }).click()
      await dialog.getByText(/^Will change: /).waitFor()
    })
    await open('bulk-tasks', '/board', async () => {
      await page.getByRole('button', { name: /^Select all/ }).click()
      await page.getByRole('button', { name: 'Actions…' }).click()
      await dialog.getByText(/^Will change: /).waitFor()
    })
    await open('paused', '/board', async () => {
      await page.getByRole('button', { name: 'Pause' }).click()
      await page.getByText('The board is paused').waitFor()
    })
    await open('help', '/fleet', async () => {
      await page.keyboard.press('?')
      await dialog.getByText('Statuses', { exact: true }).waitFor()
    })
    await open('run-turn', '/turns', async () => {
      await page.keyboard.press('n')
      await dialog.getByLabel('Instruction').waitFor()
    })
    // A rejected request is logged by the browser.
    expect(tab.errors(/status of 409/)).toEqual([])
  })
})

/** Live updates: 200 events per second, ten thousand rows, a connection that is lost and restored. */
import { gzipSync } from 'node:zlib'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { home } from './support/build.js'
import { look, openBrowser, type Appearance } from './support/browser.js'
import { openFixture, type Fixture } from './support/server.js'
import { stream } from './support/stream.js'
import { turnId } from './support/strings.js'

let browser: Browser
let fixture: Fixture
let seen: Appearance

beforeAll(async () => {
  ;[browser, fixture] = await Promise.all([openBrowser(), openFixture({ agents: 10_000 })])
})

afterEach(async () => {
  await seen?.close()
  fixture.streams = true
})

afterAll(async () => {
  await browser?.close()
  await fixture?.close()
})

async function openFleet(): Promise<Appearance['page']> {
  seen = await look(browser)
  const { page } = seen
  await page.goto(`${fixture.url}/p/demo/fleet`)
  await page.getByText('10,000 of 10,000 agents').waitFor()
  await page.locator('[data-link=live]').waitFor()
  return page
}

describe('event stream', () => {
  it('shows all of 200 events per second without layout shifts', async () => {
    const page = await openFleet()
    await seen.shift()
    const last = await stream(fixture, { perSecond: 200, seconds: 4 })
    await page
      .getByText(/tool_\d+/)
      .first()
      .waitFor()
    expect(await seen.shift()).toBe(0)
    await page.getByRole('searchbox').fill(last.agent_id)
    await page.getByRole('row').filter({ hasText: last.agent_id }).filter({ hasText: last.tool }).waitFor()
    expect(seen.errors()).toEqual([])
  })

  it.each([
    [390, '/fleet'],
    [1_280, '/turns'],
    [390, `/turns/${turnId(0)}`],
    [1_280, '/board'],
  ])('200 events per second shift no layout at %i px on %s', async (width, path) => {
    seen = await look(browser, { width })
    const { page } = seen
    await page.goto(`${fixture.url}/p/demo${path}`)
    await page.locator('[data-link=live]').waitFor()
    await page.getByRole('status', { name: 'Loading' }).waitFor({ state: 'detached' })
    await seen.shift()
    await stream(fixture, { perSecond: 200, seconds: 1.2 })
    expect(await seen.shift()).toBe(0)
    expect(seen.errors()).toEqual([])
  })

  it('scrolls ten thousand rows to the end while rendering only a few', async () => {
    const page = await openFleet()
    const table = page.getByRole('table', { name: 'Agents' })
    expect(await table.getAttribute('aria-rowcount')).toBe('10001')
    const rendered = await table.evaluate(async (box) => {
      let most = 0
      for (let step = 1; step <= 20; step += 1) {
        box.scrollTop = (box.scrollHeight * step) / 20
        await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))
        most = Math.max(most, box.querySelectorAll('[data-at]').length)
      }
      return most
    })
    expect(rendered).toBeLessThan(80)
    await page.locator('[data-at="9999"]').waitFor()
    expect(seen.errors()).toEqual([])
  })

  it('reports a lost connection with the time of the last message, reconnects, and resumes after the last event', async () => {
    const page = await openFleet()
    fixture.emit('state', { agent_id: 'coder-00000', agent_turn_id: 'x', status: 'idle', turn_epoch: 1 })
    fixture.streams = false
    fixture.cut()
    await page.getByText(/Disconnected, last seen/).waitFor()
    // The data stays on the page.
    await page.getByRole('table', { name: 'Agents' }).waitFor()
    fixture.streams = true
    // It may reconnect on its own before the click.
    await page.getByRole('button', { name: 'Reconnect' }).or(page.locator('[data-link=live]')).first().click()
    await page.locator('[data-link=live]').waitFor()
    expect(fixture.resumedFrom.at(-1)).toMatch(/^1:\d+$/)
    expect(seen.errors(/ERR_|Failed to load/)).toEqual([])
  })
})

describe('failing queries with a live stream', () => {
  it('keeps the old data on the page and says that it is not up to date', async () => {
    const page = await openFleet()
    fixture.mood = 'error'
    fixture.emit('state', { agent_id: 'x', metadata: { current_tool: 'ask_person' } })
    await page.locator('[data-link=stale]').waitFor()
    await page.getByText('10,000 of 10,000 agents').waitFor()
    fixture.mood = 'ok'
    fixture.emit('state', { agent_id: 'x', metadata: { current_tool: 'ask_person' } })
    await page.locator('[data-link=live]').waitFor()
    expect(seen.errors(/status of 500/)).toEqual([])
  })
})

describe('lost connection', () => {
  it('every page reports a lost connection and keeps its data', async () => {
    seen = await look(browser, { width: 390 })
    const { page } = seen
    await page.goto(`${fixture.url}/p/demo/fleet`)
    await page.locator('[data-link=live]').waitFor()
    fixture.streams = false
    fixture.cut()
    for (const name of ['Board', 'Turns', 'You', 'Files', 'Health', 'Fleet']) {
      await page
        .getByRole('link', { name, exact: name !== 'You' })
        .last()
        .click()
      await page.locator('[data-link=lost]').waitFor()
    }
    expect(seen.errors(/ERR_|Failed to load/)).toEqual([])
  })
})

describe('bundle', () => {
  it('keeps the first page below 300 kB gzipped', () => {
    const html = readFileSync(join(home, 'dist/index.html'), 'utf8')
    const files = [...html.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)].map(([, path]) => join(home, 'dist', path!))
    expect(files.length).toBeGreaterThanOrEqual(2)
    const bytes = files.reduce((sum, path) => sum + gzipSync(readFileSync(path)).length, gzipSync(html).length)
    expect(bytes).toBeLessThan(300_000)
    // No inline code: the CSP allows files only.
    expect(html).not.toMatch(/<style|<script(?![^>]*src=)| style=| on\w+=/)
  })
})

/** Live updates: bursts of events, ten thousand rows, a connection that is lost and restored. */
import { gzipSync } from 'node:zlib'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { home } from './support/build.js'
import { needsPerson } from '../src/model/board.js'
import { fixture, page, tab } from './support/one-tab.js'
import { questionOf } from './support/samples.js'
import { turnId } from './support/strings.js'

beforeAll(async () => {
  fixture.reset({ agents: 10_000 })
  await page.goto(`${fixture.url}/p/demo/fleet`)
})

async function openFleet(): Promise<void> {
  await tab.visit('/p/demo/fleet')
  await page.getByText('10,000 of 10,000 agents').waitFor()
  await page.locator('[data-link=live]').waitFor()
}

const agentOf = (number: number) => fixture.world.agents[(number * 7) % 60]!

/** Sends a burst of events about the first 60 agents: one in eight ends a turn, one in eight is a step. */
function burst(from: number, size: number): void {
  for (let number = from; number < from + size; number += 1) {
    const { agent_id, state } = agentOf(number)
    const agent_turn_id = state?.active_agent_turn_id ?? `turn-${number}`
    if (number % 8 === 1) fixture.emit('task', { agent_id, agent_turn_id: `ended-${number}`, status: 'success' })
    if (number % 8 === 2) fixture.emit('step', { agent_id, agent_turn_id, phase: 'think', status: 'success' })
    const metadata = { activity: 'executing_tool', current_tool: `tool_${number}`, waiting_tool_count: 0 }
    fixture.emit('state', { agent_id, agent_turn_id, status: 'running', turn_epoch: 9 + number, metadata })
  }
}

/** Waits until the page has applied every event so far: it then shows one question more. */
async function applied(): Promise<void> {
  const number = fixture.world.questions.length + 1
  const question = questionOf({ tool_call_id: `more-${number}` })
  fixture.world = { ...fixture.world, questions: [...fixture.world.questions, question] }
  fixture.emit('task', { agent_id: 'x', agent_turn_id: `more-${number}`, status: 'success' })
  const needs = number + fixture.world.approvals.length + fixture.world.tasks.filter(needsPerson).length
  await page.waitForFunction((words) => document.title.startsWith(words), `(${needs})`)
}

describe('event stream', () => {
  it('shows the last of 800 events, and shifts no layout', async () => {
    await openFleet()
    await tab.shift()
    for (let sent = 0; sent < 800; sent += 200) {
      burst(sent, 200)
      await applied()
    }
    expect(await tab.shift()).toBe(0)
    const { agent_id } = agentOf(799)
    await page.getByRole('searchbox').fill(agent_id)
    await page.getByRole('row').filter({ hasText: agent_id }).filter({ hasText: 'tool_799' }).waitFor()
    await page.getByRole('searchbox').fill('')
    expect(tab.errors()).toEqual([])
  })

  it.each([
    [390, '/fleet', 'Fleet'],
    [1_280, '/turns', 'Turns'],
    [390, `/turns/${turnId(0)}`, 'Turns'],
    [1_280, '/board', 'Board'],
  ])('a burst of events shifts no layout at %i px on %s', async (width, path, title) => {
    await tab.resize(width)
    await tab.visit(`/p/demo${path}`)
    await page.getByRole('heading', { level: 1, name: title }).waitFor()
    await page.getByRole('status', { name: 'Loading' }).waitFor({ state: 'detached' })
    await page.locator('[data-link=live]').waitFor()
    await applied()
    await tab.shift()
    burst(1_000, 240)
    await applied()
    expect(await tab.shift()).toBe(0)
    expect(tab.errors()).toEqual([])
  })

  it('scrolls ten thousand rows to the end while rendering only a few', async () => {
    await tab.resize(1_280)
    await openFleet()
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
    expect(tab.errors()).toEqual([])
  })

  it('keeps the old data while queries fail with a live stream, and says that it is not up to date', async () => {
    await openFleet()
    fixture.mood = 'error'
    fixture.emit('state', { agent_id: 'x', metadata: { current_tool: 'ask_person' } })
    await page.locator('[data-link=stale]').waitFor()
    await page.getByText('10,000 of 10,000 agents').waitFor()
    fixture.mood = 'ok'
    fixture.emit('state', { agent_id: 'x', metadata: { current_tool: 'ask_person' } })
    await page.locator('[data-link=live]').waitFor()
    expect(tab.errors(/status of 500/)).toEqual([])
  })

  it('reports a lost connection with the time of the last message on every page, reconnects, and resumes after the last event', async () => {
    await openFleet()
    fixture.emit('state', { agent_id: 'coder-00000', agent_turn_id: 'x', status: 'idle', turn_epoch: 1 })
    fixture.streams = false
    fixture.cut()
    await page.getByText(/Disconnected, last seen/).waitFor()
    // The data stays on the page.
    await page.getByRole('table', { name: 'Agents' }).waitFor()
    await tab.resize(390)
    for (const name of ['Board', 'Turns', 'You', 'Files', 'Health', 'Fleet']) {
      await page
        .getByRole('link', { name, exact: name !== 'You' })
        .last()
        .click()
      await page.locator('[data-link=lost]').waitFor()
    }
    fixture.streams = true
    // It may reconnect on its own before the click.
    await page.getByRole('button', { name: 'Reconnect' }).or(page.locator('[data-link=live]')).first().click()
    await page.locator('[data-link=live]').waitFor()
    expect(fixture.resumedFrom.at(-1)).toMatch(/^1:\d+$/)
    expect(tab.errors(/ERR_|Failed to load/)).toEqual([])
  })
})

describe('bundle', () => {
  it('keeps the first page below 160 kB gzipped', () => {
    const html = readFileSync(join(home, 'dist/index.html'), 'utf8')
    const files = [...html.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)].map(([, path]) => join(home, 'dist', path!))
    expect(files.length).toBeGreaterThanOrEqual(2)
    const bytes = files.reduce((sum, path) => sum + gzipSync(readFileSync(path)).length, gzipSync(html).length)
    expect(bytes).toBeLessThan(160_000)
    // No inline code: the CSP allows files only.
    expect(html).not.toMatch(/<style|<script(?![^>]*src=)| style=| on\w+=/)
  })
})

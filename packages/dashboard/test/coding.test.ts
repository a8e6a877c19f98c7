/**
 * Coding agents on a real server, in a real Chromium: an account at its limit, spending limits, a permission that a program asks for, and a
 * schedule. The programs are the stand-ins of examples/coding-agent.
 */
import { delimiter, join } from 'node:path'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTab, violations, type Tab } from './support/browser.js'
import { home } from './support/build.js'
import { openServer, project, type RealServer } from './support/real-server.js'

const standIns = join(home, '../../examples/coding-agent')
const claude = '---\npreset: claude\nargs: [--permission-mode, acceptEdits]\n---\n'
const agents = {
  limited: `${claude}stand-in: limit limit.txt\nstand-in: write limited.txt\n`,
  waiting: `${claude}stand-in: limit limit.txt\nstand-in: write waiting.txt\n`,
  asking: '---\npreset: claude\napprove: ask\n---\nstand-in: run echo ran >> ran.txt\n',
}

let server: RealServer
let tab: Tab
let page: Page

beforeAll(async () => {
  const env = {
    PATH: `${standIns}${delimiter}${process.env['PATH']}`,
    BELLWETHER__SPENDING__LIMITS: 'agent limited day 1 usd, project month 500000 tokens',
  }
  ;[tab, server] = await Promise.all([openTab(), openServer(env, agents)])
  page = tab.page
  await page.goto(server.loginUrl)
  await page.waitForURL(`**/p/${project}/fleet`)
})

afterAll(async () => {
  await tab?.close()
  await server?.close()
})

async function open(path: string): Promise<void> {
  await tab.visit(`/p/${project}${path}`)
  await page.locator('[data-link=live]').waitFor()
}

interface Quotas {
  readonly holds: readonly { readonly until: string; readonly turns: number }[]
}
const runs = () => server.read('limit.txt.runs').trim().split('\n').length
const outcome = async (id: string) =>
  (await server.ask<{ outcome: string | null }>('GET', `/projects/${project}/turns/${id}`)).outcome

describe('a running server with coding agents', () => {
  it('Health shows an account at its limit with its turns until a person lifts the hold, and then what was spent', async () => {
    await open('/health')
    const held = page.getByRole('list', { name: 'Held accounts' })
    const limits = page.getByRole('list', { name: 'Spending limits' })
    await limits.getByText('agent limited day').waitFor()
    await limits.getByText('cost $0.00 of $1.00').waitFor()
    expect(await held.count()).toBe(0)
    const inTwoHours = Math.round(Date.now() / 1_000) + 7_200
    server.write('limit.txt', String(inTwoHours))
    const first = await server.run('limited', 'Do it.')
    await held.getByText('1 turn waiting').waitFor()
    const second = await server.run('waiting', 'Do it.')
    await held.getByText('2 turns waiting').waitFor()
    await held.getByText('claude', { exact: true }).waitFor()
    await held.getByText(/hit your session limit · resets .* \(UTC\)/).waitFor()
    await held.getByText(/^until /).waitFor()
    const { holds } = await server.ask<Quotas>('GET', '/quotas')
    expect(holds.map(({ until }) => Date.parse(until))).toEqual([inTwoHours * 1_000])
    expect(await violations(page)).toEqual([])
    expect(runs()).toBe(1)
    // A hold that is lifted too early begins again.
    await held.getByRole('button', { name: 'Lift hold' }).click()
    await expect.poll(runs).toBeGreaterThan(1)
    await expect.poll(async () => (await server.ask<Quotas>('GET', '/quotas')).holds).toMatchObject([{ turns: 2 }])
    await held.getByText('2 turns waiting').waitFor()
    server.remove('limit.txt')
    await held.getByRole('button', { name: 'Lift hold' }).click()
    await held.waitFor({ state: 'detached' })
    for (const id of [first, second]) await expect.poll(() => outcome(id)).toBe('success')
    expect(server.read('waiting.txt')).toContain('by claude')
    await limits.getByText(/^cost \$0\.(?!00)\d\d of \$1\.00$/).waitFor()
    await limits.getByText(/^fresh tokens [1-9][\d,]* of 500,000$/).waitFor()
    expect(tab.errors()).toEqual([])
  })

  it('Needs you shows the command that a program asks for, and the program runs it once after a person allows it', async () => {
    const id = await server.run('asking', 'Do it.')
    await open('/needs-you')
    const card = page.getByRole('article', { name: 'Bash of asking' })
    await card.getByText('echo ran >> ran.txt').waitFor()
    await card.getByRole('button', { name: 'Allow once' }).click()
    await expect.poll(() => outcome(id)).toBe('success')
    expect(server.read('ran.txt')).toBe('ran\n')
    await card.waitFor({ state: 'detached' })
    expect(tab.errors()).toEqual([])
  })

  it('Schedules adds a schedule of tasks, whose manual run is a task on the board, and says why one is invalid', async () => {
    await open('/schedules')
    await page.getByRole('button', { name: 'New schedule…' }).click()
    const form = page.getByRole('dialog', { name: 'New schedule' })
    await form.getByLabel('Name').fill('triage')
    await form.getByLabel(/^Cron/).fill('61 * * * *')
    await form.getByLabel('Starts').selectOption('a task on the board')
    await form.getByRole('textbox', { name: 'Title of the task' }).fill('Triage the issues')
    await form.getByRole('button', { name: 'Save' }).click()
    await form
      .getByRole('alert')
      .getByText(/"61 \* \* \* \*"/)
      .waitFor()
    await form.getByLabel(/^Cron/).fill('0 4 * * *')
    await form.getByRole('button', { name: 'Save' }).click()
    await form.waitFor({ state: 'detached' })
    await page.getByRole('link', { name: /triage/ }).click()
    const drawer = page.getByRole('dialog', { name: 'Schedule triage' })
    await drawer.getByRole('button', { name: 'Run now' }).click()
    await drawer
      .getByRole('link', { name: /^(task|triage-)/ })
      .first()
      .click()
    await page.getByRole('dialog').getByText('Triage the issues').first().waitFor()
    // The browser reports the rejected schedule.
    expect(tab.errors()).toEqual([expect.stringContaining('400 (Bad Request)')])
  })
})

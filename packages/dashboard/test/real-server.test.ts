/**
 * The pages on a real server: one `bellwether up` with database, workers, board and view, and a real Chromium. It
 * keeps the fixture server of the other tests honest.
 */
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTab, screenshot, violations, type Tab } from './support/browser.js'
import { openServer, project, type RealServer } from './support/real-server.js'
import { atWork } from './support/scene.js'

let server: RealServer
// One page for all tests: it stays signed in.
let tab: Tab
let page: Page

beforeAll(async () => {
  ;[tab, server] = await Promise.all([openTab(), openServer()])
  page = tab.page
  for (const agent of ['clerk', 'planner']) await server.play(agent)
})

afterAll(async () => {
  await tab?.close()
  await server?.close()
})

async function open(path: string): Promise<void> {
  await tab.visit(`/p/${project}${path}`)
  await page.locator('[data-link=live]').waitFor()
}

/** Fails on console errors and on a script of an agent that ran. */
async function bad(): Promise<string[]> {
  const owned = await page.evaluate(() => window.__owned)
  return [...tab.errors(), ...(owned === undefined ? [] : ['a script of an agent ran'])]
}

const row = (agent: string) => page.getByRole('row').filter({ hasText: agent })
const turn = (id: string, what: string, body: object) => server.ask('POST', `/turns/${id}/${what}`, body)

describe('a running server', () => {
  it('opens with the printed link, and Fleet follows a turn through events alone', async () => {
    await page.goto(server.loginUrl)
    await page.waitForURL(`**/p/${project}/fleet`)
    await row('greeter').waitFor()
    await page.locator('[data-link=live]').waitFor()
    // Queries are blocked: every change from here on comes from the stream.
    await page.route(/\/agents\?/, () => undefined)
    const id = await server.run('clerk', 'Count the files of the archive.')
    const { turn_epoch } = await server.claim()
    await turn(id, 'beat', { turn_epoch, activity: 'executing_tool', current_tool: 'count_files' })
    await row('clerk').filter({ hasText: 'running' }).filter({ hasText: 'count_files' }).waitFor()
    const step = { phase: 'look', status: 'success', metadata: { usage: { total_tokens: 120 } } }
    await turn(id, 'steps', {
      turn_epoch,
      step,
      cards: [{ type: 'agent.thought', content: { text: 'There are many.' } }],
    })
    const calls = [{ tool_call_id: `${id}-1`, tool_name: 'survey', arguments: { of: 'archive' }, timeout_seconds: 1 }]
    await turn(id, 'suspend', { turn_epoch, calls })
    await row('clerk').filter({ hasText: 'suspended' }).filter({ hasText: 'survey' }).waitFor()
    // No host serves the tool: the watchdog writes a timeout result, and the turn resumes.
    const resumed = await server.claim()
    expect(resumed).toMatchObject({ agent_turn_id: id, kind: 'resume' })
    await turn(id, 'deliver', { turn_epoch: resumed.turn_epoch, text: 'About forty.' })
    await row('clerk').filter({ hasText: 'idle' }).filter({ hasText: 'success' }).waitFor()

    await page.unroute(/\/agents\?/)
    await row('clerk').getByRole('link', { name: 'success' }).click()
    await page.waitForURL(`**/turns/${id}`)
    const shown = page.getByRole('region', { name: 'Timeline' })
    for (const words of [
      'Count the files of the archive.',
      'There are many.',
      'Step: look',
      'survey',
      'expired',
      'Watchdog: tool_timeout',
      'Deliverable: success',
      'About forty.',
    ])
      await shown.getByText(words).first().waitFor()
    await shown.getByText('survey').click()
    await shown.getByText('"archive"').waitFor()
    // No step reported a cost, so none is shown.
    await page.getByText('120, –', { exact: true }).waitFor()
    expect(await violations(page)).toEqual([])
    expect(await bad()).toEqual([])
  })

  it('asks a person in Needs you, and the turn ends with the answer', async () => {
    await open('/needs-you')
    await page.getByText('Nothing needs you').waitFor()
    const id = await server.run('approver', 'Ship the release today?')
    const card = page.getByRole('article', { name: 'Question of approver' })
    await card.getByText('Ship the release today?').waitFor()
    await page.getByRole('link', { name: 'Needs you 1 waiting' }).waitFor()
    expect(await page.title()).toBe('(1) Bellwether')
    await card.getByLabel('ship it').check()
    await card.getByRole('button', { name: 'Answer' }).click()
    await page.getByText('Nothing needs you').waitFor()
    const { outcome } = await server.ask('GET', `/projects/${project}/turns/${id}?wait=30`)
    expect(outcome).toBe('success')
    await open(`/turns/${id}`)
    await page.getByText('Deliverable: success').waitFor()
    await page.getByText('ship it').last().waitFor()
    expect(await bad()).toEqual([])
  })

  it('shows a fork-join as parent and children while it runs, and the text of a hostile child as plain text', async () => {
    const id = await server.run('planner', 'Ask both of them.')
    const { turn_epoch } = await server.claim()
    const task = (target_ref: string) => ({
      target_strategy: 'reuse',
      target_ref,
      instruction: `Speak, ${target_ref}.`,
    })
    const batch = { tasks: [task('greeter'), task('mallory')], deadline_seconds: 60 }
    await turn(id, 'suspend', { turn_epoch, calls: [{ tool_call_id: `${id}-1`, tool_name: 'fork_join', batch }] })
    await open(`/turns/${id}`)
    const relatives = page.getByRole('list', { name: 'Parent and children of this turn' })
    const child = (agent: string) => relatives.getByRole('listitem').filter({ hasText: agent }).last()
    for (const agent of ['greeter', 'mallory']) await child(agent).getByText('success').waitFor()
    const resumed = await server.claim()
    await turn(id, 'deliver', { turn_epoch: resumed.turn_epoch, text: 'Both spoke.' })
    await page.getByText('Both spoke.').waitFor()

    await child('mallory').getByRole('link').click()
    await page.getByText('Deliverable: success').waitFor()
    await page.getByText('<img src=x onerror=').first().waitFor()
    expect(await page.locator('main img, main script').count()).toBe(0)
    // The link back to the parent.
    await page
      .getByRole('list', { name: 'Parent and children of this turn' })
      .getByRole('link', { name: /planner/ })
      .click()
    await page.waitForURL(`**/turns/${id}`)
    expect(await bad()).toEqual([])
  })

  it('moves a task across the board, and one that needs approval after a person approves it', async () => {
    const column = (name: string) => page.getByRole('region', { name, exact: true })
    await open('/board')
    await page.getByText('No tasks yet').waitFor()
    const words = { agent: 'scribe', instruction: 'Write notes.md.', verify: ['test -s notes.md'] }
    await server.ask('POST', '/board/tasks', { ...words, title: 'Write them again', requiresApproval: true })
    await server.ask('POST', '/board/tasks', { ...words, title: 'Write the notes', priority: 5 })
    await column('pending').getByText('needs you').waitFor()
    await page.getByRole('link', { name: 'Needs you 1 waiting' }).click()
    const need = page.getByRole('article', { name: 'Write them again' })
    await need.getByRole('button', { name: 'Approve' }).click()
    await need.waitFor({ state: 'detached' })
    await page.getByRole('link', { name: 'Board' }).click()
    for (const title of ['Write the notes', 'Write them again'])
      await column('done').getByText(title).waitFor({ timeout: 40_000 })
    await column('done').getByText('Write the notes').click()
    const drawer = page.getByRole('dialog')
    await drawer.getByText('Write notes.md.').waitFor()
    await drawer.getByText('$0.01 of $20.00', { exact: true }).waitFor()
    await drawer
      .getByText('1,250 fresh (900 input, 350 output, 0 cache write); 0 cache read', { exact: true })
      .waitFor()
    await drawer.getByRole('link', { name: 'scribe' }).click()
    await page.getByText('Wrote the notes.').last().waitFor()
    await page.getByText('1.3k, $0.01', { exact: true }).waitFor()
    const files = page.getByRole('group', { name: 'Files of this turn' })
    await files.getByText('notes.md').first().waitFor()
    expect(await files.getByText('missing').count()).toBe(0)
    expect(await bad()).toEqual([])
  })

  it('shows new files of its folder and finds them by name', async () => {
    await open('/workspace')
    await page.getByRole('treeitem', { name: /^agents/ }).click()
    await page.getByText('greeter.md').waitFor()
    server.write('fresh-idea.md', '# An idea\n')
    await page.getByText('fresh-idea.md').waitFor()
    await page.keyboard.press('/')
    await page.keyboard.type('approver')
    await page.getByText('/agents/approver.md').waitFor()
    expect(await page.getByText('leader', { exact: true }).count()).toBe(1)
    expect(await bad()).toEqual([])
  })

  it('shows processes, components and interventions on the Health page', async () => {
    await open('/health')
    await page.getByRole('list', { name: 'Processes' }).getByText('worker default').waitFor()
    await page.getByRole('list', { name: 'Components by dependency' }).getByText('project').first().waitFor()
    await page.getByText('a turn whose tool never answered').first().waitFor()
    await page.getByRole('link', { name: /tool_timeout/ }).click()
    await page.getByRole('link', { name: 'Turn', exact: true }).first().click()
    await page.getByText('Watchdog: tool_timeout').waitFor()
    expect(await page.getByText('No interventions').count()).toBe(0)
    expect(await bad()).toEqual([])
  })

  it('summarises what is running, what is stuck and what needs a person', async () => {
    const scene = await atWork(server)
    await open('/board')
    await page.getByRole('region', { name: 'blocked' }).getByText('attempt 1 of').waitFor({ timeout: 40_000 })
    await page.getByRole('region', { name: 'in progress' }).getByText('Draft the announcement').waitFor()
    await page.emulateMedia({ colorScheme: 'dark' })
    await screenshot(page, 'server-board-1280-dark')
    await page.emulateMedia({ colorScheme: 'light' })
    // Nothing changes any more: the remaining agents wait for a person or for the test.
    await open('/fleet')
    const tiles = page.getByRole('region', { name: 'Summary' }).getByRole('link')
    const numbers = async () => (await tiles.allInnerTexts()).map((text) => text.replace(/\s+/g, ' ').trim())
    const shown = ['3 running', '0 stuck', '3 need you', '2 waiting', '7 idle', '2 queued']
    await expect.poll(numbers, { timeout: 20_000 }).toEqual(shown)
    await row('writer').waitFor()
    await screenshot(page, 'server-fleet-1280-light')
    await open(`/turns/${scene.turn}`)
    await page.getByText('run_tests').first().waitFor()
    await screenshot(page, 'server-turns-one-1280-light')
    await page.setViewportSize({ width: 390, height: 844 })
    await page.emulateMedia({ colorScheme: 'dark' })
    await open('/needs-you')
    await page.getByText('Ship the release today?').waitFor()
    await screenshot(page, 'server-needs-you-390-dark')
    expect(await bad()).toEqual([])
  })
})

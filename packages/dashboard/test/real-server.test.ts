/**
 * The pages on a real server: one `bellwether up` with database, workers, board and view, and a real Chromium. It
 * keeps the fixture server of the other tests honest.
 */
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTab, screenshot, violations, type Tab } from './support/browser.js'
import { openServer, project, type RealServer } from './support/real-server.js'
import { atWork } from './support/scene.js'
import { openTeam, type Team } from './support/team.js'
import { signInAt } from '../../../scripts/identity-provider.js'

let server: RealServer
let team: Team
// One page for all tests: it stays signed in.
let tab: Tab
let page: Page

beforeAll(async () => {
  team = await openTeam()
  ;[tab, server] = await Promise.all([openTab(), openServer(team.env)])
  team.connect(server.url)
  page = tab.page
  for (const agent of ['clerk', 'planner']) await server.play(agent)
})

afterAll(async () => {
  await tab?.close()
  await server?.close()
  await team?.close()
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

/** Opens the link of the message about a question in a browser that is not signed in, and signs in there. */
async function opensItsLink(id: string): Promise<string> {
  const about = () => server.messages.filter((one) => one['turn'] === id)
  await expect.poll(() => about().length).toBe(1)
  expect(about()[0]).toMatchObject({ kind: 'question', text: 'approver asks alice: Ship the release today?' })
  const link = String(about()[0]!['link'])
  const other = await openTab()
  try {
    await other.page.goto(link)
    await other.page.getByLabel('API key').fill(server.adminKey)
    await other.page.getByRole('button', { name: 'Sign in', exact: true }).click()
    const item = other.page.locator('[aria-current=true][data-need]')
    await item.getByText('Ship the release today?').waitFor()
    await expect.poll(() => item.evaluate((one) => one === document.activeElement)).toBe(true)
    await screenshot(other.page, 'server-linked-question-1280-light')
  } finally {
    await other.close()
  }
  expect(about()).toHaveLength(1)
  return link
}

describe('a running server', () => {
  it('opens with the printed link, and Fleet follows a turn through events alone', async () => {
    await page.goto(server.loginUrl)
    await page.waitForURL(`**/p/${project}/fleet`)
    await row('greeter').waitFor()
    // The files of the page come compressed.
    const [sent, size] = await page.evaluate(() => {
      const all = performance.getEntriesByType('resource') as PerformanceResourceTiming[]
      const files = all.filter(({ name }) => name.includes('/assets/'))
      const sum = (key: 'encodedBodySize' | 'decodedBodySize') => files.reduce((all, file) => all + file[key], 0)
      return [sum('encodedBodySize'), sum('decodedBodySize')] as const
    })
    expect(sent).toBeGreaterThan(0)
    expect(sent).toBeLessThan(size / 2)
    await page.locator('[data-link=live]').waitFor()
    // Queries are blocked: every change from here on comes from the stream.
    await page.route(/\/agents\?/, () => undefined)
    const id = await server.run('clerk', 'Count the files of the archive.')
    const { turn_epoch, lease_token } = await server.claim()
    const fence = { turn_epoch, lease_token }
    await turn(id, 'beat', { ...fence, activity: 'executing_tool', current_tool: 'count_files' })
    await row('clerk').filter({ hasText: 'running' }).filter({ hasText: 'count_files' }).waitFor()
    const step = { phase: 'look', status: 'success', metadata: { usage: { total_tokens: 120 } } }
    await turn(id, 'steps', {
      ...fence,
      step,
      cards: [{ type: 'agent.thought', content: { text: 'There are many.' } }],
    })
    const calls = [{ tool_call_id: `${id}-1`, tool_name: 'survey', arguments: { of: 'archive' }, timeout_seconds: 1 }]
    await turn(id, 'suspend', { ...fence, calls })
    await row('clerk').filter({ hasText: 'suspended' }).filter({ hasText: 'survey' }).waitFor()
    // No host serves the tool: the watchdog writes a timeout result, and the turn resumes.
    const resumed = await server.claim()
    expect(resumed).toMatchObject({ agent_turn_id: id, kind: 'resume' })
    await turn(id, 'deliver', { ...fence, lease_token: resumed.lease_token, text: 'About forty.' })
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

  it('sends a message to a running turn and starts a follow-up of the ended one', async () => {
    const id = await server.run('clerk', 'Count the boats.')
    const { turn_epoch, lease_token } = await server.claim()
    const fence = { turn_epoch, lease_token }
    await turn(id, 'beat', { ...fence, activity: 'thinking' })
    await open(`/turns/${id}`)
    await page.getByLabel('Message to the agent').fill('Only the red ones.')
    await page.getByRole('button', { name: 'Send', exact: true }).click()
    const messages = page.getByRole('list', { name: 'Messages to this turn' })
    await messages.getByText('Only the red ones.').waitFor()
    const { messages: read } = (await turn(id, 'beat', fence)) as { messages: { seq: number; text: string }[] }
    expect(read).toMatchObject([{ seq: 1, text: 'Only the red ones.' }])
    await turn(id, 'deliver', { ...fence, text: 'Two red boats.' })
    await messages.getByText(/, delivered/).waitFor()
    await page.getByLabel('Follow-up in the same session').fill('And the blue ones?')
    await page.getByRole('button', { name: 'Continue', exact: true }).click()
    await page.waitForURL((url) => url.pathname.includes('/turns/') && !url.pathname.endsWith(id))
    const next = await server.claim()
    expect(page.url()).toContain(next.agent_turn_id)
    const { agent_turn_id: followUp, ...own } = next
    await turn(followUp, 'deliver', { ...{ turn_epoch: own.turn_epoch, lease_token: own.lease_token }, text: 'None.' })
    await page.getByText('None.').first().waitFor()
    expect(await bad()).toEqual([])
  })

  it('asks a person in Needs you, and the turn ends with the answer', async () => {
    await open('/needs-you')
    await page.getByText('Nothing needs you').waitFor()
    const id = await server.run('approver', 'Ship the release today?')
    const card = page.getByRole('article', { name: 'Question of approver' })
    await card.getByText('Ship the release today?').waitFor()
    await page.getByRole('link', { name: 'Needs you 1 waiting' }).waitFor()
    await expect.poll(() => page.title()).toMatch(/^\(1\) .* – Bellwether$/)
    const link = await opensItsLink(id)
    await card.getByLabel('ship it').check()
    await card.getByRole('button', { name: 'Answer' }).click()
    await page.getByText('Nothing needs you').waitFor()
    // This page is signed in at the server's own address.
    await page.goto(link.replace(team.origin, server.url))
    await page.getByText('The linked item does not wait any more').waitFor()
    const outcome = async () => (await server.ask('GET', `/projects/${project}/turns/${id}?wait=30`))['outcome']
    await expect.poll(outcome).toBe('success')
    await open(`/turns/${id}`)
    await page.getByText('Deliverable: success').waitFor()
    await page.getByText('ship it').last().waitFor()
    expect(await bad()).toEqual([])
  })

  it('[T9.2] shows a fork-join as parent and children and its transcript while it runs, and the text of a hostile child as plain text', async () => {
    const id = await server.run('planner', 'Ask both of them.')
    const { turn_epoch, lease_token } = await server.claim()
    const fence = { turn_epoch, lease_token }
    const task = (target_ref: string) => ({
      target_strategy: 'reuse',
      target_ref,
      instruction: `Speak, ${target_ref}.`,
    })
    const batch = { tasks: [task('greeter'), task('mallory')], deadline_seconds: 60 }
    await turn(id, 'suspend', { ...fence, calls: [{ tool_call_id: `${id}-1`, tool_name: 'fork_join', batch }] })
    await open(`/turns/${id}`)
    const relatives = page.getByRole('list', { name: 'Parent and children of this turn' })
    const child = (agent: string) => relatives.getByRole('listitem').filter({ hasText: agent }).last()
    for (const agent of ['greeter', 'mallory']) await child(agent).getByText('success').waitFor()
    const resumed = await server.claim()
    const transcript = page.getByRole('region', { name: 'Transcript' })
    const entries = [{ kind: 'thought', content: 'Both have answered.' }]
    await turn(id, 'transcript', { ...fence, lease_token: resumed.lease_token, entries })
    await transcript.getByText('Both have answered.').waitFor()
    await turn(id, 'deliver', { ...fence, lease_token: resumed.lease_token, text: 'Both spoke.' })
    await page.getByText('Both spoke.').first().waitFor()

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
    const words = { agent: 'scribe', instruction: 'Write notes.md.', checks: ['notes-written'] }
    await server.ask('POST', '/board/tasks', { ...words, title: 'Write them again', requiresApproval: true })
    await server.ask('POST', '/board/tasks', { ...words, title: 'Write the notes', priority: 5 })
    await column('pending').getByText('needs you').waitFor()
    const approvals = () => server.messages.filter((one) => one['kind'] === 'approval')
    await expect.poll(approvals).toHaveLength(1)
    const { taskId, link } = approvals()[0]!
    // The server has a public URL.
    expect(new URL(String(link)).href).toMatch(`/p/${project}/board?task=${String(taskId)}`)
    await page.getByRole('link', { name: 'Needs you 1 waiting' }).click()
    const need = page.getByRole('article', { name: 'Write them again' })
    await need.getByRole('button', { name: 'Approve' }).click()
    await need.waitFor({ state: 'detached' })
    await page.getByRole('link', { name: 'Board' }).click()
    for (const title of ['Write the notes', 'Write them again']) await column('done').getByText(title).waitFor()
    await column('done').getByText('Write the notes').click()
    const drawer = page.getByRole('dialog')
    await drawer.getByText('Write notes.md.').waitFor()
    await drawer.getByText('notes-written', { exact: true }).waitFor()
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
    await expect.poll(() => page.getByText('leader', { exact: true }).count()).toBe(1)
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
    // Without the message of the last change, which the images of the docs would show.
    await page.reload()
    await page.getByRole('region', { name: 'blocked' }).getByText('attempt 1 of').waitFor()
    await page.getByRole('region', { name: 'in progress' }).getByText('Draft the announcement').waitFor()
    await page.emulateMedia({ colorScheme: 'dark' })
    await screenshot(page, 'server-board-1280-dark')
    await page.emulateMedia({ colorScheme: 'light' })
    // Nothing changes any more: the remaining agents wait for a person or for the test.
    await open('/fleet')
    const tiles = page.getByRole('region', { name: 'Summary' }).getByRole('link')
    const numbers = async () => (await tiles.allInnerTexts()).map((text) => text.replace(/\s+/g, ' ').trim())
    const shown = ['3 running', '0 stuck', '3 need you', '2 waiting', '7 idle', '2 queued']
    // What it cost is counted every 15 s.
    await expect.poll(numbers).toEqual([...shown, expect.stringMatching(/^\$0\.\d\d cost, last 24 h$/)])
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

  it('a link of an agent opens only after a warning, and the cookie that its port receives cannot be replayed', async () => {
    const received: IncomingHttpHeaders[] = []
    const thief = createServer(({ headers, url }, response) => {
      // The page of the other server asks for its icon with a referrer of its own.
      if (url === '/prize') received.push(headers)
      response.end('thank you')
    })
    await new Promise<void>((resolve) => thief.listen(0, '127.0.0.1', resolve))
    const target = `http://127.0.0.1:${(thief.address() as AddressInfo).port}/prize`
    try {
      const task = await server.ask('POST', '/board/tasks', { title: 'A prize', instruction: `See ${target} now.` })
      await open(`/board?task=${String(task['taskId'])}`)
      await page.getByRole('button', { name: target }).click()
      const warning = page.getByRole('dialog', { name: 'Open a link' })
      await warning.getByText(target, { exact: true }).waitFor()
      expect(received).toEqual([])
      const [popup] = await Promise.all([
        page.waitForEvent('popup'),
        warning.getByRole('link', { name: 'Open in a new tab' }).click(),
      ])
      await popup.getByText('thank you').waitFor()
      const stolen = received.find(({ cookie }) => cookie !== undefined)
      await popup.close()
      // A browser does not separate cookies by port: the other server has the cookie.
      expect(stolen?.cookie).toMatch(/bw_session=/)
      expect(received.map(({ referer }) => referer)).toEqual(received.map(() => undefined))
      for (const more of [{}, { 'x-requested-with': 'x', origin: server.url, 'sec-fetch-site': 'same-origin' }])
        for (const path of ['/me', `/projects/${project}/events`, '/keys']) {
          const replay = await fetch(`${server.url}/api/v1${path}`, { headers: { cookie: stolen!.cookie!, ...more } })
          expect(replay.status).toBe(401)
        }
      expect(await bad()).toEqual([])
    } finally {
      thief.closeAllConnections()
      await new Promise((resolve) => thief.close(resolve))
    }
  })

  it('signs people of the team in with their provider, each in the tab that started it, and out again', async () => {
    const own = await openTab()
    const { page: mine } = own
    try {
      team.provider.people.set('7', { name: 'Ada', groups: ['builders'] })
      const button = mine.getByRole('button', { name: 'Sign in with Example' })
      const enter = async (login: string) => {
        await button.click()
        await mine.getByLabel('Name').fill(login)
        await mine.getByRole('button', { name: 'Continue' }).click()
      }
      await mine.goto(team.origin)
      await button.waitFor()
      expect(await violations(mine)).toEqual([])
      await enter('7')
      await mine.waitForURL(`${team.origin}/p/${project}/fleet`)
      await mine.getByRole('row').filter({ hasText: 'greeter' }).waitFor()
      await mine.locator('[data-link=live]').waitFor()
      const stored = await mine.evaluate(() => Object.keys(sessionStorage).sort())
      expect(stored).not.toContain('bellwether.sign-in')
      await mine.keyboard.press('?')
      await mine.getByText('Signed in as Ada <7>, operator').waitFor()
      await mine.getByRole('button', { name: 'Sign out' }).click()
      await button.waitFor()
      // Another person on the same computer.
      await mine.context().clearCookies()
      await enter('8')
      await mine.getByRole('alert').filter({ hasText: '8 may not use this server' }).waitFor()

      // Someone sends a link that would sign this browser in as them.
      const started = await fetch(`${team.origin}/login/provider`, { method: 'POST' })
      const { url } = (await started.json()) as { url: string }
      await mine.goto((await signInAt(url, '7')).href)
      await mine.getByRole('alert').filter({ hasText: 'was not started in this tab' }).waitFor()
      expect(mine.url()).toBe(`${team.origin}/`)
      expect(own.errors(/status of 40[13]/)).toEqual([])
    } finally {
      await own.close()
    }
  })
})

/** What a person does: presses keys, answers, allows, stops, changes tasks and schedules. */
import { isDeepStrictEqual } from 'node:util'
import { describe, expect, it } from 'vitest'
import { fixture, using } from './support/one-tab.js'
import { turnId } from './support/strings.js'

describe('the filters of the Turns page', () => {
  it('filters stay in the address, are saved in the browser and removed again', () =>
    using({}, async ({ page, errors }) => {
      await page.goto(`${fixture.url}/p/demo/turns`)
      await page.getByText('the tests do not pass').first().waitFor()
      const filtered = (by: Readonly<Record<string, string>>) =>
        page.waitForURL((url) => isDeepStrictEqual(Object.fromEntries(url.searchParams), by))
      await page.getByLabel('Status', { exact: true }).selectOption('failed')
      await page.getByLabel('Error').fill('the tests')
      await filtered({ status: 'failed', error: 'the tests' })
      await page.getByLabel('Min. cost $').fill('0.50 dollars')
      await filtered({ status: 'failed', error: 'the tests', cost: '0.50' })
      await page.getByLabel('Min. cost $').fill('')
      await page.getByRole('button', { name: 'Save filter' }).click()
      const saved = page.getByLabel('Saved filter')
      const name = 'failed, error the tests'
      await saved.getByRole('option', { name, selected: true }).waitFor({ state: 'attached' })
      // Another visit of the page.
      await page.goto(`${fixture.url}/p/demo/turns`)
      await saved.selectOption(name)
      await filtered({ status: 'failed', error: 'the tests' })
      expect(await page.getByLabel('Error').inputValue()).toBe('the tests')
      await page.getByRole('button', { name: 'Remove filter' }).click()
      await saved.waitFor({ state: 'detached' })
      await page.getByLabel('Time').selectOption('hour')
      await page.getByLabel('Error').fill('no such error')
      await page.getByText('No matching turns').waitFor()
      expect(errors()).toEqual([])
    }))
})

describe('the keyboard', () => {
  it('the keyboard reaches every page, the search, lists and the help', () =>
    using({}, async ({ page, errors }) => {
      await page.goto(`${fixture.url}/p/demo/fleet`)
      await page.getByText('planner-03').first().waitFor()
      for (const [key, title] of [
        ['b', 'Board'],
        ['t', 'Turns'],
        ['n', 'Needs you'],
        ['w', 'Workspace'],
        ['h', 'Health'],
        ['f', 'Fleet'],
      ] as const) {
        await page.keyboard.press('g')
        await page.keyboard.press(key)
        await page.getByRole('heading', { level: 1, name: title }).waitFor()
      }
      await page.keyboard.press('/')
      await page.keyboard.type('reviewer-01')
      await page.getByText('1 of 24 agents').waitFor()
      await page.keyboard.press('Escape')
      await page.keyboard.press('j')
      await page.locator('[data-at="0"]:focus').waitFor()
      await page.keyboard.press('Enter')
      await page.waitForURL(`**/turns/${turnId(1)}`)
      await page.keyboard.press('?')
      await page.getByRole('dialog').getByText('Keyboard and statuses').waitFor()
      await page.keyboard.press('Escape')
      await page.getByRole('dialog').waitFor({ state: 'detached' })
      expect(errors()).toEqual([])
    }))

  it('every control is reachable by Tab and shows a focus ring', () =>
    using({}, async ({ page }) => {
      await page.goto(`${fixture.url}/p/demo/needs-you`)
      await page.getByText('Ship it today?').waitFor()
      const reached = new Set<string>()
      for (let presses = 0; presses < 90; presses += 1) {
        await page.keyboard.press('Tab')
        const shown = await page.evaluate(() => {
          const focused = document.activeElement as HTMLElement
          const { outlineStyle, outlineWidth } = getComputedStyle(focused)
          return {
            name: focused.textContent ?? '',
            tag: focused.tagName,
            ring: outlineStyle !== 'none' && outlineWidth !== '0px',
          }
        })
        if (shown.tag === 'BODY') break
        expect(shown.ring, `${shown.tag} ${shown.name}`).toBe(true)
        reached.add(`${shown.tag} ${shown.name.trim()}`)
      }
      for (const wanted of [
        'BUTTON Allow once',
        'BUTTON Deny',
        'BUTTON Answer',
        'BUTTON Decline',
        'A Health',
        'BUTTON Try again',
      ])
        expect([...reached]).toContain(wanted)
    }))
})

describe('actions', () => {
  it('shows the diff of a call, allows it for the agent with one free argument by keyboard, and revokes a grant', () =>
    using({}, async ({ page, errors }) => {
      await page.goto(`${fixture.url}/p/demo/needs-you?approval=ap1`)
      const card = page.getByRole('article', { name: 'Edit of coder-03' })
      for (const line of ['src/total.ts', '- cents = price', '+ cents += price']) await card.getByText(line).waitFor()
      await card.getByText('What “for this turn”').click()
      await card.getByLabel('new_string').check()
      // The first item of the list, then its first choice.
      await card.getByText('asks to run').click()
      await page.keyboard.press('j')
      await page.keyboard.press('o')
      await expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toBe('Allow once')
      await page.keyboard.press('Tab')
      await page.keyboard.press('Tab')
      await page.keyboard.press('Enter')
      await card.waitFor({ state: 'detached' })
      await page.getByText('1 grant in force').click()
      await page.getByRole('button', { name: 'Revoke' }).click()
      await expect.poll(() => fixture.posted.length).toBe(2)
      expect(fixture.posted.map(({ path, body }) => [path, body])).toEqual([
        [
          expect.stringContaining('/approvals/ap1/decision'),
          { decision: 'allow', for: 'agent', any_arguments: ['new_string'] },
        ],
        [expect.stringContaining('/grants/g1'), undefined],
      ])
      expect(errors()).toEqual([])
    }))

  it('answers a question with a choice, text or fields, and reports missing fields first', () =>
    using({}, async ({ page, errors }) => {
      await page.goto(`${fixture.url}/p/demo/needs-you`)
      const card = (agent: string) => page.getByRole('article', { name: `Question of ${agent}` })
      await card('deployer-07').getByRole('button', { name: 'Answer' }).click()
      await card('deployer-07').getByText('choose one', { exact: true }).waitFor()
      await card('deployer-07').getByLabel('ship it').check()
      await card('deployer-07').getByRole('button', { name: 'Answer' }).click()
      await card('deployer-07').waitFor({ state: 'detached' })
      await card('planner-03').getByLabel('Your answer').fill('The second one')
      await page.keyboard.press('Control+Enter')
      await card('planner-03').waitFor({ state: 'detached' })
      await card('triage-06').getByLabel('severity').fill('two')
      await card('triage-06').getByRole('button', { name: 'Answer' }).click()
      await card('triage-06').getByText('must be a number').waitFor()
      await card('triage-06').getByLabel('severity').fill('2')
      await card('triage-06').getByLabel('is_public').selectOption('yes')
      await card('triage-06').getByRole('button', { name: 'Answer' }).click()
      await card('triage-06').waitFor({ state: 'detached' })
      expect(fixture.posted.map(({ path, body }) => [path, body])).toEqual([
        ['/projects/demo/tool-calls/ask-1/result', { status: 'success', result: 'ship it' }],
        ['/projects/demo/tool-calls/ask-2/result', { status: 'success', result: 'The second one' }],
        [
          '/projects/demo/tool-calls/ask-3/result',
          {
            status: 'success',
            result: {
              fields: [
                { name: 'severity', value: 2 },
                { name: 'is_public', value: true },
              ],
            },
          },
        ],
      ])
      expect(errors()).toEqual([])
    }))

  it('runs an ended turn again with another instruction, by keyboard', () =>
    using({}, async ({ page, errors }) => {
      const ended = fixture.world.turns.find(({ outcome }) => outcome === 'success')!
      await page.goto(`${fixture.url}/p/demo/turns/${ended.agent_turn_id}`)
      await page.getByRole('button', { name: 'Edit and run…' }).waitFor()
      await page.keyboard.press('e')
      const form = page.getByRole('dialog', { name: 'Edit and run' })
      const instruction = form.getByRole('textbox', { name: 'Instruction' })
      expect(await instruction.inputValue()).toContain('Make the login test pass on CI')
      await instruction.fill('Only look at it.')
      await form.getByRole('button', { name: 'Run', exact: true }).click()
      await expect
        .poll(() => fixture.posted)
        .toMatchObject([
          { path: `/projects/demo/agents/${ended.agent_id}/turns`, body: { instruction: 'Only look at it.' } },
        ])
      expect(errors()).toEqual([])
    }))

  it('Fleet says what was spent, which agents asked a person, and what changed, each with a link; Turns has title and cost', () =>
    using({}, async ({ page, errors }) => {
      await page.goto(`${fixture.url}/p/demo/fleet`)
      const spent = page
        .getByRole('region', { name: 'Summary' })
        .getByRole('link', { name: /^\$[\d,]+\.\d\d.*cost, last 24 h$/ })
      await spent.waitFor()
      const asking = new Set([...fixture.world.questions, ...fixture.world.approvals].map((one) => one.agent_id))
      for (const agent of asking)
        if (fixture.world.agents.some((one) => one.agent_id === agent))
          await page.getByRole('row').filter({ hasText: agent }).getByRole('link', { name: 'needs you' }).waitFor()
      const changes = page.getByRole('region', { name: 'Recent changes' })
      const newest = fixture.world.tasks
        .filter(({ changedFiles }) => (changedFiles ?? 0) > 0)
        .toSorted((one, other) => (one.updatedAt < other.updatedAt ? 1 : -1))[0]!
      await changes.getByRole('link', { name: newest.title }).first().click()
      await page.waitForURL(`**/board?task=${newest.taskId}`)
      await page.goto(`${fixture.url}/p/demo/turns`)
      const row = page.getByRole('row').nth(1)
      await row.getByRole('link', { name: 'Make the login test pass' }).waitFor()
      await row.getByText('$0.03', { exact: true }).waitFor()
      await page.goto(`${fixture.url}/p/demo/fleet`)
      await spent.click()
      await page.waitForURL('**/trends')
      expect(errors()).toEqual([])
    }))

  it('stops a turn with a reason after a confirmation', () =>
    using({}, async ({ page }) => {
      await page.goto(`${fixture.url}/p/demo/turns/${turnId(0)}`)
      await page.getByRole('button', { name: 'Stop…' }).click()
      await page.getByLabel('Reason').fill('wrong branch')
      await page.getByRole('button', { name: 'Stop turn' }).click()
      await page.getByRole('dialog').waitFor({ state: 'detached' })
      expect(fixture.posted).toEqual([
        { method: 'POST', path: `/projects/demo/turns/${turnId(0)}/stop`, body: { reason: 'wrong branch' } },
      ])
    }))

  it('shows a fallback with its reason, who ended the turn, and the work so far', () =>
    using({}, async ({ page, errors }) => {
      const turnWith = (isSuccess: boolean) =>
        fixture.world.turns.find(({ outcome }) => outcome !== null && (outcome === 'success') === isSuccess)!
      const ended = turnWith(false)
      await page.goto(`${fixture.url}/p/demo/turns/${ended.agent_turn_id}`)
      const end = page.getByRole('region', { name: 'Timeline' }).getByRole('listitem').last()
      await end.getByText(`Deliverable: ${ended.outcome}`).waitFor()
      await end.getByText('fallback', { exact: true }).waitFor()
      for (const words of ['Ended by key ops.', 'Two of the three tests pass now.'])
        await end.getByText(words).waitFor()
      await end.getByText('Tool results').click()
      await end.getByText('2 passed').waitFor()
      expect(errors()).toEqual([])
      await page.goto(`${fixture.url}/p/demo/turns/${turnWith(true).agent_turn_id}`)
      await page.getByText('Deliverable: success').waitFor()
      expect(await page.getByText('fallback', { exact: true }).count()).toBe(0)
    }))

  it('[H7.8] moves a task from its drawer, loads the result of a call when it is opened, and says what sets the limits of both', () =>
    using({}, async ({ page }) => {
      await page.goto(`${fixture.url}/p/demo/board`)
      await page.getByRole('button', { name: /T-3/ }).click()
      await page.getByRole('dialog').getByText('(set by config/budget-policy.json').waitFor()
      const answered = page.waitForResponse((response) => response.request().method() === 'PATCH')
      await page.getByRole('dialog').getByRole('button', { name: 'Try again' }).click()
      await answered
      expect(fixture.posted).toEqual([{ method: 'PATCH', path: '/board/tasks/T-3', body: { action: 'retry' } }])
      await page.goto(`${fixture.url}/p/demo/turns/${turnId(0)}`)
      await page.getByRole('region', { name: 'Timeline' }).getByText('run_tests').click()
      await page.getByText('42 tests passed').first().waitFor()
      await page.getByText('(set by "budget" of the agent file').waitFor()
    }))

  it('adds one task with a double click', () =>
    using({}, async ({ page, errors }) => {
      await page.goto(`${fixture.url}/p/demo/board`)
      await page.getByRole('button', { name: 'New task…' }).click()
      const form = page.getByRole('dialog', { name: 'New task' })
      await form.getByLabel('Title').fill('Only once')
      const added = page.waitForResponse((response) => response.request().method() === 'POST')
      await form.getByRole('button', { name: 'Add task' }).dblclick()
      await added
      await page.getByText('Added T-').first().waitFor()
      expect(fixture.posted.map(({ path }) => path)).toEqual(['/board/tasks'])
      expect(errors()).toEqual([])
    }))

  it('changes only the fields of a task that the person changed', () =>
    using({}, async ({ page, errors }) => {
      await page.goto(`${fixture.url}/p/demo/board?task=T-3`)
      await page.getByRole('button', { name: 'Change the task…' }).click()
      const form = page.getByRole('dialog', { name: 'Change T-3' })
      const save = form.getByRole('button', { name: 'Save' })
      await form.getByLabel('tests').waitFor()
      expect(await save.isEnabled()).toBe(false)
      await form.getByLabel('tests').check()
      await form.getByRole('textbox', { name: 'Instruction' }).fill('Do less.')
      await save.click()
      await form.waitFor({ state: 'detached' })
      await page.getByRole('dialog').waitFor()
      const body = { instruction: 'Do less.', checks: ['tests'] }
      expect(fixture.posted).toEqual([{ method: 'PATCH', path: '/board/tasks/T-3', body }])
      expect(errors()).toEqual([])
    }))

  it('links to the columns of the board on a small window', () =>
    using(
      {},
      async ({ page }) => {
        await page.goto(`${fixture.url}/p/demo/board`)
        const card = page.getByRole('button', { name: /T-3/ })
        await card.waitFor({ state: 'attached' })
        const isSeen = async () => ((await card.boundingBox())?.x ?? Infinity) < 390
        expect(await isSeen()).toBe(false)
        await page
          .getByRole('navigation', { name: 'Columns' })
          .getByRole('button', { name: /blocked/ })
          .click()
        await expect.poll(isSeen).toBe(true)
      },
      390,
    ))

  it('opens folders one by one, large ones too, and finds files by name', () =>
    using({}, async ({ page, errors }) => {
      await page.goto(`${fixture.url}/p/demo/workspace`)
      await page.getByRole('treeitem', { name: /^many/ }).click()
      await page.getByText('file-00003.txt').waitFor()
      await page.keyboard.press('/')
      await page.keyboard.type('login')
      await page.getByText('/src/login.test.ts').waitFor()
      await page.getByText('2 found').waitFor()
      expect(errors()).toEqual([])
    }))

  it('a file of a turn leads to the workspace, and a task to the tasks that it depends on', () =>
    using({}, async ({ page, errors }) => {
      await page.goto(`${fixture.url}/p/demo/turns/${turnId(0)}`)
      await page.getByRole('region', { name: 'Files' }).getByRole('link', { name: '/src/login.test.ts' }).click()
      await page.waitForURL('**/workspace?view=shared&q=login.test.ts&source=main')
      await page.getByText('1 found').waitFor()
      await page.goto(`${fixture.url}/p/demo/board?task=T-8`)
      await page.getByRole('dialog').getByRole('link', { name: 'T-1', exact: true }).click()
      await page.waitForURL('**/board?task=T-1')
      expect(errors()).toEqual([])
    }))

  it('switches themes and remembers the choice', () =>
    using({}, async ({ page }) => {
      await page.goto(`${fixture.url}/p/demo/fleet`)
      const theme = () => page.evaluate(() => document.documentElement.dataset['theme'])
      await page.getByRole('button', { name: /Theme: system/ }).click()
      await expect.poll(theme).toBe('light')
      await page.getByRole('button', { name: /Theme: light/ }).click()
      await expect.poll(theme).toBe('dark')
      await page.reload()
      await page.getByRole('button', { name: /Theme: dark/ }).waitFor()
      await expect.poll(theme).toBe('dark')
    }))
})

describe('schedules', () => {
  it('shows what a schedule started and links to it, runs it, and adds one with the keys that a person typed', () =>
    using({}, async ({ page, errors }) => {
      await page.goto(`${fixture.url}/p/demo/schedules`)
      await page.getByText('every 6h').waitFor()
      await page.getByText('schedules/triage.toml:1: "every"').waitFor()
      await page.getByRole('link', { name: /nightly/ }).click()
      const drawer = page.getByRole('dialog', { name: 'Schedule nightly' })
      await drawer.getByText('3 skipped: missed while nothing ran').waitFor()
      expect(await drawer.getByRole('link', { name: 'turn' }).getAttribute('href')).toBe(`/p/demo/turns/${turnId(0)}`)
      for (const [button, request] of [
        ['Run now', '/schedules/nightly/run'],
        ['Pause', '/schedules/nightly/pause'],
      ] as const) {
        const sent = page.waitForRequest((one) => one.method() === 'POST' && one.url().endsWith(request))
        await drawer.getByRole('button', { name: button }).click()
        await sent
      }
      await page.keyboard.press('Escape')
      await page.getByRole('button', { name: 'New schedule…' }).click()
      const form = page.getByRole('dialog', { name: 'New schedule' })
      await form.getByLabel('Name').fill('weekly')
      await form.getByLabel(/^Cron/).fill('0 4 * * 1')
      await form.getByLabel('Time zone').fill('Asia/Tokyo')
      await form.getByRole('textbox', { name: 'Agent' }).fill('coder')
      await form.getByRole('textbox', { name: 'Instruction' }).fill('Report.')
      const added = page.waitForRequest((one) => one.method() === 'POST' && one.url().endsWith('/schedules'))
      await form.getByRole('button', { name: 'Save' }).click()
      expect((await added).postDataJSON()).toEqual({
        schedule: 'weekly',
        definition: {
          ...{ cron: '0 4 * * 1', time_zone: 'Asia/Tokyo', missed: 'latest', overlap: 'skip' },
          ...{ agent: 'coder', instruction: 'Report.' },
        },
      })
      await form.waitFor({ state: 'detached' })
      expect(errors()).toEqual([])
    }))
})

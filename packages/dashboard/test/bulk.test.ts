/** Bulk actions, and changes that can be undone: by mouse and by keyboard, with a preview, the result of each row, and what failed. */
import { isDeepStrictEqual } from 'node:util'
import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { violations } from './support/browser.js'
import { fixture, using } from './support/one-tab.js'
import { turnId } from './support/strings.js'

const bodies = (path: string) => fixture.posted.filter((one) => one.path.endsWith(path)).map(({ body }) => body)
const dialogOf = (page: Page, noun: string) => page.getByRole('dialog', { name: `Change ${noun}s` })

describe('turns', () => {
  it('selects rows by x and Shift x, previews which will stop and why the others will not, and stops them by keyboard', () =>
    using({}, async ({ page, errors }) => {
      await page.goto(`${fixture.url}/p/demo/turns`)
      await page.getByText('the tests do not pass').first().waitFor()
      const act = page.getByRole('button', { name: 'Actions…' })
      expect(await act.isEnabled()).toBe(false)
      for (const key of ['j', 'x', 'j', 'j', 'Shift+X']) await page.keyboard.press(key)
      await page.getByText('3 selected').waitFor()
      expect(await page.getByRole('checkbox', { checked: true }).count()).toBe(3)
      await page.keyboard.press('a')
      const dialog = dialogOf(page, 'turn')
      await dialog.getByText(/^Will change: /).waitFor()
      await dialog.getByRole('button', { name: /^Stop: / }).waitFor()
      expect(await violations(page)).toEqual([])
      const preview = [turnId(0), turnId(1), turnId(2)]
      expect(bodies('/turns/bulk')).toEqual([{ action: 'stop', turns: preview, dry_run: true }])
      await dialog.getByLabel('Reason').fill('wrong branch')
      await page.keyboard.press('Enter')
      await dialog.getByText('3 turns changed').waitFor()
      expect(bodies('/turns/bulk')[1]).toEqual({ action: 'stop', turns: preview, reason: 'wrong branch' })
      await page.keyboard.press('Enter')
      await dialog.waitFor({ state: 'detached' })
      expect(await page.getByRole('checkbox', { checked: true }).count()).toBe(0)
      expect(errors()).toEqual([])
    }))

  it('runs an action on all that match the filter, in parts with the rows of the preview, and sends a failed row again without the others', () =>
    using({ agents: 200 }, async ({ page, errors }) => {
      const running = fixture.world.turns.filter((turn) => turn.outcome === null).map((turn) => turn.agent_turn_id)
      fixture.world.state.failing.add(running[1]!)
      await page.goto(`${fixture.url}/p/demo/turns`)
      await page.getByRole('button', { name: 'Select all that match' }).click()
      await page.getByRole('button', { name: 'Actions…' }).click()
      const dialog = dialogOf(page, 'turn')
      await dialog.getByText(`Will change: ${running.length} turns`).waitFor()
      await dialog.getByText(/^Will not change: /).waitFor()
      await dialog.getByText('it has ended: success').first().waitFor()
      await dialog.getByRole('button', { name: /^Stop: / }).click()
      await dialog.getByText('1 failed').waitFor()
      await dialog.getByText('the database is unavailable').waitFor()
      const sent = bodies('/turns/bulk') as { turns?: string[]; filter?: object; dry_run?: boolean }[]
      expect(sent[0]).toEqual({ action: 'stop', filter: {}, dry_run: true })
      expect(sent.slice(1).flatMap(({ turns = [] }) => turns)).toEqual(running)
      expect(sent.slice(1).every(({ turns = [] }) => turns.length <= 50)).toBe(true)
      await dialog.getByRole('button', { name: 'Send the failed again' }).click()
      await dialog.getByText(`${running.length} turns changed`).waitFor()
      expect((bodies('/turns/bulk') as typeof sent).at(-1)?.turns).toEqual([running[1]])
      expect(errors()).toEqual([])
    }))

  it('runs ended turns again under one request id, and says so when the server rejects the request', () =>
    using({}, async ({ page, errors }) => {
      await page.goto(`${fixture.url}/p/demo/turns`)
      await page.getByLabel('Status', { exact: true }).selectOption('failed')
      await page.waitForURL((url) => isDeepStrictEqual(Object.fromEntries(url.searchParams), { status: 'failed' }))
      const boxes = page.getByRole('checkbox')
      await boxes.first().waitFor()
      const all = await boxes.count()
      await boxes.first().click()
      await boxes.nth(all - 1).click({ modifiers: ['Shift'] })
      await page.getByText(`${all} selected`).waitFor()
      await page.getByRole('button', { name: 'Actions…' }).click()
      const dialog = dialogOf(page, 'turn')
      await dialog.getByLabel('Action').selectOption('retry')
      await dialog.getByRole('button', { name: `Run again: ${all} turns` }).waitFor()
      fixture.mood = 'rejected'
      await dialog.getByRole('button', { name: `Run again: ${all} turns` }).click()
      await dialog.getByText(`${all} failed`).waitFor()
      await dialog.getByText('something went wrong inside').first().waitFor()
      fixture.mood = 'ok'
      await dialog.getByRole('button', { name: 'Send the failed again' }).click()
      await dialog.getByText(`${all} turns changed`).waitFor()
      const sent = (bodies('/turns/bulk') as { request_id: string; dry_run?: boolean }[]).filter((one) => !one.dry_run)
      expect(new Set(sent.map((one) => one.request_id)).size).toBe(1)
      expect(errors(/status of 409/)).toEqual([])
    }))
})

describe('tasks', () => {
  it('changes the priority of tasks that match the filter, and takes it back, but not what someone changed since', () =>
    using({}, async ({ page, errors }) => {
      await page.goto(`${fixture.url}/p/demo/board?text=upgrade`)
      const before = { ...fixture.world.tasks[0]! }
      const box = page.getByRole('checkbox', { name: 'Select T-1', exact: true })
      await box.click()
      await page.keyboard.press('a')
      const dialog = dialogOf(page, 'task')
      await dialog.getByLabel('Action').selectOption('priority')
      await dialog.getByRole('spinbutton', { name: 'Priority' }).fill('7')
      await dialog.getByRole('button', { name: 'Change the priority: 1 task' }).click()
      await dialog.getByText('1 task changed').waitFor()
      expect(bodies('/board/tasks/bulk').at(-1)).toEqual({
        change: { priority: 7 },
        tasks: [{ taskId: 'T-1', updatedAt: before.updatedAt }],
      })
      // The undo gives the task its old priority, unless someone has changed it since.
      const { updatedAt } = fixture.world.tasks[0]!
      await page.keyboard.press('u')
      await expect
        .poll(() => bodies('/board/tasks/bulk').at(-1))
        .toEqual({ change: { priority: before.priority }, tasks: [{ taskId: 'T-1', updatedAt }] })
      await dialog.getByRole('button', { name: 'Undo' }).waitFor({ state: 'detached' })
      await dialog.getByText('1 task changed').waitFor()
      await dialog.getByRole('button', { name: 'Close', exact: true }).last().click()
      await box.click()
      await page.keyboard.press('a')
      await dialog.getByLabel('Action').selectOption('priority')
      await dialog.getByRole('spinbutton', { name: 'Priority' }).fill('8')
      await dialog.getByRole('button', { name: 'Change the priority: 1 task' }).click()
      await dialog.getByText('1 task changed').waitFor()
      Object.assign(fixture.world.tasks[0]!, { updatedAt: new Date(0).toISOString() })
      await page.keyboard.press('u')
      await dialog.getByText('0 tasks changed').waitFor()
      await dialog.getByText('it has changed since the preview').waitFor({ state: 'attached' })
      expect(errors()).toEqual([])
    }))

  it('freezes all tasks of a filter, lists why finished ones stay as they are, and undoes it', () =>
    using({}, async ({ page, errors }) => {
      await page.goto(`${fixture.url}/p/demo/board`)
      await page.getByRole('button', { name: /^Select all 1\d that match/ }).click()
      await page.keyboard.press('a')
      const dialog = dialogOf(page, 'task')
      await dialog.getByLabel('Action').selectOption('freeze')
      await dialog.getByText('is done, which is final.').first().waitFor()
      await dialog.getByRole('button', { name: /^Freeze: \d tasks$/ }).click()
      await dialog.getByText(/^\d tasks changed$/).waitFor()
      await page.keyboard.press('u')
      await expect.poll(() => bodies('/board/tasks/bulk').at(-1)).toMatchObject({ action: 'unfreeze', reason: 'undo' })
      expect(errors()).toEqual([])
    }))

  it('filters by status and last outcome in the address, and keeps the filter of a saved view', () =>
    using({}, async ({ page, errors }) => {
      await page.goto(`${fixture.url}/p/demo/board`)
      await page.getByRole('button', { name: /T-3/ }).waitFor()
      await page.getByLabel('Status', { exact: true }).selectOption('blocked')
      await page.getByLabel('Error').fill('report.md')
      const wanted = { status: 'blocked', error: 'report.md' }
      await page.waitForURL((url) => isDeepStrictEqual(Object.fromEntries(url.searchParams), wanted))
      await page.locator('[data-task="T-1"]').waitFor({ state: 'detached' })
      await page.getByRole('button', { name: 'Save filter' }).click()
      await page.goto(`${fixture.url}/p/demo/board`)
      await page.getByLabel('Saved filter').selectOption('blocked, error report.md')
      await page.waitForURL((url) => isDeepStrictEqual(Object.fromEntries(url.searchParams), wanted))
      await page.getByLabel('Words').fill('no such task')
      await page.getByText('No matching tasks').waitFor()
      expect(errors()).toEqual([])
    }))
})

describe('undo', () => {
  it('pauses the board by keyboard, says who paused it, and resumes it with undo', () =>
    using({}, async ({ page, errors }) => {
      await page.goto(`${fixture.url}/p/demo/board`)
      await page.getByRole('button', { name: 'Pause' }).waitFor()
      await page.keyboard.press('p')
      await page.getByText('paused by test').waitFor()
      await page.getByText('The board is paused: no new run starts').waitFor()
      expect(await violations(page)).toEqual([])
      await page.keyboard.press('u')
      await page.getByText('Undone').waitFor()
      await page.getByRole('button', { name: 'Pause' }).waitFor()
      expect(bodies('/board/control')).toEqual([{ paused: true }, { paused: false }])
      expect(errors()).toEqual([])
    }))

  it('changes a priority in the form, and restores the old one', () =>
    using({}, async ({ page, errors }) => {
      await page.goto(`${fixture.url}/p/demo/board?task=T-3`)
      await page.getByRole('button', { name: 'Change the task…' }).waitFor()
      await page.keyboard.press('e')
      const form = page.getByRole('dialog', { name: 'Change T-3' })
      await form.getByLabel('Priority').fill('9')
      await form.getByRole('button', { name: 'Save' }).click()
      await form.waitFor({ state: 'detached' })
      const drawer = page.getByRole('dialog', { name: /^Task T-3/ })
      await drawer.getByRole('button', { name: 'Undo' }).click()
      await drawer.getByText('Undone').waitFor()
      const at = expect.any(String) as string
      expect(bodies('/board/tasks/T-3')).toEqual([{ priority: 9 }, { priority: 1, updatedAt: at }])
      expect(errors()).toEqual([])
    }))

  it('does not undo over what someone else has changed since, and says so', () =>
    using({}, async ({ page, errors }) => {
      await page.goto(`${fixture.url}/p/demo/board?task=T-3`)
      await page.getByRole('button', { name: 'Change the task…' }).waitFor()
      await page.keyboard.press('e')
      const form = page.getByRole('dialog', { name: 'Change T-3' })
      await form.getByLabel('Priority').fill('9')
      await form.getByRole('button', { name: 'Save' }).click()
      await form.waitFor({ state: 'detached' })
      Object.assign(
        fixture.world.tasks.find(({ taskId }) => taskId === 'T-3')!,
        { priority: 4 },
      )
      await page.keyboard.press('u')
      await page.getByText('Cannot undo: someone has changed the priority of T-3 since').first().waitFor()
      expect(bodies('/board/tasks/T-3')).toEqual([{ priority: 9 }])
      expect(errors()).toEqual([])
    }))

  it('runs the numbered action of a task by keyboard', () =>
    using({}, async ({ page, errors }) => {
      await page.goto(`${fixture.url}/p/demo/board?task=T-3`)
      await page.getByRole('dialog').getByRole('button', { name: 'Try again' }).waitFor()
      const sent = page.waitForResponse((response) => response.request().method() === 'PATCH')
      await page.keyboard.press('1')
      await sent
      expect(bodies('/board/tasks/T-3')).toEqual([{ action: 'retry' }])
      expect(errors()).toEqual([])
    }))
})

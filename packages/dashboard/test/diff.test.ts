/** The diff of a task on the board: by file, with comments that the next run gets. */
import { beforeAll, expect, it } from 'vitest'
import { screenshot, violations } from './support/browser.js'
import { fixture, openLive, page, tab } from './support/one-tab.js'
import { turnId } from './support/strings.js'

beforeAll(openLive)

it('shows each file with its lines; comments on lines are kept, removed, and sent with the next try', async () => {
  const task = fixture.world.tasks.find(({ changes, failure }) => changes !== null && failure !== null)!
  await tab.visit(`/p/demo/board?task=${task.taskId}`)
  const diff = page.getByRole('group', { name: 'Diff of src/total.mjs' })
  await diff.getByText('+  for (const { price, count } of basket) cents += price * count').waitFor()
  const comment = async (line: number, words: string) => {
    await diff.getByRole('button', { name: `Comment on line ${line} of src/total.mjs` }).click()
    await diff.getByRole('textbox', { name: `Comment on line ${line} of src/total.mjs` }).fill(words)
    await diff.getByRole('button', { name: 'Keep the comment' }).click()
    await diff.getByText(words).waitFor()
  }
  // Escape drops the draft, not the task around it.
  await diff.getByRole('button', { name: 'Comment on line 3 of src/total.mjs' }).click()
  await diff.getByRole('textbox').fill('Round it.')
  await page.keyboard.press('Escape')
  await diff.getByRole('textbox').waitFor({ state: 'detached' })
  await comment(3, 'Round to cents.')
  await comment(4, 'Not needed.')
  await page.getByText('2 comments: the next run gets them').waitFor()
  for (const width of [1_440, 390]) {
    await tab.resize(width)
    await screenshot(page, `diff-${width}`)
  }
  await tab.resize(1_280)
  await diff.getByRole('button', { name: 'Remove' }).last().click()
  await page.getByText('1 comment: the next run gets them').waitFor()
  await page.getByRole('button', { name: 'Try again' }).click()
  await expect
    .poll(() => fixture.posted.at(-1))
    .toMatchObject({
      method: 'PATCH',
      body: {
        action: 'retry',
        comments: [
          {
            path: 'src/total.mjs',
            line: 3,
            quote: '+  for (const { price, count } of basket) cents += price * count',
            text: 'Round to cents.',
          },
        ],
      },
    })
  await page.getByText('Select the number of a line to comment on it').waitFor()
})

it('the turn of a task links to it and shows its changes in colours, with what a person can do', async () => {
  await tab.visit(`/p/demo/turns/${turnId(4)}`)
  const changes = page.getByRole('region', { name: 'Changes' })
  const diff = changes.getByRole('group', { name: 'Diff of src/total.mjs' })
  await diff.getByText('added:').waitFor({ state: 'attached' })
  // A keyword, and the other text of the line.
  await diff.getByText('return', { exact: true }).waitFor()
  const toneOf = (words: string) =>
    diff
      .getByText(words, { exact: true })
      .first()
      .evaluate((one) => getComputedStyle(one).color)
  expect(await toneOf('return')).not.toBe(await toneOf('cents'))
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme })
    expect(await violations(page), colorScheme).toEqual([])
  }
  await page.emulateMedia({ colorScheme: 'light' })
  await changes.getByRole('button', { name: 'Try again' }).waitFor()
  await page.getByRole('link', { name: 'task T-3' }).click()
  await page.waitForURL('**/board?task=T-3')
})

it('a done task keeps its diff, without comments, because no run would get them', async () => {
  const task = fixture.world.tasks.find(({ status }) => status === 'done')!
  await tab.visit(`/p/demo/board?task=${task.taskId}`)
  const drawer = page.getByRole('dialog', { name: `Task ${task.taskId}` })
  await drawer.getByRole('group', { name: 'Diff of src/total.mjs' }).getByText('added:').waitFor({ state: 'attached' })
  await drawer.getByText('2 files changed since commit 4f5c1d2').waitFor()
  await drawer.getByText('added, not named by the agent, so its content is not shown').waitFor()
  expect(await drawer.getByRole('button', { name: /^Comment on line/ }).count()).toBe(0)
  expect(await violations(page)).toEqual([])
})

it('without git, each file of a task has its sizes and hashes before and after', async () => {
  const task = fixture.world.tasks.find(({ status }) => status === 'done')!
  const [before, after] = ['1f2e3d4c5b6a79880000', '9a8b7c6d5e4f30210000'].map((sha256, at) => ({
    bytes: 900 + at * 300,
    sha256,
  }))
  const files = [
    { path: 'src/total.mjs', change: 'changed', claimed: true, before, after },
    { path: 'notes.txt', change: 'added', claimed: false, before: null, after: { bytes: 9_000_000, sha256: null } },
  ]
  const { changes } = task
  Object.assign(task, { changes: { ...changes, commit: null, files } })
  await tab.visit(`/p/demo/board?task=${task.taskId}`)
  const drawer = page.getByRole('dialog', { name: `Task ${task.taskId}` })
  await drawer.getByText('2 files changed', { exact: true }).waitFor()
  await drawer.getByText('900 B → 1.2 kB, SHA-256 1f2e3d4c → 9a8b7c6d').waitFor()
  await drawer.getByText('9.0 MB, SHA-256 not hashed').waitFor()
  expect(await violations(page)).toEqual([])
  for (const width of [1_440, 390]) {
    await tab.resize(width)
    await screenshot(page, `hashes-${width}`)
  }
  await tab.resize(1_280)
  Object.assign(task, { changes })
})

it('a turn without a task shows its changes, and comments on them start a follow-up once', async () => {
  const turn = fixture.world.turns.find(({ agent_turn_id: id, ended_at: at }) => at !== null && id !== turnId(4))!
  await tab.visit(`/p/demo/turns/${turn.agent_turn_id}`)
  const changes = page.getByRole('region', { name: 'Changes' })
  const diff = changes.getByRole('group', { name: 'Diff of src/total.mjs' })
  await diff.getByRole('button', { name: 'Comment on line 4 of src/total.mjs' }).click()
  await diff.getByRole('textbox').fill('Use a name for the sum.')
  await diff.getByRole('button', { name: 'Keep the comment' }).click()
  await changes.getByRole('button', { name: 'Continue with these comments' }).dblclick()
  const sent = () => fixture.posted.filter(({ path }) => path.endsWith('/continue'))
  await expect
    .poll(() => sent().map(({ body }) => body))
    .toEqual([{ instruction: 'Comments on your changes:\n- src/total.mjs:4 `return cents`: Use a name for the sum.' }])
  expect(tab.errors()).toEqual([])
})

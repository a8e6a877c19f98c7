/** The diff of a task on the board: by file, with comments that the next run gets. */
import { beforeAll, expect, it } from 'vitest'
import { screenshot } from './support/browser.js'
import { fixture, openLive, page, tab } from './support/one-tab.js'

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

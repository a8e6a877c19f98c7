/** The transcript of a turn on its page: live, in pages, bounded, downloaded, and as plain text. */
import { text } from 'node:stream/consumers'
import { beforeAll, describe, expect, it } from 'vitest'
import { screenshot } from './support/browser.js'
import { fixture, page, tab } from './support/one-tab.js'
import { turnId } from './support/strings.js'

beforeAll(async () => {
  // The turn still runs: the text of its time would move what stands beside it.
  await page.clock.setFixedTime(new Date())
  fixture.reset({ key: 'right-key' })
  fixture.hasDate = false
  await page.goto(fixture.url)
  await page.getByLabel('API key').fill('right-key')
  await page.keyboard.press('Enter')
  await page.locator('[data-link=live]').waitFor()
})

const section = () => page.getByRole('region', { name: 'Transcript' })
const log = () => section().getByRole('log', { name: 'Entries of the transcript' })
const rows = () => log().getByRole('listitem').count()

describe('the transcript on the page of a turn', () => {
  it('[T9.2] shows a running turn live: new entries appear at the end, nothing else moves, and a lost connection loses none', async () => {
    await tab.visit(`/p/demo/turns/${turnId(0)}`)
    await log().getByText('The test passes now.').waitFor()
    await section().getByText('live', { exact: true }).waitFor()
    await tab.shift()
    fixture.say(['first new entry', 'second new entry'])
    await log().getByText('second new entry').waitFor()
    const isAtEnd = () => log().evaluate((box) => box.scrollHeight - box.scrollTop - box.clientHeight < 24)
    await expect.poll(isAtEnd).toBe(true)
    expect(await tab.shift()).toBe(0)
    fixture.cut()
    fixture.say(['written during the outage'])
    await log().getByText('written during the outage').waitFor()
    expect(await log().getByText('second new entry').count()).toBe(1)
    fixture.endTranscript()
    await section().getByText('live', { exact: true }).waitFor({ state: 'detached' })
    expect(tab.errors(/ERR_|Failed to load/)).toEqual([])
  })

  it('[T9.2] shows every kind of entry; a tool call opens with arguments and result, and left-out entries are counted', async () => {
    for (const words of [
      'PASS src/login.test.ts',
      'warning: 1 test is slow',
      'May I change the timeout of the test?',
      'Choices: yes, no',
      'Yes, for this test only.',
      '1,200 entries (482 kB) left out here.',
      'The turn continued with epoch 4.',
      'no result yet',
    ])
      await log().getByText(words).waitFor()
    await log().getByText('grep_files').click()
    await log().getByText('"pattern": "setTimeout"').waitFor()
    await log().getByText('src/login.test.ts:14: setTimeout').waitFor()
    const font = await log()
      .getByText('PASS src/login.test.ts')
      .evaluate((shown) => getComputedStyle(shown).fontFamily)
    expect(font).toContain('mono')
    // A link of an agent is a button that warns first.
    expect(await log().getByRole('link').count()).toBe(0)
    for (const width of [1_440, 390]) {
      await tab.resize(width)
      await screenshot(page, `transcript-${width}`)
    }
    await tab.resize(1_280)
  })

  it('[T9.2] an ended turn is read in pages, of which a bounded number of entries is rendered', async () => {
    // More than the page may render at once.
    fixture.say(Array.from({ length: 900 }, (_, line) => `line ${line}`))
    fixture.say(['The last line.'])
    const ended = fixture.world.turns.find(({ ended_at }) => ended_at !== null)!
    await tab.visit(`/p/demo/turns/${ended.agent_turn_id}`)
    await log().getByText('The last line.').waitFor()
    expect(await rows()).toBeLessThanOrEqual(200)
    const earlier = log().getByRole('button', { name: 'Load earlier entries' })
    for (let clicks = 0; (await earlier.count()) > 0; clicks += 1) {
      expect(clicks).toBeLessThan(10)
      const page = log()
        .page()
        .waitForResponse(/transcript\?before=/)
      await earlier.click()
      await page
      await expect.poll(async () => (await earlier.count()) === 0 || (await earlier.isEnabled())).toBe(true)
    }
    await log().getByText('I will look at the login test first.').waitFor()
    expect(await rows()).toBeLessThanOrEqual(600)
    expect(await log().getByText('The last line.').count()).toBe(0)
    await log().getByRole('button', { name: 'Go to the newest entries' }).click()
    await log().getByText('The last line.').waitFor()
    expect(tab.errors()).toEqual([])
  })

  it('[T9.2] the download contains the whole transcript, and is requested with the key of the page', async () => {
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      section().getByRole('button', { name: 'Download as text' }).click(),
    ])
    expect(download.suggestedFilename()).toMatch(/^transcript-.*\.txt$/)
    const saved = await text(await download.createReadStream())
    for (const words of ['I will look at the login test first.', 'line 450', 'The last line.'])
      expect(saved).toContain(words)
  })
})

/**
 * A person's first day: from a repository with a failing test to an accepted change, and from a rejected change to knowing why, by the
 * command line alone and by the dashboard alone, with what `init` writes and a stand-in that prints what the coding agent prints.
 */
import { execFileSync, spawn, type ExecFileSyncOptionsWithStringEncoding } from 'node:child_process'
import { chmodSync, cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTab, screenshot, violations, type Tab } from './support/browser.js'
import { home } from './support/build.js'
import { firstLine, program, project } from './support/real-server.js'

const standIns = join(home, '../../examples/coding-agent')
const all = ['claude', 'codex', 'gemini', 'aider', 'opencode'] as const
type Preset = (typeof all)[number]
// Each takes ten seconds; `npm run thorough` runs them all. Without it, test/cli/commands.test.ts runs a task with each of the others.
const presets = process.env['BELLWETHER_THOROUGH'] === '1' ? all : (['claude'] as const)

let tab: Tab
beforeAll(async () => {
  tab = await openTab()
})
afterAll(() => tab?.close())

const git = (cwd: string, ...args: readonly string[]) =>
  execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b', ...args], { cwd })

/** A shop with a bug and a test that finds it, under git. */
function repository(): string {
  const folder = mkdtempSync(join(tmpdir(), 'bellwether-newcomer-'))
  // The account that runs the database must reach it.
  chmodSync(folder, 0o755)
  cpSync(join(standIns, 'shop'), folder, { recursive: true })
  git(folder, 'init', '-q')
  git(folder, 'add', '.')
  git(folder, 'commit', '-qm', 'A shop')
  return folder
}

/** A repository, a machine with one coding agent, `init` and `up`; nothing else is set. */
async function newcomer(preset: Preset) {
  const folder = repository()
  const bin = mkdtempSync(join(tmpdir(), 'bellwether-bin-'))
  // A sandbox shows the folder of the program, so all of it is there.
  for (const file of readdirSync(standIns).filter((name) => name === preset || name.endsWith('.mjs')))
    cpSync(join(standIns, file), join(bin, file))
  chmodSync(bin, 0o755)
  const env = { ...process.env, PATH: `${bin}${delimiter}${process.env['PATH'] ?? ''}` }
  const options: ExecFileSyncOptionsWithStringEncoding = { cwd: folder, env, encoding: 'utf8', stdio: 'pipe' }
  const typed: string[] = []
  /** What a command prints, whatever its exit code. */
  const type = (...words: readonly string[]) => {
    typed.push(words.join(' '))
    try {
      return { code: 0, out: execFileSync(process.execPath, [...program(), ...words], options) }
    } catch (error) {
      const { status, stdout } = error as { status: number; stdout: string }
      return { code: status, out: stdout }
    }
  }
  const written = type('init')
  const args = ['up', '--port', '0', '--json', '--parent-pipe']
  const up = spawn(process.execPath, [...program(), ...args], { cwd: folder, env, stdio: 'pipe' })
  const heard = { err: '' }
  up.stderr.on('data', (data: Buffer) => (heard.err = (heard.err + data.toString()).slice(-100_000)))
  const ended = new Promise((resolve) => up.once('exit', resolve))
  const facts = await firstLine(up, heard)
  return {
    type,
    /** The commands that were typed since the last call. */
    steps: () => typed.splice(0),
    init: written.out,
    file: (path: string) => readFileSync(join(folder, path), 'utf8'),
    write: (path: string, text: string) => writeFileSync(join(folder, path), text),
    /** Brings the bug back. */
    reset: () => git(folder, 'checkout', '-q', '--', 'total.mjs'),
    loginUrl: String(facts['loginUrl']),
    async close() {
      up.kill('SIGTERM')
      await ended
      for (const path of [folder, bin]) rmSync(path, { recursive: true, force: true })
    },
  }
}

type Newcomer = Awaited<ReturnType<typeof newcomer>>
const fails = 'node --test fails. Find out why.'
const breaks = 'stand-in: write total.mjs'
const fixed = `export const total = (basket) => basket.reduce((cents, { price, count }) => cents + price * count, 0)\n`

describe.each(presets)('a newcomer with %s', (preset) => {
  let person: Newcomer
  /** Whether this machine has a sandbox for checks. */
  let isSandboxed = false
  beforeAll(async () => {
    person = await newcomer(preset)
  })
  afterAll(async () => {
    // The server ends with the tests.
    await tab.page.goto('about:blank')
    await person?.close()
  })

  it('gets an accepted change with the defaults, and learns from a rejected one why and what to do, by the command line alone', () => {
    const { type, file } = person
    expect(person.init).toContain(`Coding agents on this machine: ${preset}`)
    expect(person.init).toMatch(/Next: +(?:npx )?bellwether up\n$/)
    type('task', 'add', 'Totals are wrong', '--instruction', fails, '--verify', 'node --test')
    const done = type('task', 'watch', 'T-1')
    expect(done).toMatchObject({ code: 0, out: expect.stringMatching(/status +done/) })
    expect(file('total.mjs')).toContain('cents += price * count')
    // 209,000 tokens, most of them cache reads, are within the default limits.
    expect(done.out).toMatch(/tokens +2\d,\d{3} fresh .*; 185,\d{3} cache read/)

    type('task', 'add', 'Add a discount', '--instruction', breaks, '--verify', 'node --test')
    person.steps()
    const { code, out } = type('task', 'watch', 'T-2')
    expect(code).toBe(1)
    for (const part of [
      /status +blocked \(incomplete output\)/,
      /problem +verify command exited with 1: node --test/,
      /next +A person decides\. The next reminder is at /,
      /Failed: node --test\n {2}exited with 1 after [\d.]+ m?s; the end of its output:\n/,
      /SyntaxError: /,
      /Result of the last run:\n {2}\S/,
      new RegExp(`\\+total\\.mjs, by ${preset}`),
      / {2}bellwether task retry T-2 +coder tries again now, and gets what failed/,
    ])
      expect(out).toMatch(part)
    isSandboxed = out.includes('It ran in a sandbox')
    // One command says all of it.
    expect(person.steps()).toEqual(['task watch T-2'])
    expect(type('task', 'show', 'T-2').out).toContain('SyntaxError: ')
    // The person repairs the file, and the board checks that too.
    person.write('total.mjs', fixed)
    expect(type('task', 'done', 'T-2', '--file', 'total.mjs').code).toBe(0)
    person.reset()
  })

  it('does the same by the dashboard alone', async () => {
    const { page } = tab
    await page.goto(person.loginUrl)
    await page.waitForURL(`**/p/${project}/fleet`)
    await firstTurn(page)

    await page.getByRole('link', { name: 'Board' }).click()
    await addTask(page, 'Totals are still wrong', fails)
    const drawer = page.getByRole('dialog')
    await drawer.getByText('done', { exact: true }).waitFor()
    await drawer.getByText('$20.00').first().waitFor()
    expect(person.file('total.mjs')).toContain('cents += price * count')
    await drawer.getByRole('link', { name: 'coder' }).click()
    await page.getByRole('region', { name: 'Transcript' }).getByText('The loop overwrites the sum.').first().waitFor()
    await look('newcomer-turn')

    await page.getByRole('link', { name: 'Board' }).click()
    await addTask(page, 'Add another discount', breaks)
    await drawer.getByText('blocked', { exact: true }).waitFor()
    // Without a click: why, the output of the check, and what the person can do.
    await drawer.getByText('SyntaxError: ').first().waitFor()
    await drawer.getByText('coder tries again now, and gets what failed').first().waitFor()
    await drawer.getByRole('button', { name: 'Close' }).click()
    // One click from any page.
    await page.getByRole('link', { name: 'Needs you 1 waiting' }).click()
    const card = page.getByRole('article', { name: 'Add another discount' })
    const output = card.getByRole('group', { name: 'Output of check "tests"' })
    await output.getByText('SyntaxError: ').waitFor()
    if (isSandboxed) await card.getByText('add "sandbox": "none" to check "tests" in config/').waitFor()
    await card.getByRole('heading', { name: 'What the agent reported' }).waitFor()
    const diff = card.getByRole('group', { name: 'Diff', exact: true })
    await diff.getByText(`+total.mjs, by ${preset}`).waitFor()
    await card.getByText('A person decides. The next reminder is at').waitFor()
    await card.getByText('coder tries again now, and gets what failed').waitFor()
    await look('newcomer-needs-you')
    expect(await violations(page)).toEqual([])
    // The person repairs the file. The button runs the checks.
    const button = card.getByRole('button', { name: 'It is done' })
    await button.click()
    await card.getByRole('alert').filter({ hasText: 'exited with 1: check "tests"' }).waitFor()
    person.write('total.mjs', fixed)
    await button.click()
    await page.getByText('Nothing needs you').waitFor()
    expect(tab.errors(/status of 400/)).toEqual([])
  })
})

async function look(name: string): Promise<void> {
  for (const width of [1_440, 390]) {
    await tab.resize(width)
    for (const colorScheme of ['dark', 'light'] as const) {
      await tab.page.emulateMedia({ colorScheme })
      await screenshot(tab.page, `${name}-${width}-${colorScheme}`)
    }
  }
  await tab.resize(1_280)
}

/** Runs a turn from the first page, and once more from its own page. */
async function firstTurn(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Run a turn…' }).click()
  const form = page.getByRole('dialog', { name: 'Run a turn' })
  await form.getByLabel('Agent').selectOption('greeter')
  await form.getByLabel('Instruction').fill('Good morning')
  await look('newcomer-run-turn')
  await form.getByRole('button', { name: 'Run', exact: true }).click()
  await page.getByText('You asked: ').first().waitFor()
  const first = page.url()
  await page.getByRole('button', { name: 'Run again' }).click()
  await page.waitForURL((url) => url.pathname.includes('/turns/') && url.href !== first)
  await page.getByText('You asked: ').first().waitFor()
}

async function addTask(page: Page, title: string, instruction: string): Promise<void> {
  await page.getByRole('button', { name: 'New task…' }).click()
  const form = page.getByRole('dialog', { name: 'New task' })
  await form.getByLabel('Title').fill(title)
  await form.getByLabel('Instruction').fill(instruction)
  await form.getByLabel('tests').check()
  await look('newcomer-new-task')
  expect(await violations(page)).toEqual([])
  await form.getByRole('button', { name: 'Add task' }).click()
  await page.getByRole('dialog').getByRole('heading', { name: title }).waitFor()
}

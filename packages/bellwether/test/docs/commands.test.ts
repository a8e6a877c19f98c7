/** The documentation is executable: its shell blocks run, every `bellwether` command in it exists, and its links lead somewhere. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Command } from 'commander'
import { expect, it, onTestFinished } from 'vitest'
import { commands } from '../../src/cli/commands.js'
import { dataFolderOf } from '../../src/runtime/data-folder.js'
import { databaseFolder } from '../../src/runtime/paths.js'
import { seedCluster, testFolder } from '../support/postgres.js'
import { programFor, runCli } from '../support/process.js'
import { anchorsOf, blocksOf, commandsIn, linksOf, pages, repository } from './pages.js'

/** Pages whose plain `sh` blocks another test runs. */
const runElsewhere = new Set(['docs/tutorial.md'])
const modes = /^(?:setup|up|run|until asked|until \w+ \S+(?: again)?|norun: .{15,})?$/

const blocks = pages().flatMap(blocksOf)

it('every shell block of the documentation is run by a test or says why not', () => {
  const shells = blocks.filter(({ language }) => language === 'sh')
  expect(shells.length).toBeGreaterThan(20)
  expect(
    shells.filter(({ mode }) => !modes.test(mode)).map(({ page, line, mode }) => `${page}:${line} ${mode}`),
  ).toEqual([])
  expect(shells.filter(({ page, mode }) => mode === 'run' && page !== 'docs/http.md')).toEqual([])
})

it('every block of commands is a shell block', () => {
  // The reference shows synopses; docs/cli.md shows sessions, which test/cli/commands.test.ts repeats.
  const others = blocks.filter(({ page, language }) => language === '' && page !== 'docs/reference/cli.md')
  const command = /^(?:[A-Z_]+=\S+ )*(?:sudo )?(?:bellwether|npx|npm|node|curl|psql|python3|sysctl|systemctl) /m
  expect(others.filter(({ text }) => command.test(text)).map(({ page, line }) => `${page}:${line}`)).toEqual([])
})

it('every link of the documentation leads to a file, and to a heading if it names one', () => {
  const wrong = pages()
    .flatMap(linksOf)
    .filter(({ path, anchor }) => {
      if (!existsSync(join(repository, path))) return true
      return anchor !== '' && path.endsWith('.md') && !anchorsOf(path).includes(anchor)
    })
  expect(wrong.map(({ page, line, path, anchor }) => `${page}:${line} ${path}#${anchor}`)).toEqual([])
})

it('every page can be reached from docs/index.md', () => {
  const reached = new Set(['README.md', 'docs/index.md'])
  // A set that grows while it is iterated also visits the new pages.
  for (const page of reached)
    for (const { path } of linksOf(page)) if (path.endsWith('.md') && path !== page) reached.add(path)
  expect(pages().filter((page) => !reached.has(page))).toEqual([])
})

it('every bellwether command in the documentation exists, with every option that it shows', async () => {
  const problems: string[] = []
  for (const block of blocks)
    for (const words of commandsIn(block)) {
      const problem = await problemOf(words)
      if (problem !== undefined) problems.push(`${block.page}:${block.line} bellwether ${words.join(' ')}: ${problem}`)
    }
  expect(problems).toEqual([])
})

/** Why the command line would reject these words, or undefined. */
async function problemOf([name, ...rest]: readonly string[]): Promise<string | undefined> {
  if (name === undefined || /^[A-Z]+$/.test(name) || ['help', '--help', '--version'].includes(name)) return undefined
  const entry = Object.hasOwn(commands, name) ? commands[name] : undefined
  if (entry === undefined) return `there is no command ${name}`
  let command: Command = (await entry.load())(() => undefined)
  for (const word of rest) {
    if (!word.startsWith('-')) {
      command = command.commands.find((one) => one.name() === word) ?? command
      continue
    }
    const flag = word.split('=')[0]!
    // A command without a verb may take the options of its default verb.
    const options = [command, ...command.commands].flatMap((one) => one.options)
    const known = options.some(({ short, long }) => short === flag || long === flag)
    if (!known && flag !== '--help') return `there is no option ${flag}`
  }
  return undefined
}

const runnable = [
  ...new Set(blocks.flatMap(({ page, language, mode }) => (language === 'sh' && mode === '' ? [page] : []))),
].filter((page) => !runElsewhere.has(page))
const isRecipe = (page: string) => page.startsWith('docs/how-to/')

it.each(runnable.filter((page) => !isRecipe(page)))('the shell blocks of %s work as written', async (page) => {
  expect(await runPage(page, await emptyFolder())).toBeGreaterThan(0)
})

it('the shell blocks of the recipes in docs/how-to work as written beside a running up', async () => {
  const folder = await emptyFolder()
  await pageShell(folder).run('npx bellwether init')
  await startUp(folder)
  for (const page of runnable.filter(isRecipe)) expect(await runPage(page, folder)).toBeGreaterThan(0)
})

async function emptyFolder(): Promise<string> {
  const folder = await testFolder()
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

/** Runs the blocks of a page in order and returns how many it ran. */
async function runPage(page: string, folder: string): Promise<number> {
  const shell = pageShell(folder)
  let ran = 0
  for (const { mode, text, line } of blocksOf(page).filter(({ language }) => language === 'sh')) {
    if (mode === 'up') await startUp(await shell.cwd())
    else if (mode === '') {
      await shell.run(text, `${page}:${line}`)
      ran += 1
    }
  }
  return ran
}

async function startUp(cwd: string): Promise<void> {
  seedCluster(join(dataFolderOf(cwd), databaseFolder))
  const up = runCli(['up', '--port', '0', '--trust', '--json', '--parent-pipe'], { cwd })
  onTestFinished(async () => {
    up.signal('SIGTERM')
    await up.ended
  })
  await up.ready(60_000)
}

/** One shell session per page: folder and exported variables carry over from block to block. */
function pageShell(folder: string) {
  const state = join(folder, '.page-state')
  const bellwether = ['node', ...programFor([])].map((word) => `"${word}"`).join(' ')
  const setup = [
    `bellwether() { ${bellwether} "$@"; }`,
    `npx() { [ "$1" = bellwether ] || { echo "npx $1 is not run in tests" >&2; return 1; }; shift; bellwether "$@"; }`,
    `cd "${folder}"; [ -e "${state}" ] && . "${state}"`,
    `trap '{ export -p; echo "cd \\"$PWD\\""; } > "${state}"' EXIT`,
  ].join('\n')
  async function run(commands: string, name = commands): Promise<string> {
    const child = spawn('bash', ['-euc', `${setup}\n${commands}`], { cwd: folder })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (data: Buffer) => (output += data.toString()))
    const [code] = (await once(child, 'close')) as [number]
    expect(code, `${name}\n${commands}\n${output}`).toBe(0)
    return output
  }
  const cwd = async () => {
    await run(`pwd > "${state}-cwd"`)
    return readFileSync(`${state}-cwd`, 'utf8').trim()
  }
  return { run, cwd }
}

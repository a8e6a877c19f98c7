/** Runs every block of commands of docs/tutorial.md, one shell per block, on a real `up`. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { statSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { errorMessage } from '@bellwether/base'
import { expect, it, onTestFinished } from 'vitest'
import { testFolder } from '../support/postgres.js'
import { programFor, runCli } from '../support/process.js'
import { until } from '../support/until.js'
import { blocksOf, repository } from './pages.js'

const setup = `bellwether() { "${process.execPath}" ${programFor([])
  .map((word) => `"${word}"`)
  .join(' ')} "$@"; }`

const sizeOf = (path: string) => statSync(path, { throwIfNoEntry: false })?.size ?? 0

interface ShownTask {
  readonly status: string
  readonly runs: readonly unknown[]
  readonly nextStep: { readonly what: string }
}

it('the commands of the tutorial work as written: a bug is fixed and checked, a false claim is caught, a command is approved, a conflict is resolved', async () => {
  const folder = await testFolder()
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  // A new account, whose git does not guess an author.
  await writeFile(join(folder, '.gitconfig'), '[user]\n\tuseConfigOnly = true\n')
  const env = {
    HOME: folder,
    GIT_CONFIG_NOSYSTEM: '1',
    BELLWETHER: repository,
    PATH: `${join(repository, 'examples/coding-agent')}:${process.env['PATH']}`,
    BELLWETHER__SERVER__PORT: '0',
  }
  const shop = join(folder, 'shop')
  let cwd = folder
  const type = async (commands: string): Promise<string> => {
    const shell = spawn('bash', ['-euc', `${setup}\n${commands}`], { cwd, env: { ...process.env, ...env } })
    let output = ''
    for (const stream of [shell.stdout, shell.stderr]) stream.on('data', (data: Buffer) => (output += data.toString()))
    const [code] = (await once(shell, 'close')) as [number]
    expect(code, `${commands}\n${output}`).toBe(0)
    return output
  }
  const blocks = blocksOf('docs/tutorial.md').filter(({ language }) => language === 'sh')
  expect(blocks[0]).toMatchObject({ mode: 'setup', text: expect.stringContaining('node_modules/.bin') as string })
  expect(blocks.filter(({ mode }) => mode === 'up').map(({ text }) => text)).toEqual(['bellwether up\n'])
  const outputs: string[] = []
  for (const { mode, text } of blocks.slice(1)) {
    if (mode === 'up') {
      const up = runCli(['up', '--trust', '--json', '--parent-pipe'], { cwd: shop, env })
      onTestFinished(async () => {
        up.signal('SIGTERM')
        await up.ended
      })
      await up.ready()
      continue
    }
    // `again`: after a second run.
    const [, status, task, again] = /^until (\w+) (T-\d+)( again)?$/.exec(mode) ?? []
    if (task !== undefined) {
      await until(`${task} is ${status}`, async () => {
        const show = runCli(['task', 'show', task, '--json'], { cwd: shop })
        // A request that a busy server does not answer in time is repeated.
        if ((await show.ended) !== 0) return undefined
        const shown = JSON.parse(show.stdout()) as ShownTask
        // Between its two runs the task is blocked, too, until the same agent tries again.
        const isOver = status !== 'blocked' || shown.nextStep.what === 'person'
        return (shown.status === status && isOver && shown.runs.length > (again === undefined ? 0 : 1)) || undefined
      })
    }
    if (mode === 'until asked')
      await until('a call waits for approval', async () => {
        const list = runCli(['approvals', '--json'], { cwd: shop })
        await list.ended
        return list.stdout().includes('approval_id') || undefined
      }).catch(async (error: unknown) => {
        const turns = runCli(['turn', 'list'], { cwd: shop })
        await turns.ended
        throw new Error(`${errorMessage(error)}\n${turns.stdout()}`, { cause: error })
      })
    const [, file] = /^until file (\S+)$/.exec(mode) ?? []
    // The shell that appends to a file creates it first.
    if (file !== undefined) await until(`${file} has content`, async () => sizeOf(join(shop, file)) > 0 || undefined)
    outputs.push(await type(text))
    cwd = text.includes('&& cd shop') ? shop : cwd
  }
  const all = outputs.join('\n')
  expect(all).toContain('+  for (const { price, count } of basket) cents += price * count')
  expect(all).toContain('$ echo 1.0 >> published.txt')
  expect(outputs, outputs.join('\n----\n')).toContain('1.0\n')
  expect(all).toMatch(/merge.conflict.*prices\.txt/)
  expect(outputs.at(-1)!.split('\n').toSorted()).toEqual(['', 'apples 3.00', 'prices.txt, by claude'])
  expect(all).toMatch(/T-2 .*\n.*blocked/)
  expect(all).toMatch(/problem +CHANGELOG\.md is claimed but does not exist/)
  expect(all.split('\n').filter((line) => /\bdone\b/.test(line)).length).toBeGreaterThanOrEqual(2)
})

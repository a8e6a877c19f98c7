/** Runs every block of commands of docs/tutorial.md, one shell per block, on a real `up`. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { testFolder } from '../support/postgres.js'
import { programFor, runCli } from '../support/process.js'
import { until } from '../support/until.js'
import { blocksOf, repository } from './pages.js'

const setup = `bellwether() { "${process.execPath}" ${programFor([])
  .map((word) => `"${word}"`)
  .join(' ')} "$@"; }`

it('the commands of the tutorial work as written: a bug is fixed and checked, a false claim is caught', async () => {
  const folder = await testFolder()
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const person = { GIT_AUTHOR_NAME: 'a', GIT_AUTHOR_EMAIL: 'a@b', GIT_COMMITTER_NAME: 'a', GIT_COMMITTER_EMAIL: 'a@b' }
  const env = {
    ...person,
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
      const up = runCli(['up', '--json', '--parent-pipe'], { cwd: shop, env })
      onTestFinished(async () => {
        up.signal('SIGTERM')
        await up.ended
      })
      await up.ready(60_000)
      continue
    }
    const [, status, task] = /^until (\w+) (\S+)$/.exec(mode) ?? []
    if (task !== undefined) {
      await until(
        `${task} is ${status}`,
        async () => {
          const show = runCli(['task', 'show', task, '--json'], { cwd: shop })
          await show.ended
          const shown = JSON.parse(show.stdout()) as { status: string }
          return shown.status === status || undefined
        },
        60_000,
      )
    }
    outputs.push(await type(text))
    cwd = text.includes('&& cd shop') ? shop : cwd
  }
  const all = outputs.join('\n')
  expect(all).toContain('+  for (const { price, count } of basket) cents += price * count')
  expect(all).toMatch(/T-2 .*\n.*blocked/)
  expect(all).toMatch(/problem +CHANGELOG\.md is claimed but does not exist/)
  expect(all.split('\n').filter((line) => /\bdone\b/.test(line)).length).toBeGreaterThanOrEqual(2)
})

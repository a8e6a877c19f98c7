/**
 * Counts the modules that short commands load. Loading is most of the CPU time of a short command, and a count does not depend on
 * the machine. Each command runs from the build, with a module hook that writes down every module.
 */
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, it } from 'vitest'
import { testFolder } from '../support/postgres.js'

const main = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))
const asUrl = (code: string) => `data:text/javascript,${encodeURIComponent(code)}`

/** Runs a command and returns the packages and the files of this package that it loaded. */
async function loadedBy(folder: string, words: readonly string[], exitCode = 0) {
  const list = join(folder, `${words.join('-').replaceAll('/', '_')}.txt`)
  const hook = asUrl(`import { appendFileSync } from 'node:fs'
    export async function load(url, context, next) {
      appendFileSync(${JSON.stringify(list)}, url + '\\n')
      return next(url, context)
    }`)
  const register = asUrl(`import { register } from 'node:module'; register(${JSON.stringify(hook)})`)
  const args = ['--import', register, main, ...words]
  const ended = await promisify(execFile)(process.execPath, args, { cwd: folder }).then(
    () => 0,
    (error: { readonly code?: unknown }) => error.code,
  )
  expect(ended).toBe(exitCode)
  const modules = (await readFile(list, 'utf8')).trim().split('\n')
  const packages = modules.flatMap((url) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(url)?.[1] ?? [])
  const rooms = modules.flatMap((url) => /\/bellwether\/dist\/([^/]+)\//.exec(url)?.[1] ?? [])
  return { count: modules.length, packages: [...new Set(packages)].sort(), rooms: [...new Set(rooms)].sort() }
}

describe('the modules of a short command', () => {
  let folder: string
  beforeAll(async () => {
    folder = await testFolder()
    // With settings and every policy file, as in a real project.
    await promisify(execFile)(process.execPath, [main, 'init'], { cwd: folder })
    await promisify(execFile)(process.execPath, [main, 'task', 'add', 'first'], { cwd: folder })
  })

  it.each(['--version', '--help'])('%s loads only the parser and the list of commands', async (word) => {
    const { count, packages, rooms } = await loadedBy(folder, [word])
    expect(packages).toEqual(['commander'])
    expect(rooms).toEqual(['cli', 'client', 'settings'])
    expect(count).toBeLessThan(36)
  })

  it.each([
    ['task', 'list'],
    ['task', 'show', 'T-1'],
  ])('%s %s loads neither zod, nor the kernel, the view, the server and the client', async (...words) => {
    const { count, packages, rooms } = await loadedBy(folder, words)
    expect(packages).toEqual(['commander'])
    expect(rooms).toEqual(['board', 'cli', 'client', 'ports', 'runtime', 'settings'])
    expect(count).toBeLessThan(115)
  })

  it.each([['turn', 'list'], ['turn', 'show', 'none'], ['agents'], ['questions', 'list'], ['view', 'stats']])(
    '%s %s loads the client, but neither zod nor the server',
    async (...words) => {
      // No server runs there: the command fails after it has loaded everything.
      const { count, packages } = await loadedBy(folder, [...words, '--server', 'http://127.0.0.1:9', '--key', 'k'], 1)
      expect(packages).toEqual(['commander', 'eventsource-parser'])
      expect(count).toBeLessThan(70)
    },
  )

  it('task with any verb defines that verb', async () => {
    const { loadTask } = await import('../../src/cli/work/task/task.js')
    const all = (await loadTask(undefined))(() => undefined).commands.map((command) => command.name())
    expect(all).toEqual(expect.arrayContaining(['add', 'list', 'show', 'edit', 'autopilot']))
    for (const verb of all) {
      const names = (await loadTask(verb))(() => undefined).commands.map((command) => command.name())
      expect(names).toContain(verb)
      expect(names.length).toBeLessThan(all.length)
    }
  })
})

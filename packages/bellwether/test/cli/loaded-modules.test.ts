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
import { commands } from '../../src/cli/commands.js'
import { testFolder } from '../support/postgres.js'

const main = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))
const asUrl = (code: string) => `data:text/javascript,${encodeURIComponent(code)}`

/** Runs a command and returns the packages and the files of this package that it loaded. */
const loadedBy = (folder: string, words: readonly string[], exitCode = 0) =>
  modulesOf(folder, words.join('-').replaceAll('/', '_'), [main, ...words], exitCode)

async function modulesOf(folder: string, name: string, program: readonly string[], exitCode = 0) {
  const list = join(folder, `${name}.txt`)
  const hook = asUrl(`import { appendFileSync } from 'node:fs'
    export async function load(url, context, next) {
      appendFileSync(${JSON.stringify(list)}, url + '\\n')
      return next(url, context)
    }`)
  const register = asUrl(`import { register } from 'node:module'; register(${JSON.stringify(hook)})`)
  const args = ['--import', register, ...program]
  let printed = ''
  const ended = await promisify(execFile)(process.execPath, args, { cwd: folder }).then(
    ({ stdout }) => {
      printed = stdout
      return 0
    },
    (error: { readonly code?: unknown }) => error.code,
  )
  expect(ended).toBe(exitCode)
  const modules = (await readFile(list, 'utf8')).trim().split('\n')
  const packages = modules.flatMap((url) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(url)?.[1] ?? [])
  const rooms = modules.flatMap((url) => /\/bellwether\/dist\/([^/]+)\//.exec(url)?.[1] ?? [])
  const unique = (names: readonly string[]) => [...new Set(names)].sort()
  return { modules, printed, count: modules.length, packages: unique(packages), rooms: unique(rooms) }
}

describe('the modules of a process that waits', () => {
  // Formatting the first number or date with Intl costs a process 6 MB.
  const withoutIntl = asUrl(`const fail = () => { throw new Error('Intl is used while modules load') }
    Number.prototype.toLocaleString = Date.prototype.toLocaleString = fail
    for (const name of ['DateTimeFormat', 'NumberFormat', 'Collator', 'supportedValuesOf']) Intl[name] = fail`)
  /** Also counts the schemas that were built, and Node's own modules. */
  const loads = async (part: string, ...parts: readonly string[]) => {
    const urls = [part, ...parts].map((one) => new URL(`../../dist/${one}.js`, import.meta.url).href)
    const zod = import.meta.resolve('zod')
    const code = `for (const url of ${JSON.stringify(urls)}) await import(url)
      const { z } = await import(${JSON.stringify(zod)})
      const { queryObjects } = await import('node:v8')
      const kinds = [z.ZodObject, z.ZodString, z.ZodNumber, z.ZodOptional, z.ZodNullable, z.ZodArray, z.ZodEnum]
      const schemas = kinds.reduce((sum, kind) => sum + queryObjects(kind, { format: 'count' }), 0)
      process.stdout.write(JSON.stringify({ schemas, own: process.moduleLoadList }))`
    const program = ['--import', withoutIntl, '--input-type=module', '--eval', code]
    const { modules, packages, printed } = await modulesOf(await testFolder(), 'modules', program)
    const { schemas, own } = JSON.parse(printed) as { readonly schemas: number; readonly own: readonly string[] }
    return { modules: modules.filter((one) => !one.startsWith('node:')), packages, schemas, own }
  }
  const httpClient = 'NativeModule internal/deps/undici/undici'

  it('a worker loads no schemas of HTTP routes, which cost 9 MB, and nothing of the server, the board and the view', async () => {
    const { modules, packages, schemas, own } = await loads('runtime/worker')
    const unused = /protocol\/dist\/http\/|bellwether\/dist\/(?:http|board|view|pmo|mcp)\//
    expect(modules.filter((one) => unused.test(one))).toEqual([])
    expect(
      packages.filter((one) => /fastify|otel|opentelemetry|nats|ai-sdk|modelcontext|nodemailer|openid/.test(one)),
    ).toEqual([])
    expect(modules.length).toBeLessThan(420)
    expect(schemas).toBeLessThan(220)
    expect(own).not.toContain(httpClient)
  })

  it('`up` loads what a sign-in, a message, a model, a tool, an MCP server, a scrape and a route need when they are used', async () => {
    const { modules, packages, schemas, own } = await loads('runtime/up', 'telemetry/metrics')
    expect(packages.filter((one) => /nats|ai-sdk|modelcontext|nodemailer|openid|ajv|prom-client/.test(one))).toEqual([])
    expect(modules.filter((one) => /runtime\/(?:parts\/worker\/|parts\/tools|worker)/.test(one))).toEqual([])
    expect(modules.length).toBeLessThan(760)
    // Those of files and of the pipe. The contract has 3,000 more.
    expect(schemas).toBeLessThan(450)
    expect(own).not.toContain(httpClient)
  })
})

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
    expect(count).toBeLessThan(117)
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

  it('the help of every command loads neither the server nor the database, and that of most commands no schemas', async () => {
    // These check their options with the schemas of files and settings.
    const withSchemas = ['sensor', 'rebuild-snapshot', 'restore-snapshot']
    const limits = { plain: 140, withSchemas: 200 }
    const names = Object.keys(commands)
    const running = [...names.entries()]
    const one = async () => {
      for (let next = running.pop(); next !== undefined; next = running.pop()) {
        const [, name] = next
        const { count, packages } = await loadedBy(folder, [name, '--help'])
        const isPlain = !withSchemas.includes(name)
        expect([name, isPlain && packages.includes('zod')]).toEqual([name, false])
        expect(packages, name).not.toContain('fastify')
        expect([name, count < (isPlain ? limits.plain : limits.withSchemas) ? 'few' : count]).toEqual([name, 'few'])
      }
    }
    await Promise.all([one(), one()])
    expect(names.length).toBeGreaterThan(25)
  })

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

/** Creates a project folder with the agents of `init` and runs `up` in it as a real process, which ends with the test. */
import { readFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { initFolder } from '../../src/cli/start/init-folder.js'
import { dataFolderOf } from '../../src/runtime/data-folder.js'
import { databaseFolder } from '../../src/runtime/paths.js'
import { seedCluster, testFolder } from './postgres.js'
import { runCli, type Cli, type CliOptions } from './process.js'

export type Facts = Readonly<Record<string, unknown>>

interface UpFile {
  readonly url: string
  readonly databaseUrl: string
  readonly workers: readonly { readonly name: string; readonly target: string; readonly pid: number | null }[]
}

export interface Project {
  readonly folder: string
  readonly data: string
  readonly start: (args?: readonly string[], options?: Partial<CliOptions>) => Cli
  /** Starts `up` and waits until it is ready. */
  readonly up: (args?: readonly string[], options?: Partial<CliOptions>) => Promise<{ cli: Cli; facts: Facts }>
  /** The content of up.json. */
  readonly upFile: () => UpFile
  readonly run: (
    ...args: readonly string[]
  ) => Promise<{ code: unknown; answer: Record<string, unknown>; stderr: string }>
}

/** The first start creates a database, on a busy machine. */
const readyMs = 60_000

/** Its database exists before the first start, unless `isEmpty`. */
export async function testProject({ isEmpty = false } = {}): Promise<Project> {
  const folder = await testFolder()
  initFolder(folder)
  const data = dataFolderOf(folder)
  if (!isEmpty) seedCluster(join(data, databaseFolder))
  const started: Cli[] = []
  onTestFinished(async () => {
    for (const cli of started) if (cli.alive()) cli.signal('SIGTERM')
    await Promise.all(started.map((cli) => cli.ended))
    for (const path of [folder, data]) await rm(path, { recursive: true, force: true })
  })
  const start: Project['start'] = (args = [], options = {}) => {
    const port = args.includes('--port') ? [] : ['--port', '0']
    const cli = runCli(['up', ...port, '--trust', '--json', '--parent-pipe', ...args], { cwd: folder, ...options })
    started.push(cli)
    return cli
  }
  return {
    folder,
    data,
    start,
    up: async (args, options) => {
      const cli = start(args, options)
      return { cli, facts: await cli.ready(readyMs) }
    },
    upFile: () => JSON.parse(readFileSync(join(data, 'up.json'), 'utf8')) as UpFile,
    run: async (...args) => {
      const cli = runCli([...args, '--json'], { cwd: folder })
      const code = await cli.ended
      return { code, answer: JSON.parse(cli.stdout() || '{}') as Record<string, unknown>, stderr: cli.stderr() }
    },
  }
}

/** `up` prints the key only when it creates it. */
export function adminKeyOf({ adminKey, adminKeyFile }: Facts): string {
  return typeof adminKey === 'string' ? adminKey : readFileSync(String(adminKeyFile), 'utf8').trim()
}

export async function ask(facts: Facts, path: string, init: { method?: string; body?: object } = {}) {
  const response = await fetch(`${String(facts['url'])}${path}`, {
    method: init.method ?? 'GET',
    headers: { 'x-api-key': adminKeyOf(facts), 'content-type': 'application/json' },
    ...(init.body === undefined ? {} : { body: JSON.stringify(init.body) }),
  })
  return { status: response.status, body: (await response.json()) as Record<string, unknown> }
}

export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false
    throw error
  }
}

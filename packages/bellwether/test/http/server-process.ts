/** Starts `bellwether server` and programs beside it as real processes on one fresh database, with short timings. `stop` ends all. */
import { defined } from '@bellwether/base'
import { spawn, type ChildProcess } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { runCli, type Cli } from '../support/process.js'
import { freshDatabase, testFolder } from '../support/postgres.js'

const timings = {
  WORKER__INBOX_PROCESSING_TIMEOUT_SECONDS: '5',
  WORKER__WATCHDOG_INTERVAL_SECONDS: '0.5',
  WORKER__BEAT_SECONDS: '0.5',
  WORKER__POLL_SECONDS: '1',
}

export interface ServerProcesses {
  readonly url: string
  readonly folder: string
  readonly db: Awaited<ReturnType<typeof freshDatabase>>['db']
  cli(...words: readonly string[]): Cli
  server(...words: readonly string[]): Promise<RunningServer>
  program(command: string, words: readonly string[], env: Readonly<Record<string, string>>): Program
  stop(): Promise<void>
}

export interface RunningServer extends Cli {
  readonly address: string
  readonly readyLine: Readonly<Record<string, unknown>>
}

interface Program {
  readonly child: ChildProcess
  readonly lines: () => readonly Record<string, unknown>[]
  readonly stderr: () => string
  readonly ended: Promise<unknown>
}

export async function openServerProcesses(): Promise<ServerProcesses> {
  const { url, db, drop } = await freshDatabase()
  const folder = await testFolder()
  const settings = { ...timings, DATABASE__URL: url, NATS__URL: '' }
  const env = Object.fromEntries(Object.entries(settings).map(([name, value]) => [`BELLWETHER__${name}`, value]))
  const started: { readonly child: ChildProcess; readonly ended: Promise<unknown> }[] = []
  const cli = (...words: readonly string[]) => {
    const one = runCli(words, { cwd: folder, env })
    started.push(one)
    return one
  }
  return {
    url,
    folder,
    db,
    cli,
    async server(...words) {
      const one = cli('server', '--port', '0', '--json', '--parent-pipe', ...words)
      const ready = await one.ready()
      return { ...one, address: String(ready['url']), readyLine: ready }
    },
    program(command, words, more) {
      const child = spawn(command, words, { env: { ...process.env, ...more }, stdio: ['ignore', 'pipe', 'pipe'] })
      let [stdout, stderr] = ['', '']
      child.stdout.on('data', (data: Buffer) => (stdout += data.toString()))
      child.stderr.on('data', (data: Buffer) => (stderr += data.toString()))
      const ended = new Promise((resolve) => child.once('close', resolve))
      const program = {
        child,
        ended,
        stderr: () => stderr,
        lines: () =>
          stdout
            .split('\n')
            .slice(0, -1)
            .map((line) => JSON.parse(line) as Record<string, unknown>),
      }
      started.push(program)
      return program
    },
    async stop() {
      for (const { child } of started) if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
      await Promise.all(started.map((one) => one.ended))
      await drop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

export async function call(
  address: string,
  key: string | undefined,
  method: string,
  path: string,
  body?: object,
): Promise<{ readonly status: number; readonly body: Record<string, unknown> }> {
  const answer = await fetch(`${address}/api/v1${path}`, {
    method,
    headers: { 'content-type': 'application/json', ...defined({ 'x-api-key': key }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return { status: answer.status, body: (await answer.json()) as Record<string, unknown> }
}

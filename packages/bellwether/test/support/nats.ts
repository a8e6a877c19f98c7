/**
 * A real nats-server for tests, on a free port and with its own store. Always: ready means that it answered a
 * connection with its greeting; `kill` is SIGKILL; `restart` keeps port and store, so clients find the same server again.
 */
import type { ChildProcess } from 'node:child_process'
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { systemClock } from '@bellwether/base'
import { until } from './until.js'

export interface NatsServer {
  readonly url: string
  readonly port: number
  /** Ends the server; its store is removed unless the caller gave it. */
  stop(): Promise<void>
  /** SIGKILL: no farewell to clients, no flush of the store. */
  kill(): Promise<void>
  restart(): Promise<void>
  /** Resolves when none of its threads runs: SIGSTOP alone returns while they still may answer. */
  freeze(): Promise<void>
  thaw(): void
}

const readyWithinMs = 10_000

export function findNatsServer(): string {
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/usr/local/bin']
  const found = folders.map((folder) => join(folder, 'nats-server')).find((path) => existsSync(path))
  if (found === undefined) throw new Error('nats-server is not installed: these tests need the real one')
  return found
}

export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(0, '127.0.0.1', resolve))
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  if (address === null || typeof address === 'string') throw new Error('no free port')
  return address.port
}

/** True once the server greets a connection. */
function greets(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1', timeout: 1_000 })
    const end = (answer: boolean) => {
      socket.destroy()
      resolve(answer)
    }
    socket.once('data', (data) => end(data.toString().startsWith('INFO')))
    socket.once('error', () => end(false))
    socket.once('timeout', () => end(false))
    socket.once('close', () => end(false))
  })
}

/** True once every thread of a process is stopped. */
async function isStopped(pid: number): Promise<boolean> {
  for (const thread of await readdir(`/proc/${pid}/task`)) {
    // A thread that ended meanwhile has no state: look again.
    const stat = await readFile(`/proc/${pid}/task/${thread}/stat`, 'utf8').catch(() => '')
    // The state follows the program's name, which stands in parentheses and may hold anything.
    if (stat[stat.lastIndexOf(')') + 2] !== 'T') return false
  }
  return true
}

async function waitReady(port: number, child: ChildProcess, output: () => string): Promise<void> {
  const untilMs = systemClock.monotonicMs() + readyWithinMs
  while (!(await greets(port))) {
    if (child.exitCode !== null) throw new Error(`nats-server ended with ${child.exitCode}:\n${output()}`)
    if (systemClock.monotonicMs() > untilMs) throw new Error(`nats-server was not ready in time:\n${output()}`)
    await systemClock.sleep(20)
  }
}

export async function startNats(
  options: { jetstream?: boolean; port?: number; storeDir?: string } = {},
): Promise<NatsServer> {
  const binary = findNatsServer()
  const port = options.port ?? (await freePort())
  const storeDir = options.storeDir ?? (await mkdtemp(join(tmpdir(), 'bellwether-nats-')))
  const flags = [
    '-a',
    '127.0.0.1',
    '-p',
    String(port),
    ...(options.jetstream === false ? [] : ['-js', '-sd', storeDir]),
  ]
  let child: ChildProcess | undefined

  async function start(): Promise<void> {
    const started = spawn(binary, flags, { stdio: ['ignore', 'ignore', 'pipe'] })
    let text = ''
    started.stderr.on('data', (data: Buffer) => {
      text = (text + data.toString()).slice(-4_000)
    })
    child = started
    await waitReady(port, started, () => text)
  }

  async function end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    const ending = child
    if (ending === undefined || ending.exitCode !== null || ending.signalCode !== null) return
    const gone = new Promise((resolve) => ending.once('exit', resolve))
    ending.kill(signal)
    // A test that failed while the server was frozen must not leave a process that cannot end.
    ending.kill('SIGCONT')
    await gone
  }

  await start()
  return {
    url: `nats://127.0.0.1:${port}`,
    port,
    kill: () => end('SIGKILL'),
    async restart() {
      await end('SIGKILL')
      await start()
    },
    async freeze() {
      const frozen = child
      if (frozen?.pid === undefined) throw new Error('no nats-server to freeze')
      const { pid } = frozen
      frozen.kill('SIGSTOP')
      await until('the server frozen', async () => (await isStopped(pid)) || undefined)
    },
    thaw: () => void child?.kill('SIGCONT'),
    async stop() {
      await end('SIGTERM')
      if (options.storeDir === undefined) await rm(storeDir, { recursive: true, force: true })
    },
  }
}

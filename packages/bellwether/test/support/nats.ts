/**
 * Runs a real nats-server on a free port with its own store. `kill` sends SIGKILL; `restart` keeps port and store, so that clients
 * reconnect to the same server.
 */
import type { ChildProcess } from 'node:child_process'
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { environment, systemClock } from '@bellwether/base'
import { until } from './until.js'

export interface NatsServer {
  readonly url: string
  readonly port: number
  /** Ends the server and removes its store, unless the caller provided the store. */
  stop(): Promise<void>
  /** Sends SIGKILL: the server neither notifies clients nor flushes its store. */
  kill(): Promise<void>
  restart(): Promise<void>
  /** Resolves when all threads are stopped; after SIGSTOP alone they may still answer. */
  freeze(): Promise<void>
  thaw(): void
}

const readyWithinMs = 120_000

function findNatsServer(): string {
  const folders = [...(environment()['PATH'] ?? '').split(delimiter), '/usr/sbin', '/usr/local/bin']
  const found = folders.map((folder) => join(folder, 'nats-server')).find((path) => existsSync(path))
  if (found === undefined) throw new Error('nats-server is not installed; these tests need it')
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

/** Whether the server answers a connection with INFO. */
function isReady(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1', timeout: 1_000 })
    const end = (ready: boolean) => {
      socket.destroy()
      resolve(ready)
    }
    socket.once('data', (data) => end(data.toString().startsWith('INFO')))
    socket.once('error', () => end(false))
    socket.once('timeout', () => end(false))
    socket.once('close', () => end(false))
  })
}

/** Whether every thread of the process is stopped. */
async function isStopped(pid: number): Promise<boolean> {
  for (const thread of await readdir(`/proc/${pid}/task`)) {
    // An ended thread has no state; check again.
    const stat = await readFile(`/proc/${pid}/task/${thread}/stat`, 'utf8').catch(() => '')
    // The state follows the program's name, which is in parentheses and may contain anything.
    if (stat[stat.lastIndexOf(')') + 2] !== 'T') return false
  }
  return true
}

async function waitReady(port: number, child: ChildProcess, output: () => string): Promise<void> {
  const untilMs = systemClock.monotonicMs() + readyWithinMs
  while (!(await isReady(port))) {
    if (child.exitCode !== null) throw new Error(`nats-server ended with ${child.exitCode}:\n${output()}`)
    if (systemClock.monotonicMs() > untilMs) throw new Error(`nats-server was not ready in time:\n${output()}`)
    await systemClock.sleep(20)
  }
}

export async function startNats(
  options: { jetstream?: boolean; port?: number; storeDir?: string; flags?: readonly string[] } = {},
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
    ...(options.flags ?? []),
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
    // A failed test may leave the server frozen, and a frozen process cannot end.
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
      await until('the server is frozen', async () => (await isStopped(pid)) || undefined)
    },
    thaw: () => void child?.kill('SIGCONT'),
    async stop() {
      await end('SIGTERM')
      if (options.storeDir === undefined) await rm(storeDir, { recursive: true, force: true })
    },
  }
}

/**
 * Starts this program again as a child process. A child holds the other end of a pipe from its parent, so it exits if the parent
 * dies in any way; and it has its own process group, so that Ctrl-C reaches only the parent, which stops its children in order.
 * Restarting is the supervisor's task.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import { aborted, defined, type Environment, systemClock } from '@bellwether/base'
import { Terminal } from '@bellwether/protocol'
import { withTimeout } from '../../ports/retry.js'

export interface ChildExit {
  readonly code: number | null
  readonly signal: string | null
}

export interface Child {
  readonly role: string
  readonly pid: number
  /** The fields of its ready line. */
  readonly facts: Readonly<Record<string, unknown>>
  readonly ended: Promise<ChildExit>
  alive(): boolean
  /** Sends SIGKILL. */
  kill(): void
  /** Sends SIGTERM, then SIGKILL after `graceMs`. `hurry`: closes the pipe instead, so that the child does not drain. */
  stop(hurry?: boolean, graceMs?: number): Promise<void>
}

export interface ChildOptions {
  /** The arguments of node: its flags and the script of the command line. */
  readonly program: readonly string[]
  readonly env: Environment
  /** More variables, sent over a pipe: other processes can read the environment of a start in /proc. */
  readonly secrets?: Environment
  readonly folder: string
  /** The file that stderr is appended to. Default: the stderr of this process. */
  readonly logFile?: string
  /** Ends the wait for a child that is still starting. */
  readonly signal?: AbortSignal
}

const readyMs = 30_000
const secretsFd = 3
const stopMs = 8_000

export async function startChild(options: ChildOptions, role: string, args: readonly string[]): Promise<Child> {
  const log = options.logFile === undefined ? undefined : openSync(options.logFile, 'a')
  const { secrets } = options
  const flags = ['--json', '--parent-pipe', ...(secrets === undefined ? [] : ['--environment-fd', String(secretsFd)])]
  const child = spawn(process.execPath, [...options.program, role, ...args, ...flags], {
    cwd: options.folder,
    env: options.env,
    stdio: ['pipe', 'pipe', log ?? 'inherit', ...(secrets === undefined ? [] : (['pipe'] as const))],
    detached: true,
  })
  if (log !== undefined) closeSync(log)
  child.stdin?.on('error', () => undefined) // EPIPE after its exit, which `ended` reports
  if (secrets !== undefined) send(child.stdio[secretsFd], secrets)
  const ended = new Promise<ChildExit>((resolve) => {
    child.once('exit', (code, signal) => resolve({ code, signal }))
    child.once('error', () => resolve({ code: null, signal: null }))
  })
  const alive = () => child.exitCode === null && child.signalCode === null
  const started = {
    role,
    pid: child.pid ?? 0,
    ended,
    alive,
    kill: () => void child.kill('SIGKILL'),
    async stop(hurry = false, graceMs = stopMs) {
      if (!alive()) return
      if (hurry) child.stdin?.end()
      else child.kill('SIGTERM')
      const gone = new AbortController()
      void ended.then(() => gone.abort())
      await systemClock.sleep(graceMs, gone.signal)
      if (alive()) child.kill('SIGKILL')
      await ended
    },
  }
  try {
    const facts = await withTimeout(systemClock, readyMs, `starting ${role}`, readyLine(child, ended, options, role))
    return { ...started, facts }
  } catch (error) {
    started.kill()
    throw error
  }
}

function send(pipe: ChildProcess['stdio'][number] | undefined, values: Environment): void {
  if (!(pipe instanceof Writable)) return // the process did not start, which `ended` reports
  pipe.on('error', () => undefined) // EPIPE, likewise
  pipe.end(JSON.stringify(values))
}

async function readyLine(
  child: ChildProcess,
  ended: Promise<unknown>,
  { logFile, signal }: ChildOptions,
  role: string,
): Promise<Record<string, unknown>> {
  const lines = createInterface({ input: child.stdout! })
  const line = await Promise.race([
    new Promise<string>((resolve) => lines.once('line', resolve)),
    ended.then(() => undefined),
    ...(signal === undefined ? [] : [aborted(signal).then(() => undefined)]),
  ])
  if (line === undefined) {
    throw new Terminal(`The ${role} process ended before it was ready`, {
      code: 'child_failed',
      ...defined({ hint: logFile && `read its log: ${logFile}` }),
    })
  }
  return JSON.parse(line) as Record<string, unknown>
}

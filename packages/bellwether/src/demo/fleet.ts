/**
 * The demo's child processes: real ones, of this same program. Always: each holds the other end of a pipe from us, so that
 * they go when we go, however we die; each has its own group, so that Ctrl-C reaches us alone and we stop them in order.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { Terminal } from '@bellwether/protocol'
import { within } from '../ports/link.js'
import { systemClock } from '../ports/clock.js'

export interface Member {
  readonly role: 'worker' | 'pmo'
  readonly pid: number
  /** The id under which a worker claims; empty for a PMO. */
  readonly workerId: string
  readonly ended: Promise<{ readonly code: number | null; readonly signal: string | null }>
  alive(): boolean
  /** SIGKILL: no farewell. */
  kill(): void
  /** SIGTERM, and SIGKILL when that is not enough. `hurry`: the pipe is closed instead, and what runs is not waited for. */
  stop(hurry?: boolean): Promise<void>
}

export interface FleetOptions {
  /** What node runs: its flags and the script of the command line. */
  readonly program: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  readonly folder: string
  readonly logFile: string
}

const readyMs = 30_000
const stopMs = 8_000

export async function startMember(
  options: FleetOptions,
  role: 'worker' | 'pmo',
  words: readonly string[],
): Promise<Member> {
  const log = openSync(options.logFile, 'a')
  const child = spawn(process.execPath, [...options.program, role, ...words, '--json', '--parent-pipe'], {
    cwd: options.folder,
    env: options.env,
    stdio: ['pipe', 'pipe', log],
    detached: true,
  })
  closeSync(log)
  child.stdin?.on('error', () => undefined) // EPIPE once it is gone; its exit is what tells
  const ended = new Promise<{ code: number | null; signal: string | null }>((resolve) => {
    child.once('exit', (code, signal) => resolve({ code, signal }))
    child.once('error', () => resolve({ code: null, signal: null }))
  })
  const alive = () => child.exitCode === null && child.signalCode === null
  const member = {
    role,
    pid: child.pid ?? 0,
    ended,
    alive,
    kill: () => void child.kill('SIGKILL'),
    async stop(hurry = false) {
      if (!alive()) return
      if (hurry) child.stdin?.end()
      else child.kill('SIGTERM')
      const gone = new AbortController()
      void ended.then(() => gone.abort())
      await systemClock.sleep(stopMs, gone.signal)
      if (alive()) child.kill('SIGKILL')
      await ended
    },
  }
  try {
    const facts = await within(
      systemClock,
      readyMs,
      `starting a ${role}`,
      readyLine(child, ended, options.logFile, role),
    )
    return { ...member, workerId: typeof facts['worker_id'] === 'string' ? facts['worker_id'] : '' }
  } catch (error) {
    member.kill()
    throw error
  }
}

async function readyLine(
  child: ChildProcess,
  ended: Promise<unknown>,
  logFile: string,
  role: string,
): Promise<Record<string, unknown>> {
  const lines = createInterface({ input: child.stdout! })
  const line = await Promise.race([
    new Promise<string>((resolve) => lines.once('line', resolve)),
    ended.then(() => undefined),
  ])
  if (line === undefined) {
    throw new Terminal(`a ${role} ended before it was ready`, {
      code: 'member_failed',
      hint: `its log is in ${logFile}`,
    })
  }
  return JSON.parse(line) as Record<string, unknown>
}

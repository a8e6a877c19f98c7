/**
 * Child processes of this same program. Always: each holds the other end of a pipe from us, so that they go when we go,
 * however we die; each has its own group, so that Ctrl-C reaches us alone and we stop them in order. Starting one again is
 * left to whoever wants it again.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { systemClock } from '@bellwether/base'
import { Terminal } from '@bellwether/protocol'
import { withTimeout } from '../ports/retry.js'

export interface Ended {
  readonly code: number | null
  readonly signal: string | null
}

export interface Member {
  readonly role: string
  readonly pid: number
  /** What it said when it was ready. */
  readonly facts: Readonly<Record<string, unknown>>
  readonly ended: Promise<Ended>
  alive(): boolean
  /** SIGKILL: no farewell. */
  kill(): void
  /** SIGTERM, and SIGKILL when that is not enough. `hurry`: the pipe is closed instead, and what runs is not waited for. */
  stop(hurry?: boolean, graceMs?: number): Promise<void>
}

export interface MemberOptions {
  /** What node runs: its flags and the script of the command line. */
  readonly program: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  readonly folder: string
  /** What they write to stderr is appended here; absent: it goes where ours goes. */
  readonly logFile?: string
  /** Ends the wait for a member that is still starting. */
  readonly signal?: AbortSignal
}

const readyMs = 30_000
const stopMs = 8_000

export async function startMember(options: MemberOptions, role: string, words: readonly string[]): Promise<Member> {
  const log = options.logFile === undefined ? undefined : openSync(options.logFile, 'a')
  const child = spawn(process.execPath, [...options.program, role, ...words, '--json', '--parent-pipe'], {
    cwd: options.folder,
    env: options.env,
    stdio: ['pipe', 'pipe', log ?? 'inherit'],
    detached: true,
  })
  if (log !== undefined) closeSync(log)
  child.stdin?.on('error', () => undefined) // EPIPE once it is gone; its exit is what tells
  const ended = new Promise<Ended>((resolve) => {
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
    return { ...member, facts }
  } catch (error) {
    member.kill()
    throw error
  }
}

async function readyLine(
  child: ChildProcess,
  ended: Promise<unknown>,
  { logFile, signal }: MemberOptions,
  role: string,
): Promise<Record<string, unknown>> {
  const lines = createInterface({ input: child.stdout! })
  const line = await Promise.race([
    new Promise<string>((resolve) => lines.once('line', resolve)),
    ended.then(() => undefined),
    new Promise<undefined>((resolve) => signal?.addEventListener('abort', () => resolve(undefined), { once: true })),
  ])
  if (line === undefined) {
    throw new Terminal(`${role} ended before it was ready`, {
      code: 'member_failed',
      ...(logFile === undefined ? {} : { hint: `its log is in ${logFile}` }),
    })
  }
  return JSON.parse(line) as Record<string, unknown>
}

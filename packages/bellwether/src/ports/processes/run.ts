/**
 * Starts a program as the leader of its own session, with its prompt on stdin, and tells how it ended. Always: what it writes is
 * handed on as it comes and never kept here; what could not be started is a result too. Ending it and its descendants is
 * left to endFamily.
 */
import { spawn } from 'node:child_process'
import { closeSync, openSync, unlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Clock, errorMessage } from '@bellwether/base'

export interface Launch {
  readonly command: readonly string[]
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  readonly stdin: string
  /** Names the file that stdin is read from, for the moment that it has a name. */
  readonly name: string
  readonly onOutput: (stream: 'stdout' | 'stderr', chunk: Buffer) => void
}

export type Exit =
  | { readonly how: 'exited'; readonly code: number }
  | { readonly how: 'signalled'; readonly signal: string }
  | { readonly how: 'not_started'; readonly code: string; readonly message: string }

export interface Launched {
  readonly pid: number | undefined
  readonly exit: Promise<Exit>
  /** Waits for its outputs to close, which descendants may hold open; then lets go of them. */
  drain(clock: Clock, maxMs: number): Promise<void>
}

export function launch({ command, cwd, env, stdin, name, onOutput }: Launch): Launched {
  const [program, ...args] = command
  const refused = (why: unknown): Launched => ({
    pid: undefined,
    exit: Promise.resolve(notStarted(why)),
    drain: () => Promise.resolve(),
  })
  if (program === undefined || program === '') return refused(new Error('there is no program to run'))
  let child
  let prompt: number | undefined
  try {
    prompt = spool(stdin, name)
    child = spawn(program, args, { cwd, env, detached: true, stdio: [prompt, 'pipe', 'pipe'] })
  } catch (error) {
    return refused(error)
  } finally {
    if (prompt !== undefined) closeSync(prompt)
  }
  child.stdout?.on('data', (chunk: Buffer) => onOutput('stdout', chunk))
  child.stderr?.on('data', (chunk: Buffer) => onOutput('stderr', chunk))
  const exit = new Promise<Exit>((resolve) => {
    child.once('error', (error) => {
      if (child.pid === undefined) resolve(notStarted(error))
    })
    child.once('exit', (code, signal) => {
      resolve(code === null ? { how: 'signalled', signal: signal ?? 'unknown' } : { how: 'exited', code })
    })
  })
  const closed = new Promise<void>((resolve) => child.once('close', () => resolve()))
  return {
    pid: child.pid,
    exit,
    async drain(clock, maxMs) {
      const over = new AbortController()
      await Promise.race([closed, clock.sleep(maxMs, over.signal)])
      over.abort()
      for (const stream of [child.stdout, child.stderr]) stream?.destroy()
    },
  }
}

/** The prompt as an open file that nobody else can open: what a program reads as it likes, also by way of /dev/stdin. */
function spool(text: string, name: string): number {
  const path = join(tmpdir(), `bellwether-${name}.prompt`)
  writeFileSync(path, text, { mode: 0o600, flag: 'wx' })
  try {
    return openSync(path, 'r')
  } finally {
    unlinkSync(path)
  }
}

function notStarted(error: unknown): Exit {
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown'
  return { how: 'not_started', code, message: errorMessage(error) }
}

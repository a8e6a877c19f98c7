/**
 * Starts a program as the leader of its own session, with its prompt on stdin, and reports how it ended. Output goes to the
 * caller as it arrives. A program that cannot start is a result, not an error. killTree ends the program and its descendants.
 */
import { spawn } from 'node:child_process'
import { closeSync, openSync, unlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Clock, errorMessage } from '@bellwether/base'
import { inCgroup } from './cgroup.js'

export interface Launch {
  readonly command: readonly string[]
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  readonly stdin: string
  /** The turn's token, which names its cgroup. */
  readonly token: string
  /** Part of the name of the temporary file for stdin. */
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
  /** Waits until the outputs close (descendants may keep them open), at most `maxMs`; then closes them. */
  drain(clock: Clock, maxMs: number): Promise<void>
}

export function launch({ command, cwd, env, stdin, token, name, onOutput }: Launch): Launched {
  const [program, ...args] = command
  const failed = (why: unknown): Launched => ({
    pid: undefined,
    exit: Promise.resolve(notStarted(why)),
    drain: () => Promise.resolve(),
  })
  if (program === undefined || program === '') return failed(new Error('The command is empty'))
  let child
  let prompt: number | undefined
  try {
    prompt = spool(stdin, name)
    const [first, ...rest] = inCgroup(token, [program, ...args], { cwd, path: env['PATH'] })
    child = spawn(first, rest, { cwd, env, detached: true, stdio: [prompt, 'pipe', 'pipe'] })
  } catch (error) {
    return failed(error)
  } finally {
    if (prompt !== undefined) closeSync(prompt)
  }
  child.stdout?.on('data', (chunk: Buffer) => onOutput('stdout', chunk))
  child.stderr?.on('data', (chunk: Buffer) => onOutput('stderr', chunk))
  const exit = new Promise<Exit>((resolve) => {
    // Not `once`: a second error event without a listener would end this process.
    child.on('error', (error) => {
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

/** The prompt as an open, already deleted file: the program can read it in any way, also through /dev/stdin. */
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

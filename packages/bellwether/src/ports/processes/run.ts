/**
 * Starts a program as the leader of its own session, with its prompt on stdin, and reports how it ended. Output goes to the
 * caller as it arrives. A program that cannot start is a result, not an error. killTree ends the program and its descendants.
 */
import { closeSync, openSync, unlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Clock } from '@bellwether/base'
import { notStarted, spawnContained, type Contained, type Exit } from './contain.js'

export interface Launch {
  readonly command: readonly string[]
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  readonly stdin: string
  /** Keeps stdin open after the text: `write` adds to it, and `endInput` closes it. */
  readonly streams?: boolean | undefined
  /** The turn's token, which names its cgroup. */
  readonly token: string
  /** Part of the name of the temporary file for stdin. */
  readonly name: string
  readonly onOutput: (stream: 'stdout' | 'stderr', chunk: Buffer) => void
  /** Opens a channel for messages (structured clones) with a Node program. */
  readonly onMessage?: ((message: unknown, handle?: unknown) => void) | undefined
}

export interface Launched {
  readonly pid: number | undefined
  readonly exit: Promise<Exit>
  /** Waits until the outputs close (descendants may keep them open), at most `maxMs`; then closes them. */
  drain(clock: Clock, maxMs: number): Promise<void>
  /** Has no effect after the program has ended, or without `onMessage`. */
  send(message: object): void
  /** Have no effect after the program has ended, or without `streams`. */
  write(text: string): void
  endInput(): void
}

export function launch({ command, cwd, env, stdin, streams, token, name, onOutput, onMessage }: Launch): Launched {
  const [program, ...args] = command
  const failed = (why: unknown): Launched => ({
    pid: undefined,
    exit: Promise.resolve(notStarted(why)),
    drain: () => Promise.resolve(),
    send: () => undefined,
    write: () => undefined,
    endInput: () => undefined,
  })
  if (program === undefined || program === '') return failed(new Error('The command is empty'))
  let started: Contained
  let prompt: number | undefined
  try {
    if (streams !== true) prompt = spool(stdin, name)
    const input = prompt ?? 'pipe'
    started = spawnContained([program, ...args], { cwd, env, stdin: input, token, messages: onMessage !== undefined })
  } catch (error) {
    return failed(error)
  } finally {
    if (prompt !== undefined) closeSync(prompt)
  }
  const { child, exit } = started
  const input = child.stdin
  // EPIPE after it has ended; the exit reports that.
  input?.on('error', () => undefined)
  input?.write(stdin)
  child.stdout?.on('data', (chunk: Buffer) => onOutput('stdout', chunk))
  child.stderr?.on('data', (chunk: Buffer) => onOutput('stderr', chunk))
  if (onMessage !== undefined) child.on('message', onMessage)
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
    send(message) {
      // EPIPE after it has ended; the exit reports that.
      if (child.connected) child.send(message, () => undefined)
    },
    write: (text) => void (input?.writable === true && input.write(text)),
    endInput: () => void input?.end(),
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

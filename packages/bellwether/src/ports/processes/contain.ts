/**
 * Starts a program so that every process it creates can be found: in a cgroup of the turn, or else below a subreaper. A subreaper is a
 * shell that starts the program and becomes the parent of every descendant that loses its own parent (PR_SET_CHILD_SUBREAPER), so a
 * child that clears its environment and starts a session is still found by its chain of parents. The subreaper ends when it has no
 * descendants. On systems that offer neither, only the token in the environment identifies the processes.
 */
import { spawn, type ChildProcess, type StdioOptions } from 'node:child_process'
import { accessSync, constants, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { constants as system } from 'node:os'
import { resolve } from 'node:path'
import type { Readable } from 'node:stream'
import { errorMessage } from '@bellwether/base'
import { inCgroup } from './cgroup.js'
import { ownProgram } from '../search-path.js'
import { tokenName } from './token.js'

export type Exit =
  | { readonly how: 'exited'; readonly code: number }
  | { readonly how: 'signalled'; readonly signal: string }
  | { readonly how: 'not_started'; readonly code: string; readonly message: string }

export interface ContainOptions {
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  readonly stdin: number | 'pipe'
  /** The turn's token, which `env` contains too. It names the cgroup. */
  readonly token: string
  /** The program is a Node program that exchanges messages (structured clones). */
  readonly messages?: boolean
}

export interface Contained {
  readonly child: ChildProcess
  /** How the program ended. A subreaper may run longer, until the program's descendants have ended. */
  readonly exit: Promise<Exit>
}

// `env` reaches the subreaper under other names: NODE_OPTIONS and LD_PRELOAD are meant for the program, not for this node.
const envPrefix = '_'

// node has marked the inherited files as close-on-exec and ignores some signals; the program must get both as a spawn leaves them.
const becomeSubreaper = `const [koffi, ...args] = process.argv.slice(1)
const libc = require(koffi).load(null)
libc.func('int prctl(int, ulong, ulong, ulong, ulong)')(36, 1, 0, 0, 0)
const signal = libc.func('void *signal(int, intptr_t)')
for (let number = 1; number < 32; number += 1) signal(number, 0)
const fcntl = libc.func('int fcntl(int, int, int)')
for (let file = 0; file < 5; file += 1) fcntl(file, 2, 0)
const env = Object.entries(process.env).filter(([name]) => name.startsWith('${envPrefix}'))
libc.func('int execve(str, char **, char **)')(args[0], [...args, null], [...env.map((one) => one.join('=').slice(1)), null])
process.exit(126)`

// The shell reports the end of the program on file 3, because it must outlive the program: if it ended first, orphans would get
// another parent before the caller has found them. Its own messages (such as "Killed") are dropped. The trap lets it survive SIGTERM, and is
// not inherited by the program.
// File 4 is the program's channel for messages, if it has one.
const superviseProgram = () => `exec 5>&2 2> /dev/null
trap : TERM INT HUP QUIT
unset PWD OLDPWD
(exec "$@" 2>&5 3>&- 5>&-)
echo $? >&3
exec 3>&- 4>&- 5>&- < /dev/null > /dev/null
while left=; read -r left < /proc/$$/task/$$/children; [ -n "$left" ]; do '${ownProgram('sleep')}' 0.02; done`

// Node opens the channel that these variables name, and would take messages that are meant for the program.
const keepChannel = [
  '/usr/bin/env',
  ...['NODE_CHANNEL_FD', 'NODE_CHANNEL_SERIALIZATION_MODE'].flatMap((name) => ['-u', name]),
  `${envPrefix}NODE_CHANNEL_FD=4`,
  `${envPrefix}NODE_CHANNEL_SERIALIZATION_MODE=advanced`,
]

/** Throws if the operating system refuses to start a process; `exit` reports a program that cannot be run. */
export function spawnContained(command: readonly [string, ...string[]], options: ContainOptions): Contained {
  const { cwd, env, stdin, token, messages = false } = options
  // A program that cannot be run is started directly, so that the caller gets the error of the operating system.
  const runnable = isRunnable(command[0], cwd, env['PATH'] ?? '')
  const [program, ...args] = (runnable ? inCgroup(token, command) : undefined) ?? command
  const koffi = runnable && program === command[0] ? subreaperLibrary() : undefined
  if (koffi === undefined) {
    const stdio: StdioOptions = [stdin, 'pipe', 'pipe', ...(messages ? ['ipc' as const] : [])]
    const child = spawn(program, args, { cwd, env, detached: true, stdio, serialization: 'advanced' })
    return { child, exit: exitOf(child) }
  }
  const shell = ['/bin/sh', '-c', superviseProgram(), 'bellwether-subreaper', ...command]
  const stdio: StdioOptions = [stdin, 'pipe', 'pipe', 'pipe', ...(messages ? ['ipc' as const] : [])]
  const renamed = Object.fromEntries(Object.entries(env).map(([name, value]) => [`${envPrefix}${name}`, value]))
  const [first, ...rest] = [...(messages ? keepChannel : []), process.execPath, '-e', becomeSubreaper, '--', koffi]
  const child = spawn(first!, [...rest, ...shell], {
    cwd,
    env: { ...renamed, [tokenName]: token },
    detached: true,
    stdio,
    serialization: 'advanced',
  })
  const report = child.stdio[3] as Readable | undefined
  return { child, exit: Promise.race([exitOf(child), ...(report === undefined ? [] : [reportedBy(report)])]) }
}

function exitOf(child: ChildProcess): Promise<Exit> {
  return new Promise((resolve) => {
    // Not `once`: a second error event without a listener would end this process.
    child.on('error', (error) => {
      if (child.pid === undefined) resolve(notStarted(error))
    })
    child.once('exit', (code, signal) => {
      resolve(code === null ? { how: 'signalled', signal: signal ?? 'unknown' } : { how: 'exited', code })
    })
  })
}

/** Resolves with the line that the subreaper writes when the program has ended; never, if the subreaper was killed. */
function reportedBy(report: Readable): Promise<Exit> {
  return new Promise((resolve) => {
    report.on('error', () => undefined) // the exit event of the subreaper reports its end
    report.once('data', (chunk: Buffer) => {
      const code = Number(chunk.toString('latin1'))
      // A shell reports a signal as 128 + its number.
      const signal = Object.entries(system.signals).find(([, number]) => number === code - 128)?.[0]
      resolve(signal === undefined ? { how: 'exited', code } : { how: 'signalled', signal })
    })
  })
}

export function notStarted(error: unknown): Exit {
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown'
  return { how: 'not_started', code, message: errorMessage(error) }
}

let library: string | null | undefined

/** The path of koffi, if it works on this machine. */
function subreaperLibrary(): string | undefined {
  if (library === undefined) library = findLibrary() ?? null
  return library ?? undefined
}

function findLibrary(): string | undefined {
  if (process.platform !== 'linux') return undefined
  const require = createRequire(import.meta.url)
  try {
    require('koffi')
    return require.resolve('koffi')
  } catch {
    return undefined // not installed, or without binaries for this machine
  }
}

function isRunnable(program: string, cwd: string, path: string): boolean {
  const folders = program.includes('/') ? [''] : path.split(':')
  return folders.some((folder) => {
    try {
      const file = resolve(cwd, folder, program)
      accessSync(file, constants.X_OK)
      return statSync(file).isFile()
    } catch {
      return false // not in this folder
    }
  })
}

/**
 * Runs one command and reports how it ended. The command runs in its own process group with a time limit, in a folder inside the
 * root, with only the allowed environment; its captured output is bounded. Afterwards its descendants are killed, as far as
 * their process group or environment identifies them. Never throws: a command that cannot run is a result.
 */
import { spawn } from 'node:child_process'
import { readFileSync, readdirSync, realpathSync, statSync } from 'node:fs'
import { isAbsolute, join, relative, resolve, sep } from 'node:path'
import { type Clock, defined, environment, errorMessage, onAbort } from '@bellwether/base'
import type { Ids } from '../ids.js'

export interface CommandRequest {
  /** One line for /bin/sh, or a program with its arguments. */
  readonly command: string | readonly string[]
  readonly root: string
  /** Inside the root; default: the root. */
  readonly cwd?: string
  readonly timeoutMs: number
  /** Names of further environment variables that it may read. */
  readonly environment?: readonly string[]
  readonly signal?: AbortSignal
}

export interface CommandResult {
  /** null: a signal ended it, or it never started. */
  readonly exitCode: number | null
  readonly signal: string | null
  readonly timedOut: boolean
  readonly durationMs: number
  /** The last bytes of stdout and stderr together. */
  readonly output: string
  /** Why it could not run. */
  readonly failure?: string
}

// Enough for the end of a test report; more would fill the log.
const outputMaxBytes = 16_384
// The time between SIGTERM and SIGKILL, and the time for descendants to close the outputs.
const graceMs = 2_000
// A Node timer with a longer delay fires at once.
const timerMaxMs = 2 ** 31 - 1
// A process that is forked during a round is found in the next one.
const roundsMax = 5
const usual = 'PATH HOME USER LOGNAME SHELL LANG LC_ALL LC_CTYPE TZ TMPDIR TERM'.split(' ')
/** Identifies the descendants of a command, also those that left its process group. */
const tokenName = 'BELLWETHER_COMMAND'

function environmentOf(names: readonly string[], token: string): Record<string, string> {
  const env: Record<string, string> = { [tokenName]: token }
  for (const name of [...usual, ...names]) {
    const value = environment()[name]
    if (value !== undefined && name !== tokenName) env[name] = value
  }
  return env
}

/** The working directory with every symbolic link followed; undefined if it is outside the root or not a folder. */
function folderOf(root: string, cwd: string): string | undefined {
  const real = realpathSync(root)
  const folder = realpathSync(resolve(real, cwd))
  const way = relative(real, folder)
  const outside = isAbsolute(way) || way === '..' || way.startsWith(`..${sep}`)
  return outside || !statSync(folder).isDirectory() ? undefined : folder
}

const notRun = (failure: string): CommandResult => ({
  exitCode: null,
  signal: null,
  timedOut: false,
  durationMs: 0,
  output: '',
  failure,
})

/** Processes whose environment contains the token; on Linux only. */
function descendants(token: string): number[] {
  const found: number[] = []
  let names: string[]
  try {
    names = readdirSync('/proc')
  } catch {
    return found // without /proc only the process group is known
  }
  for (const name of names) {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) continue
    try {
      if (readFileSync(join('/proc', name, 'environ'), 'latin1').includes(`${tokenName}=${token}`))
        found.push(Number(name))
    } catch {
      continue // the process has ended, or belongs to another user
    }
  }
  return found
}

function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    // The process has ended, or belongs to another user.
    if (!(error instanceof Error && 'code' in error && (error.code === 'ESRCH' || error.code === 'EPERM'))) throw error
  }
}

/** Keeps the last bytes of the output. */
function makeTail(): { add(chunk: Buffer): void; text(): string } {
  let tail = Buffer.alloc(0)
  return {
    add(chunk) {
      const all = Buffer.concat([tail, chunk.subarray(-outputMaxBytes)])
      tail = Buffer.from(all.subarray(-outputMaxBytes))
    },
    text: () => tail.toString('utf8'),
  }
}

export async function runCommand(
  request: CommandRequest,
  { clock, ids }: { readonly clock: Clock; readonly ids: Ids },
): Promise<CommandResult> {
  const { command, signal } = request
  const timeoutMs = Math.min(request.timeoutMs, timerMaxMs)
  if (signal?.aborted === true) return notRun('the command was aborted')
  let folder: string | undefined
  try {
    folder = folderOf(request.root, request.cwd ?? '.')
  } catch (error) {
    return notRun(`cannot use the working directory: ${errorMessage(error)}`)
  }
  if (folder === undefined) return notRun('the working directory is outside the task root or not a folder')
  const [program, ...args] = typeof command === 'string' ? ['/bin/sh', '-c', command] : command
  if (program === undefined || program === '') return notRun('the command is empty')

  const token = ids.next()
  const startedMs = clock.monotonicMs()
  const tail = makeTail()
  let child
  try {
    child = spawn(program, args, {
      cwd: folder,
      env: environmentOf(request.environment ?? [], token),
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
  } catch (error) {
    return notRun(errorMessage(error))
  }
  const over = new AbortController()
  const gone = new AbortController()
  let settled = false
  let failure: string | undefined
  let timedOut = false
  child.stdout.on('data', (chunk: Buffer) => tail.add(chunk))
  child.stderr.on('data', (chunk: Buffer) => tail.add(chunk))
  const exited = new Promise<[number | null, NodeJS.Signals | null]>((resolve) => {
    // Not `once`: a second error event without a listener would end this process.
    child.on('error', (error) => {
      failure = errorMessage(error)
      resolve([null, null])
    })
    child.once('exit', (code, name) => resolve([code, name]))
  })
  const closed = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const end = (name: NodeJS.Signals) => {
    if (child.pid === undefined) return
    kill(-child.pid, name)
    for (let round = 0; round < roundsMax; round += 1) {
      const left = descendants(token)
      for (const pid of left) kill(pid, name)
      if (left.length === 0 || name !== 'SIGKILL') return
    }
  }
  const release = onAbort(signal, () => over.abort())
  const limit = clock.sleep(timeoutMs, over.signal).then(async () => {
    if (settled) return
    timedOut = signal?.aborted !== true
    if (!timedOut) failure = 'the command was aborted'
    end('SIGTERM')
    await clock.sleep(graceMs, gone.signal)
    if (!settled) end('SIGKILL')
  })
  const [exitCode, name] = await exited
  settled = true
  over.abort()
  gone.abort()
  release()
  await limit
  // Remaining descendants keep the outputs open and could still change files that are about to be checked.
  end('SIGKILL')
  const shut = new AbortController()
  await Promise.race([closed, clock.sleep(child.pid === undefined ? 0 : graceMs, shut.signal)])
  shut.abort()
  child.stdout.destroy()
  child.stderr.destroy()
  return {
    exitCode: timedOut || failure !== undefined ? null : exitCode,
    signal: name,
    timedOut,
    durationMs: clock.monotonicMs() - startedMs,
    output: tail.text(),
    ...defined({ failure }),
  }
}

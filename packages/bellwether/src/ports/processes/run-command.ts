/**
 * Runs one command to its end and tells how it ended. Always: it runs in its own process group with a time limit, in a folder
 * that cannot lie outside the root, with only the environment it was allowed; its output is kept to a bound; when it is over,
 * what it started is ended too, as far as its group or its environment tell. Never throws: what could not be run is a result.
 */
import { spawn } from 'node:child_process'
import { readFileSync, readdirSync, realpathSync, statSync } from 'node:fs'
import { isAbsolute, join, relative, resolve, sep } from 'node:path'
import { type Clock, environment, errorMessage } from '@bellwether/base'
import type { Ids } from '../ids.js'

export interface CommandRequest {
  /** One line for /bin/sh, or a program with its arguments. */
  readonly command: string | readonly string[]
  readonly root: string
  /** Inside the root; absent: the root. */
  readonly cwd?: string
  readonly timeoutMs: number
  /** Names of variables it may see beside the usual few. */
  readonly environment?: readonly string[]
  readonly signal?: AbortSignal
}

export interface CommandResult {
  /** null: it was ended by a signal, or never began. */
  readonly exitCode: number | null
  readonly signal: string | null
  readonly timedOut: boolean
  readonly durationMs: number
  /** The end of what it wrote, to both outputs. */
  readonly output: string
  /** Why it could not be run. */
  readonly failure?: string
}

// Enough for the end of a test run's report; the rest helps nobody and fills the log.
const outputMaxBytes = 16_384
// How long a command may take to heed SIGTERM, and its descendants to let go of its outputs.
const graceMs = 2_000
// A timer of Node that is set for longer fires at once.
const timerMaxMs = 2 ** 31 - 1
// Whoever is forked while the others are being ended is found in the next round.
const roundsMax = 5
const usual = 'PATH HOME USER LOGNAME SHELL LANG LC_ALL LC_CTYPE TZ TMPDIR TERM'.split(' ')
/** What a command's descendants are known by, also those that left its process group. */
const tokenName = 'BELLWETHER_COMMAND'

function environmentOf(names: readonly string[], token: string): Record<string, string> {
  const env: Record<string, string> = { [tokenName]: token }
  for (const name of [...usual, ...names]) {
    const value = environment()[name]
    if (value !== undefined && name !== tokenName) env[name] = value
  }
  return env
}

/** The folder to run in, with every symbolic link followed; undefined: it lies outside the root or is no folder. */
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

/** Processes whose environment holds the token: found on Linux only, where it can be read. */
function descendants(token: string): number[] {
  const found: number[] = []
  let names: string[]
  try {
    names = readdirSync('/proc')
  } catch {
    return found // no /proc on this system: the process group is all there is to go by
  }
  for (const name of names) {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) continue
    try {
      if (readFileSync(join('/proc', name, 'environ'), 'latin1').includes(`${tokenName}=${token}`))
        found.push(Number(name))
    } catch {
      continue // ended meanwhile, or another user's: neither is ours to end
    }
  }
  return found
}

function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    // Already gone is what was wanted; any other refusal leaves nothing that could be done here.
    if (!(error instanceof Error && 'code' in error && (error.code === 'ESRCH' || error.code === 'EPERM'))) throw error
  }
}

/** Keeps the last bytes of all that is written to it. */
function makeTail(): { add(chunk: Buffer): void; text(): string } {
  let kept = Buffer.alloc(0)
  return {
    add(chunk) {
      const all = Buffer.concat([kept, chunk.subarray(-outputMaxBytes)])
      kept = Buffer.from(all.subarray(-outputMaxBytes))
    },
    text: () => kept.toString('utf8'),
  }
}

export async function runCommand(
  request: CommandRequest,
  { clock, ids }: { readonly clock: Clock; readonly ids: Ids },
): Promise<CommandResult> {
  const { command, signal } = request
  const timeoutMs = Math.min(request.timeoutMs, timerMaxMs)
  if (signal?.aborted === true) return notRun('it was called off')
  let folder: string | undefined
  try {
    folder = folderOf(request.root, request.cwd ?? '.')
  } catch (error) {
    return notRun(`its folder cannot be used: ${errorMessage(error)}`)
  }
  if (folder === undefined) return notRun('its folder is outside the task root, or is none')
  const [program, ...args] = typeof command === 'string' ? ['/bin/sh', '-c', command] : command
  if (program === undefined || program === '') return notRun('there is no program to run')

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
    // Not once: an error that nobody listens to would end this process.
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
  const callOff = () => over.abort()
  signal?.addEventListener('abort', callOff, { once: true })
  const limit = clock.sleep(timeoutMs, over.signal).then(async () => {
    if (settled) return
    timedOut = signal?.aborted !== true
    if (!timedOut) failure = 'it was called off'
    end('SIGTERM')
    await clock.sleep(graceMs, gone.signal)
    if (!settled) end('SIGKILL')
  })
  const [exitCode, name] = await exited
  settled = true
  over.abort()
  gone.abort()
  signal?.removeEventListener('abort', callOff)
  await limit
  // What it left behind holds its outputs open, and would go on working on what has been judged.
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
    ...(failure === undefined ? {} : { failure }),
  }
}

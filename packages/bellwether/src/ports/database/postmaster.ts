/**
 * Finds, watches and stops a postmaster. A pid alone is not trusted: a postmaster is a live process with the recorded start
 * time that runs `postgres` with this cluster's folder as its working directory. No other process is signalled. launch.ts starts
 * a postmaster; adopt.ts verifies its identity over SQL.
 */
import { readFile, readlink, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { poll, systemClock } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import { readIfExists } from './cluster.js'
import { runProgram } from './program.js'

export interface PidFile {
  readonly pid: number
  readonly port: number
  /** 'starting', 'ready', 'stopping' or 'standby'; empty while the server writes the file. */
  readonly status: string
}

export interface Postmaster {
  readonly pid: number
  readonly port: number
  /** Resolves with the reason when the process has ended. */
  readonly exited: Promise<string>
  /** Sends the signal if this is still the same process. */
  signal(name: NodeJS.Signals): Promise<void>
}

const fastMs = 30_000
const immediateMs = 10_000

export async function readPidFile(cluster: string): Promise<PidFile | undefined> {
  const text = await readIfExists(join(cluster, 'postmaster.pid'))
  const [pid, , , port, , , , status] = (text ?? '').split('\n')
  if (!Number(pid)) return undefined
  return { pid: Math.abs(Number(pid)), port: Number(port), status: status?.trim() ?? '' }
}

export interface FoundPostmaster {
  /** Distinguishes this process from a later one with the same pid. */
  readonly start: string
  /** Known on Linux only. */
  readonly exe: string | undefined
}

/** The process behind `pid`, if it is the postmaster of this cluster. */
export async function findPostmaster(pid: number, cluster: string): Promise<FoundPostmaster | undefined> {
  const start = await processStart(pid)
  if (start === undefined) return undefined
  if (process.platform !== 'linux') {
    const ran = await runProgram('ps', ['-o', 'command=', '-p', String(pid)], { timeoutMs: 5_000 })
    return ran.stdout.includes('postgres') && ran.stdout.includes(cluster)
      ? { start: start, exe: undefined }
      : undefined
  }
  try {
    const [args, cwd, exe, folder] = await Promise.all([
      readFile(`/proc/${pid}/cmdline`, 'utf8'),
      readlink(`/proc/${pid}/cwd`),
      readlink(`/proc/${pid}/exe`),
      realpath(cluster),
    ])
    // The backends have the same working directory; only the postmaster keeps its original arguments.
    return cwd === folder && args.split('\0')[1] === '-D' ? { start: start, exe } : undefined
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    // The process has ended, or belongs to another user and so is not our server.
    if (code === 'ENOENT' || code === 'ESRCH' || code === 'EACCES' || code === 'EPERM') return undefined
    throw error
  }
}

/** The start time of the process; undefined if it has ended or is a zombie. */
export async function processStart(pid: number): Promise<string | undefined> {
  if (process.platform !== 'linux') {
    const ran = await runProgram('ps', ['-o', 'state=,lstart=', '-p', String(pid)], { timeoutMs: 5_000 })
    return ran.ok && !ran.stdout.trim().startsWith('Z') ? ran.stdout.trim().slice(2) : undefined
  }
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ESRCH') return ''
    throw error
  })
  // The name, in parentheses, may contain spaces; the fields after it do not.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return text === '' || fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19]
}

/** Watches a postmaster that another process started: there is no exit event, so its pid is polled twice per second. */
export function watchPostmaster(pid: number, port: number, start: string): Postmaster {
  let timer: NodeJS.Timeout | undefined
  const exited = new Promise<string>((resolve) => {
    const check = async () => {
      const now = await processStart(pid).catch(() => start) // a failed read does not mean that it has ended
      if (now !== start) return resolve('the process has ended')
      timer = setTimeout(() => void check(), 500)
      timer.unref()
    }
    void check()
  })
  return {
    pid,
    port,
    exited,
    signal: async (name) => {
      if ((await processStart(pid)) === start) process.kill(pid, name)
    },
  }
}

/** Fast shutdown (SIGINT), then immediate shutdown without a checkpoint (SIGQUIT), then SIGKILL. */
export async function stopPostmaster(postmaster: Postmaster): Promise<void> {
  let gone = false
  void postmaster.exited.then(() => (gone = true))
  for (const [name, withinMs] of [
    ['SIGINT', fastMs],
    ['SIGQUIT', immediateMs],
    ['SIGKILL', immediateMs],
  ] as const) {
    await postmaster.signal(name)
    if (await poll(systemClock, { everyMs: 10, withinMs }, async () => gone || undefined)) return
  }
  throw new Retryable(`PostgreSQL (process ${postmaster.pid}) did not end after SIGKILL`, {
    code: 'postmaster_stuck',
    hint: 'It may be waiting for a disk that does not respond.',
  })
}

/**
 * Knowing, watching and ending a postmaster. A pid is never trusted alone: a postmaster is a live process that started
 * when we first saw it, runs `postgres` and stands in this cluster's folder. No signal is sent to anything less.
 * Starting one is launch.ts; asking it over SQL who it is, adopt.ts.
 */
import { readFile, readlink, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { Retryable } from '@bellwether/protocol'
import { readIfExists } from './cluster.js'
import { poll } from './poll.js'
import { runProgram } from './program.js'

export interface PidFile {
  readonly pid: number
  readonly port: number
  /** 'starting', 'ready', 'stopping' or 'standby'; empty while it is still being written. */
  readonly status: string
}

export interface Postmaster {
  readonly pid: number
  readonly port: number
  /** Resolves when the process is gone, with a few words on how. */
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
  /** Tells this process from a later one with the same pid. */
  readonly start: string
  /** Where /proc tells it. */
  readonly exe: string | undefined
}

/** The process behind `pid`, if it is the postmaster of this cluster. */
export async function findPostmaster(pid: number, cluster: string): Promise<FoundPostmaster | undefined> {
  const born = await processStart(pid)
  if (born === undefined) return undefined
  if (process.platform !== 'linux') {
    const asked = await runProgram('ps', ['-o', 'command=', '-p', String(pid)], { timeoutMs: 5_000 })
    return asked.stdout.includes('postgres') && asked.stdout.includes(cluster)
      ? { start: born, exe: undefined }
      : undefined
  }
  try {
    const [args, cwd, exe, folder] = await Promise.all([
      readFile(`/proc/${pid}/cmdline`, 'utf8'),
      readlink(`/proc/${pid}/cwd`),
      readlink(`/proc/${pid}/exe`),
      realpath(cluster),
    ])
    // The server and its children stand in the cluster's folder; only the postmaster still has its own arguments.
    return cwd === folder && args.split('\0')[1] === '-D' ? { start: born, exe } : undefined
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    // Gone meanwhile, or another user's process, which a server of ours never is.
    if (code === 'ENOENT' || code === 'ESRCH' || code === 'EACCES' || code === 'EPERM') return undefined
    throw error
  }
}

/** When the process was born; undefined when it is gone, or dead and merely not yet reaped. */
export async function processStart(pid: number): Promise<string | undefined> {
  if (process.platform !== 'linux') {
    const asked = await runProgram('ps', ['-o', 'state=,lstart=', '-p', String(pid)], { timeoutMs: 5_000 })
    return asked.ok && !asked.stdout.trim().startsWith('Z') ? asked.stdout.trim().slice(2) : undefined
  }
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ESRCH') return ''
    throw error
  })
  // The name, in parentheses, may hold spaces; the fields after it do not.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return text === '' || fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19]
}

/** A postmaster that somebody else started: no exit event comes, so its pid is looked at twice a second. */
export function watchPostmaster(pid: number, port: number, born: string): Postmaster {
  let timer: NodeJS.Timeout | undefined
  const exited = new Promise<string>((resolve) => {
    const look = async () => {
      const now = await processStart(pid).catch(() => born) // unreadable for a moment is not dead
      if (now !== born) return resolve('it is gone')
      timer = setTimeout(() => void look(), 500)
      timer.unref()
    }
    void look()
  })
  return {
    pid,
    port,
    exited,
    signal: async (name) => {
      if ((await processStart(pid)) === born) process.kill(pid, name)
    },
  }
}

/** Fast shutdown (a checkpoint, sessions cut), then without the checkpoint, then by force. Nothing is removed. */
export async function stopPostmaster(postmaster: Postmaster): Promise<void> {
  let gone = false
  void postmaster.exited.then(() => (gone = true))
  for (const [name, withinMs] of [
    ['SIGINT', fastMs],
    ['SIGQUIT', immediateMs],
    ['SIGKILL', immediateMs],
  ] as const) {
    await postmaster.signal(name)
    if (await poll({ everyMs: 10, withinMs }, async () => gone || undefined)) return
  }
  throw new Retryable(`PostgreSQL (process ${postmaster.pid}) does not end, not even by force`, {
    code: 'postmaster_stuck',
    hint: 'It may be waiting for a disk that does not answer.',
  })
}

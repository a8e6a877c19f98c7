/**
 * Locks a data folder for one process with flock(2). A small child process holds the lock and reads a pipe from this process:
 * if this process dies, the pipe closes, the child exits and the kernel releases the lock. The child has its own session, so Ctrl-C does
 * not reach it. If the process died without a release, the child leaves a script that stops the server of the folder, unless another
 * process has taken the lock by then: no server outlives its owner, and a restart soon after a crash still adopts it.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { hasCode, poll, systemClock } from '@bellwether/base'
import { Terminal } from '@bellwether/protocol'
import { writeOwnFile } from './own-file.js'
import { processStart } from './postmaster.js'

export interface FolderLock {
  /** Resolves if the child ends without `release`: another process may then take the lock. */
  readonly lost: Promise<void>
  release(): Promise<void>
}

export interface FolderLockOptions {
  /** The folder of the PostgreSQL cluster that the lock protects. Absent: there is none. */
  readonly cluster?: string
  /** How long the server of an owner that died waits for another owner. */
  readonly orphanMs?: number
}

const takeMs = 10_000
const inUse = 75
const defaultOrphanMs = 3_000
// An orphaned server stops within 5 s.
const stoppingMs = 15_000

// Runs under the lock. A process that has the cluster as its working directory is the server, not a later process with the same pid.
const stopServer = `cd "$0" && pid=$(head -n 1 postmaster.pid) && folder=$(pwd -P) && cd / || exit
runs() { [ "$(readlink "/proc/$pid/cwd")" = "$folder" ]; }
for signal in INT QUIT KILL; do
  runs || exit
  kill -CONT "$pid"
  kill -$signal "$pid"
  for step in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do runs && sleep 0.1; done
done`

// File 3 is the lock: what outlives the holder must not keep it. The script waits for the lock, which its holder may not have released yet. It
// opens the file itself, because flock would create it again in a folder that is being removed.
const hold = `echo held
read -r word
if [ "$word" != release ] && [ -n "$1" ]; then
  (sleep "$2"; exec 4< "$0" && flock -w 5 4 && exec sh -c "$3" "$1") 3>&- < /dev/null > /dev/null 2>&1 &
fi`

export async function takeFolderLock(path: string, options: FolderLockOptions = {}): Promise<FolderLock> {
  const first = await tryLock(path, options)
  if (first !== 'in use') return first
  // The server of an owner that died is being stopped: wait for that instead of reporting a process that does not exist.
  const later = await poll(systemClock, { everyMs: 100, withinMs: stoppingMs }, async () => {
    if (await ownerRuns(path)) return 'in use'
    const lock = await tryLock(path, options)
    return lock === 'in use' ? undefined : lock
  })
  if (later === undefined || later === 'in use') throw await folderInUse(path)
  return later
}

/** Takes a lock that protects no database. Undefined: another process has it. */
export async function tryFolderLock(path: string): Promise<FolderLock | undefined> {
  const lock = await tryLock(path, {})
  return lock === 'in use' ? undefined : lock
}

async function tryLock(
  path: string,
  { cluster = '', orphanMs = defaultOrphanMs }: FolderLockOptions,
): Promise<FolderLock | 'in use'> {
  const args = [path, cluster, String(orphanMs / 1_000), stopServer]
  const holder = spawn('flock', ['-n', '-E', String(inUse), path, 'sh', '-c', hold, ...args], {
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
    cwd: '/',
  })
  holder.stdin.on('error', () => undefined) // EPIPE after the child has ended; `close` reports the end
  holder.on('error', () => undefined) // `taken` reports it
  const ended = new Promise<void>((resolve) => holder.once('close', () => resolve()))
  if ((await taken(holder, path)) === 'in use') return 'in use'
  let releasing = false
  await writeOwnFile(path, `${JSON.stringify({ pid: process.pid, since: new Date().toISOString() })}\n`).catch(
    async (error: unknown) => {
      holder.stdin.end('release\n')
      await ended
      throw error
    },
  )
  return {
    lost: new Promise((resolve) => void ended.then(() => (releasing ? undefined : resolve()))),
    release: async () => {
      releasing = true
      holder.stdin.end('release\n')
      await ended
    },
  }
}

async function taken(holder: ChildProcess, path: string): Promise<'held' | 'in use'> {
  let stderr = ''
  holder.stderr?.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
  const timer = setTimeout(() => holder.kill('SIGKILL'), takeMs)
  try {
    const outcome = await Promise.race([
      once(holder.stdout!, 'data').then(() => 'held' as const),
      once(holder, 'close').then(([code]) => code as number | null),
    ])
    if (outcome === 'held') return outcome
    if (outcome === inUse) return 'in use'
    throw lockFailed(path, stderr.trim() || `flock ended with ${outcome}`)
  } catch (error) {
    if (hasCode(error, 'ENOENT')) throw flockMissing(error)
    throw error
  } finally {
    clearTimeout(timer)
  }
}

/** The process that the lock's file names; undefined while it is written, or if the file is gone or unreadable. */
async function ownerOf(path: string): Promise<number | undefined> {
  const text = await readFile(path, 'utf8').catch(() => '')
  const pid = /"pid":(\d+)/.exec(text)?.[1]
  return pid === undefined ? undefined : Number(pid)
}

async function ownerRuns(path: string): Promise<boolean> {
  const pid = await ownerOf(path)
  // A process that has just taken the lock has not written its pid yet.
  return pid === undefined || (await processStart(pid)) !== undefined
}

async function folderInUse(path: string): Promise<Terminal> {
  const holder = await ownerOf(path)
  return new Terminal(
    `Cannot lock "${path}": ${holder ? `process ${holder}` : 'a process that is just starting'} uses the database folder`,
    { code: 'folder_in_use', hint: 'Stop that process first, or choose another folder with --data DIR.' },
  )
}

function lockFailed(path: string, reason: string): Terminal {
  return new Terminal(`Cannot lock "${path}": ${reason}`, {
    code: 'folder_lock',
    hint: 'Check that the folder is writable and on a local disk.',
  })
}

function flockMissing(cause: unknown): Terminal {
  return new Terminal('Cannot lock the database folder: the program flock is missing', {
    code: 'flock_missing',
    cause,
    hint: 'Install util-linux (apt install util-linux; brew install flock), or set [database] url.',
  })
}

/**
 * Locks a data folder for one process with flock(2). A small child process holds the lock and reads a pipe from this process:
 * if this process dies, the pipe closes, the child exits and the kernel releases the lock. The file's text names the holder
 * for people only. The child has its own session, so Ctrl-C does not reach it.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { Terminal } from '@bellwether/protocol'

export interface FolderLock {
  /** Resolves if the child ends without `release`: another process may then take the lock. */
  readonly lost: Promise<void>
  release(): Promise<void>
}

const takeMs = 10_000
const inUse = 75

export async function takeFolderLock(path: string): Promise<FolderLock> {
  const holder = spawn('flock', ['-n', '-E', String(inUse), path, 'sh', '-c', 'echo held; exec cat >/dev/null'], {
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
    cwd: '/',
  })
  holder.stdin.on('error', () => undefined) // EPIPE after the child has ended; `close` reports the end
  holder.on('error', () => undefined) // `taken` reports it
  const ended = new Promise<void>((resolve) => holder.once('close', () => resolve()))
  await taken(holder, path)
  let releasing = false
  await writeFile(path, `${JSON.stringify({ pid: process.pid, since: new Date().toISOString() })}\n`).catch(
    async (error: unknown) => {
      holder.stdin.end()
      await ended
      throw error
    },
  )
  return {
    lost: new Promise((resolve) => void ended.then(() => (releasing ? undefined : resolve()))),
    release: async () => {
      releasing = true
      holder.stdin.end()
      await ended
    },
  }
}

async function taken(holder: ChildProcess, path: string): Promise<void> {
  let stderr = ''
  holder.stderr?.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
  const timer = setTimeout(() => holder.kill('SIGKILL'), takeMs)
  try {
    const outcome = await Promise.race([
      once(holder.stdout!, 'data').then(() => 'held' as const),
      once(holder, 'close').then(([code]) => code as number | null),
    ])
    if (outcome === 'held') return
    throw outcome === inUse ? await folderInUse(path) : lockFailed(path, stderr.trim() || `flock ended with ${outcome}`)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') throw flockMissing(error)
    throw error
  } finally {
    clearTimeout(timer)
  }
}

async function folderInUse(path: string): Promise<Terminal> {
  const text = await readFile(path, 'utf8').catch(() => '')
  const holder = /"pid":(\d+)/.exec(text)?.[1]
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

/**
 * One process at a time per data folder. The lock is the kernel's (flock), held by a small child whose input is a pipe
 * from us: however we die, the pipe closes, the child ends and the kernel lets go. The file's text (who holds it) is
 * for people; nothing is decided by it. The child has its own session, so that Ctrl-C reaches us and not it.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { Terminal } from '@bellwether/protocol'

export interface FolderLock {
  /** Resolves if the holder dies without `release`: from then on another process may enter. */
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
  holder.stdin.on('error', () => undefined) // EPIPE once the holder is gone; its exit is what tells
  holder.on('error', () => undefined) // told by `taken`, below
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
    `The database folder is in use by ${holder ? `process ${holder}` : 'a process that is just starting'} (${path})`,
    {
      code: 'folder_in_use',
      hint: 'Stop that process first, or start this one on another folder with --data DIR.',
    },
  )
}

function lockFailed(path: string, reason: string): Terminal {
  return new Terminal(`The database folder cannot be locked (${path}): ${reason}`, {
    code: 'folder_lock',
    hint: 'See that the folder is writable and on a local disk.',
  })
}

function flockMissing(cause: unknown): Terminal {
  return new Terminal('The program flock is missing, and without it two processes could ruin one database', {
    code: 'flock_missing',
    cause,
    hint: 'Install util-linux (apt install util-linux; brew install flock), or set [database] url.',
  })
}

/**
 * The server's log file. The server writes it directly, so logging continues after this process ends. At the size limit the
 * text moves to one older file and the log is truncated, which is safe because the server appends.
 */
import { constants } from 'node:fs'
import { copyFile, lstat, rm } from 'node:fs/promises'
import { openOwnFile } from './own-file.js'
import type { Account } from './program.js'

export interface ServerLog {
  readonly fd: number
  /** The last lines written since it was opened. */
  tail(): Promise<string>
  close(): Promise<void>
}

const maxBytes = 16 * 1024 * 1024 // weeks of warnings; with the older file at most 32 MB
const tailBytes = 4_096

export async function rotateLog(path: string): Promise<void> {
  const size = await sizeOf(path)
  if (size <= maxBytes) return
  await rm(`${path}.1`, { force: true })
  await copyFile(path, `${path}.1`, constants.COPYFILE_EXCL)
  const file = await openOwnFile(path, 'append')
  try {
    await file.truncate()
  } finally {
    await file.close()
  }
}

export async function openServerLog(path: string, account: Account): Promise<ServerLog> {
  await rotateLog(path)
  const from = await sizeOf(path)
  const file = await openOwnFile(path, 'append', account)
  return {
    fd: file.fd,
    tail: async () => {
      const size = await sizeOf(path)
      const start = Math.max(from, size - tailBytes)
      const buffer = Buffer.alloc(Math.max(0, size - start))
      const { bytesRead } = await file.read(buffer, 0, buffer.length, start)
      return buffer.toString('utf8', 0, bytesRead).trim()
    },
    close: () => file.close(),
  }
}

async function sizeOf(path: string): Promise<number> {
  return lstat(path).then(
    ({ size }) => size,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return 0
      throw error
    },
  )
}

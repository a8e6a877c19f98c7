/**
 * Evidence without a view: the disk itself, looked at when it is asked for. Always: nothing outside the root is opened; what
 * changed is told by the inode's change time against a probe on the same disk, so neither `cp -p` nor a clock that differs
 * from the file server's deceives it; only regular files count.
 */
import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { mkdir, open, realpath, rm } from 'node:fs/promises'
import { isAbsolute, join, relative, sep } from 'node:path'
import type { Ids } from '../../ports/ids.js'
import type { Evidence, FileEvidence } from '../ports.js'

// Half a minute of reading on a plain disk; of what is larger the size must do.
const hashMaxBytes = 2 ** 30
const readBytes = 2 ** 16
const absent = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', 'ENAMETOOLONG'])

export function localEvidence(root: string, ids: Ids): Evidence {
  return {
    async changeToken() {
      const folder = join(root, 'state')
      await mkdir(folder, { recursive: true })
      const probe = join(folder, `.probe-${ids.next()}`)
      const file = await open(probe, 'wx')
      try {
        return String((await file.stat({ bigint: true })).ctimeNs)
      } finally {
        await file.close()
        await rm(probe, { force: true })
      }
    },
    async inspect(paths, since) {
      const real = await realpath(root)
      const found: FileEvidence[] = []
      for (const path of paths) found.push(await lookAt(real, path, since))
      return found
    },
  }
}

async function lookAt(root: string, path: string, since: string | null): Promise<FileEvidence> {
  let real: string
  try {
    real = await realpath(join(root, path))
  } catch (error) {
    if (absent.has(codeOf(error))) return { path, found: 'missing' }
    throw error
  }
  const way = relative(root, real)
  if (isAbsolute(way) || way === '..' || way.startsWith(`..${sep}`)) return { path, found: 'missing' }
  // A pipe must not hold us: opened without waiting, it is then seen for what it is.
  const file = await open(real, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW)
  try {
    const stat = await file.stat({ bigint: true })
    if (!stat.isFile()) return { path, found: 'missing' }
    const size = Number(stat.size)
    return {
      path,
      found: 'present',
      size,
      // The same tick counts as after: a disk's clock is coarser than a quick agent.
      ...(since !== null && /^\d+$/.test(since) ? { changedSince: stat.ctimeNs >= BigInt(since) } : {}),
      ...(size <= hashMaxBytes ? { sha256: await hashOf(file) } : {}),
    }
  } finally {
    await file.close()
  }
}

async function hashOf(file: Awaited<ReturnType<typeof open>>): Promise<string> {
  const hash = createHash('sha256')
  const buffer = Buffer.alloc(readBytes)
  for (let position = 0; position <= hashMaxBytes;) {
    const { bytesRead } = await file.read(buffer, 0, buffer.length, position)
    if (bytesRead === 0) break
    hash.update(buffer.subarray(0, bytesRead))
    position += bytesRead
  }
  return hash.digest('hex')
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : ''
}

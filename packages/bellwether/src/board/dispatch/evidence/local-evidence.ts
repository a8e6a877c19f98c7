/**
 * Evidence without a view: reads the disk directly. Nothing outside the root is opened; only regular files count. A file has
 * changed if its inode change time is not before that of a probe file on the same disk, so neither `cp -p` nor a clock that
 * differs from the file server's gives a wrong result.
 */
import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { mkdir, open, realpath, rm } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { defined, errorCode } from '@bellwether/base'
import type { Ids } from '../../../ports/ids.js'
import { isPrivate, leadsOut } from '../../policies/inside.js'
import type { Evidence, FileEvidence } from '../../ports.js'

// About 30 s of reading on a plain disk; for larger files only the size is recorded.
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
      for (const path of paths) found.push(await inspectFile(real, path, since))
      return found
    },
    // A disk does not report its changes.
    changedFiles: async () => null,
  }
}

async function inspectFile(root: string, path: string, since: string | null): Promise<FileEvidence> {
  let real: string
  try {
    real = await realpath(join(root, path))
  } catch (error) {
    if (absent.has(errorCode(error))) return { path, found: 'missing', from: 'disk' }
    throw error
  }
  const inside = relative(root, real)
  if (leadsOut(inside) || isPrivate(inside)) return { path, found: 'missing', from: 'disk' }
  // O_NONBLOCK: opening a pipe must not wait.
  const file = await open(real, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW)
  try {
    const stat = await file.stat({ bigint: true })
    if (!stat.isFile()) return { path, found: 'missing', from: 'disk' }
    const size = Number(stat.size)
    // The token of a view may follow the disk's own, after a colon.
    const probedAt = /^(\d+)(?::|$)/.exec(since ?? '')?.[1]
    return {
      path,
      found: 'present',
      from: 'disk',
      size,
      // The same tick counts as changed: the clock of a disk is coarse.
      ...defined({
        changedSince: probedAt === undefined ? undefined : stat.ctimeNs >= BigInt(probedAt),
        sha256: size <= hashMaxBytes ? await hashOf(file) : undefined,
      }),
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

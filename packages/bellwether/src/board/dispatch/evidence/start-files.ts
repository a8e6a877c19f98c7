/**
 * What the files of a project without git were when a run started, so that what it changed can be listed with hashes and shown as a diff. Kept
 * in the memory of the process that started the run, where no agent can change it: after a restart nothing is known. Bounded in
 * files, bytes and runs. Links are not followed.
 */
import { createHash } from 'node:crypto'
import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { hasCode } from '@bellwether/base'
import type { FileVersion } from '@bellwether/protocol/http'
import { bytesInside } from '../../policies/inside.js'

// Some tens of milliseconds; a larger project has git.
const filesMax = 2_000
// Of all files of one start. Content that is already stored is not read again.
const readMaxBytes = 16_777_216
const storedMaxBytes = 4_194_304
const storedFileMaxBytes = 65_536
const runsMax = 16
const skipped = new Set(['.git', '.bellwether', 'node_modules'])

export interface StartFile extends FileVersion {
  /** Null: it is not stored, because it is too large or not a regular file. */
  readonly content: Buffer | null
  /** Changes whenever the file does. */
  readonly stamp: string
}

export interface StartFiles {
  readonly files: ReadonlyMap<string, StartFile>
  /** The folder has no other files. */
  readonly isComplete: boolean
}

export interface StartStates {
  /** Reads the files for a run of this task. `isRetry`: what an earlier run found is kept, as far as it is known. */
  take(taskId: string, root: string, isRetry: boolean): Promise<void>
  of(taskId: string): StartFiles | undefined
  drop(taskId: string): void
}

export function openStartStates(): StartStates {
  const starts = new Map<string, StartFiles>()
  let last: ReadonlyMap<string, StartFile> = new Map()
  return {
    async take(taskId, root, isRetry) {
      const known = isRetry ? starts.get(taskId) : undefined
      starts.delete(taskId)
      const found = known ?? (await readFiles(root, last))
      last = found.files
      if (starts.size >= runsMax) starts.delete(starts.keys().next().value!)
      starts.set(taskId, found)
    },
    of: (taskId) => starts.get(taskId),
    drop: (taskId) => void starts.delete(taskId),
  }
}

/** The files of a folder; those that have the stamp of `known` are not read again. */
export async function readFiles(root: string, known: ReadonlyMap<string, StartFile>): Promise<StartFiles> {
  const files = new Map<string, StartFile>()
  const folders = ['']
  let [read, stored] = [0, 0]
  for (let folder = folders.shift(); folder !== undefined; folder = folders.shift()) {
    for (const entry of await entriesOf(join(root, folder))) {
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`
      if (skipped.has(entry.name) || path === 'state') continue
      if (entry.isDirectory()) folders.push(path)
      else if (files.size >= filesMax) return { files, isComplete: false }
      else {
        const file = await readFile(root, path, known.get(path), readMaxBytes - read)
        if (file === null) continue
        if (file !== known.get(path)) read += file.sha256 === null ? 0 : file.bytes
        stored += file.content?.length ?? 0
        files.set(path, stored > storedMaxBytes ? { ...file, content: null } : file)
      }
    }
    // Empty folders count too.
    if (folders.length > filesMax) return { files, isComplete: false }
  }
  return { files, isComplete: true }
}

async function entriesOf(folder: string) {
  try {
    return (await readdir(folder, { withFileTypes: true })).toSorted((a, b) => (a.name < b.name ? -1 : 1))
  } catch (error) {
    // It was removed since its parent was read, or belongs to another user.
    if (hasCode(error, 'ENOENT') || hasCode(error, 'ENOTDIR') || hasCode(error, 'EACCES')) return []
    throw error
  }
}

async function readFile(
  root: string,
  path: string,
  known: StartFile | undefined,
  max: number,
): Promise<StartFile | null> {
  let stat
  try {
    stat = await lstat(join(root, path), { bigint: true })
  } catch (error) {
    if (hasCode(error, 'ENOENT') || hasCode(error, 'ENOTDIR')) return null
    throw error
  }
  const stamp = `${stat.ino} ${stat.size} ${stat.mtimeNs} ${stat.ctimeNs}`
  if (known?.stamp === stamp) return known
  const bytes = Number(stat.size)
  const found = stat.isFile() && bytes <= max ? await bytesInside(root, path) : undefined
  if (found?.found !== 'bytes') return { bytes, sha256: null, content: null, stamp }
  return { ...versionOf(found.bytes), content: bytes <= storedFileMaxBytes ? found.bytes : null, stamp }
}

export const versionOf = (content: Buffer): FileVersion => ({
  bytes: content.length,
  sha256: createHash('sha256').update(content).digest('hex'),
})

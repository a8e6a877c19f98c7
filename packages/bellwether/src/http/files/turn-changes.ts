/**
 * What an ended turn changed in the project folder, as a diff: the files that a view saw change while it ran, compared with the commit that was
 * checked out when it started. A file is compared only if the disk still has it as the view does and it did not change after the turn.
 * The content of a file that is neither in that commit nor claimed is not shown: no one meant to publish it.
 */
import { stat } from 'node:fs/promises'
import { join, normalize } from 'node:path'
import { hasCode } from '@bellwether/base'
import type { ResponseOf, TurnFile } from '@bellwether/protocol/http'
import { changeOf, openDiff, type Content } from '../../board/dispatch/evidence/file-diff.js'
import { versionOf } from '../../board/dispatch/evidence/start-files.js'
import { bytesInside, isPrivate, leadsOut } from '../../board/policies/inside.js'
import type { GitHistory } from '../../ports/git.js'

type TurnChanges = ResponseOf<'GET /projects/:project/turns/:turn/changes'>

const filesMax = 50
// More than a person reads in one page.
const diffMaxChars = 100_000
// Times of a view have less than a microsecond of error; the clock of a file server may differ from the database's.
const sameTimeSeconds = 0.001
const slackSeconds = 1

interface Ended {
  readonly startedAt: Date
  readonly endedAt: Date
  readonly files: readonly TurnFile[]
}

export const withoutDiff = (note: string): TurnChanges => ({
  ...{ commit: null, files: [], moreFiles: 0, diff: null, isCut: false },
  note,
})

export async function turnChanges(
  { root, git }: { readonly root: string; readonly git: GitHistory },
  { startedAt, endedAt, files: all }: Ended,
): Promise<TurnChanges> {
  const seen = all
    .filter(({ certainty }) => certainty !== 'claimed')
    .map((file) => ({ ...file, path: normalize(file.path.replace(/^\/+/, '')) }))
    .filter(({ path }) => !isPrivate(path) && !leadsOut(path))
  if (seen.length === 0) return withoutDiff('no view saw a file change while it ran')
  const listed = seen.slice(0, filesMax)
  const moreFiles = seen.length - listed.length
  const start = await git.headAt(startedAt)
  if ('why' in start) {
    const files = []
    for (const file of listed) {
      const now = await contentAfter(root, file, endedAt)
      const isKnown = now !== 'changed again' && now !== null
      files.push({
        ...{ path: file.path, change: file.how === 'deleted' ? ('deleted' as const) : null },
        claimed: file.how === 'claimed',
        ...(isKnown && { after: now === undefined ? null : versionOf(now) }),
      })
    }
    return { commit: null, files, moreFiles, diff: null, isCut: false, note: start.why }
  }
  const before = await git.filesAt(
    start.commit,
    listed.map(({ path }) => path),
  )
  const diff = openDiff(diffMaxChars)
  let again = 0
  const files = []
  for (const file of listed) {
    const old = before.get(file.path)
    const now = await contentAfter(root, file, endedAt)
    const isClaimed = file.how === 'claimed'
    const about = { path: file.path, claimed: isClaimed }
    if (now === 'changed again') {
      again += 1
      files.push({ ...about, change: null })
      continue
    }
    const change = changeOf(old, now)
    if (change === null) continue
    files.push({ ...about, change })
    if (old !== undefined || isClaimed) diff.add(file.path, old, now)
  }
  const note = again === 0 ? null : `${again} of the files changed again after the turn, and are not compared`
  return { commit: start.commit, files, moreFiles, ...diff.end(), note }
}

/** The content that the turn left. `changed again`: the disk has another one by now, or is not what the view shows. */
async function contentAfter(root: string, file: TurnFile, endedAt: Date): Promise<Content | 'changed again'> {
  if (file.found !== true) {
    const now = await bytesInside(root, file.path)
    return now.found === 'absent' ? undefined : 'changed again'
  }
  const { size, modified_time: modifiedAt } = file
  if (modifiedAt === null || modifiedAt > endedAt.getTime() / 1_000 + slackSeconds) return 'changed again'
  const now = await bytesInside(root, file.path)
  const onDisk = await statOf(join(root, file.path))
  const isSame =
    onDisk !== null && onDisk.size === size && Math.abs(onDisk.mtimeMs / 1_000 - modifiedAt) < sameTimeSeconds
  if (!isSame || now.found === 'absent' || now.found === 'outside') return 'changed again'
  return now.found === 'bytes' ? now.bytes : null
}

async function statOf(path: string) {
  try {
    return await stat(path)
  } catch (error) {
    if (hasCode(error, 'ENOENT') || hasCode(error, 'ENOTDIR')) return null
    throw error
  }
}

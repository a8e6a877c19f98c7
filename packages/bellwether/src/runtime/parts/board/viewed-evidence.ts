/**
 * Gets evidence from a workspace view, of this process or over HTTP; the view reads the disk for each request, through the sensor.
 * The disk of this machine decides only what a view cannot: excluded paths, symbolic links, and whether a file changed if the
 * view has restarted since. It also provides the hash if it has a file of the same size.
 */
import { posix } from 'node:path'
import { defined } from '@bellwether/base'
import type { Evidence, FileEvidence } from '../../../board/ports.js'
import type { FileFinding } from '../../../view/queries/file-evidence.js'

/** What a view knows about files. Paths begin with `/` at the root of the source. */
interface ViewFiles {
  changeToken(signal?: AbortSignal): Promise<string>
  checkFiles(paths: readonly string[], since: string | null, signal?: AbortSignal): Promise<readonly FileFinding[]>
  /** Null: unknown. */
  changedFiles?(since: string, max: number): Promise<readonly string[] | null>
}

export interface ViewedEvidenceOptions {
  readonly files: ViewFiles
  /** The evidence of this machine's disk. */
  readonly local: Evidence
  /** The path of the task root in the view. */
  readonly path: string
}

export function viewedEvidence({ files, local, path: rootPath }: ViewedEvidenceOptions): Evidence {
  async function fromDisk(path: string, since: string | null, signal?: AbortSignal): Promise<FileEvidence> {
    const [own] = await local.inspect([path], since, signal)
    return own ?? { path, found: 'not_ready' }
  }

  async function evidenceOf(
    path: string,
    { found, kind, size, changedSince }: FileFinding,
    since: string | null,
    signal?: AbortSignal,
  ): Promise<FileEvidence> {
    if (found === 'excluded' || kind === 'symlink') return fromDisk(path, since, signal)
    // Only regular files are evidence, in a view as on a disk.
    if (found !== 'present' || kind === 'directory')
      return { path, found: found === 'not_ready' ? found : 'missing', from: 'view' }
    const own = await fromDisk(path, since, signal)
    const isSame = own.found === 'present' && own.size === size
    const viewed: FileEvidence = {
      path,
      found,
      from: 'view',
      ...defined({ size, changedSince, sha256: isSame ? own.sha256 : undefined }),
    }
    if (since === null || changedSince !== undefined) return viewed
    // The view started after the token was taken.
    return isSame ? own : { ...viewed, changedSince: true }
  }

  return {
    async changeToken(signal) {
      return `${await local.changeToken(signal)}:${await files.changeToken(signal)}`
    },
    async inspect(paths, since, signal) {
      const wanted = paths.map((path) => posix.join('/', rootPath, path))
      const findings = await files.checkFiles(wanted, viewTokenIn(since), signal)
      const byPath = new Map(findings.map((finding) => [finding.path, finding]))
      const found: FileEvidence[] = []
      for (const [at, path] of paths.entries()) {
        const finding = byPath.get(wanted[at]!) ?? { path, found: 'not_ready' }
        found.push(await evidenceOf(path, finding, since, signal))
      }
      return found
    },
    async changedFiles(since, max) {
      const token = viewTokenIn(since)
      const paths = token === null || token === '' ? null : ((await files.changedFiles?.(token, max)) ?? null)
      if (paths === null) return null
      const below = paths.map((path) => posix.relative(posix.join('/', rootPath), path))
      return below.filter((path) => path !== '' && !path.startsWith('..'))
    },
  }
}

/** The view's part of a token: empty if the token was taken without a view. Tokens of earlier versions have only this part. */
function viewTokenIn(token: string | null): string | null {
  if (token === null) return null
  return /^\d+$/.test(token) ? '' : token.replace(/^\d+:/, '')
}

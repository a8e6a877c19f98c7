/**
 * Inspects files on other hosts through a workspace view, over HTTP. The view reads the disk for each request. A view that is
 * unavailable, busy or not ready means "wait", never "missing". Hashes are computed here, if this machine sees the same file with
 * the same size. The board decides what the evidence means.
 */
import { posix } from 'node:path'
import { defined, systemClock } from '@bellwether/base'
import { InvalidInput, Terminal } from '@bellwether/protocol'
import { localEvidence } from '../../board/dispatch/local-evidence.js'
import type { Evidence, FileEvidence } from '../../board/ports.js'
import { openClient } from '../../client/client.js'
import type { Ids } from '../../ports/ids.js'
import type { Settings } from '../../settings/schema.js'

export interface RemoteViewOptions {
  readonly url: string
  readonly key: string
  readonly view: string
  /** Which source, if the view has several. */
  readonly source?: string | undefined
  /** The path of the task root in the view. */
  readonly path: string
  /** The task root on this machine, for hashes of shared files. */
  readonly root: string
  readonly ids: Ids
}

// Shorter than the timeout of a call (15 s), because the view's "not ready" says more than a timeout.
const waitSeconds = 10

/** The evidence that the settings choose: a view if `view_url` is set, else the local disk. */
export function openEvidence(board: Settings['board'], root: string, ids: Ids): Evidence {
  const { view_url: url, view_key: key, view, view_path: path, view_source: source } = board
  if (url === undefined) return localEvidence(root, ids)
  if (key === undefined || view === undefined)
    throw new InvalidInput(`[board] view_url is set, but ${view === undefined ? 'view' : 'view_key'} is not`, {
      code: 'incomplete_settings',
      hint: 'set the name (view) and the key (view_key) of the view in [board]',
    })
  return remoteEvidence({ url: checkedViewUrl(url), key, view, source, path, root, ids })
}

function checkedViewUrl(text: string): string {
  if (/^https?:$/.test(URL.canParse(text) ? new URL(text).protocol : '')) return text
  throw new InvalidInput(`[board] view_url must be an http or https URL (got ${JSON.stringify(text)})`, {
    code: 'bad_view_url',
    hint: 'correct view_url in [board] of bellwether.toml',
  })
}

export function remoteEvidence(options: RemoteViewOptions): Evidence {
  const { url, key, view, source, root, ids } = options
  const awayHint = 'check that the view runs and that view_url in [board] of bellwether.toml is its address'
  // Routes of views have no project.
  const client = openClient({ url, key, project: '', awayHint }, systemClock)
  const local = localEvidence(root, ids)
  const pathIn = (path: string) => posix.join('/', options.path, path)

  /** Adds the hash if this machine sees the same file. */
  async function withHash(file: FileEvidence, signal: AbortSignal | undefined): Promise<FileEvidence> {
    if (file.found !== 'present') return file
    const [own] = await local.inspect([file.path], null, signal)
    return own?.sha256 === undefined || own.size !== file.size ? file : { ...file, sha256: own.sha256 }
  }

  return {
    async changeToken(signal) {
      const request = { params: { view }, query: { source }, signal }
      return (await client.ask('GET /views/:view/evidence', request).catch(refused)).token
    },
    async inspect(paths, since, signal) {
      const wanted = paths.map(pathIn)
      const body = { paths: wanted, since, wait: waitSeconds, ...defined({ source }) }
      const request = { params: { view }, body, signal }
      const { files } = await client.ask('POST /views/:view/evidence', request).catch(refused)
      const found: FileEvidence[] = []
      for (const [at, path] of paths.entries()) {
        const seen = files.find((file) => file.path === wanted[at])
        if (seen === undefined) {
          found.push({ path, found: 'not_ready' })
          continue
        }
        const { size, changed_since: changedSince } = seen
        const file: FileEvidence = { path, found: seen.found, ...defined({ size, changedSince }) }
        found.push(await withHash(file, signal))
      }
      return found
    },
  }
}

/** Says which settings to correct if the view will refuse every repetition: a wrong key, name or address. */
function refused(error: unknown): never {
  if (!(error instanceof Terminal) || error.code === 'aborted') throw error
  throw new Terminal(`The view refused the request: ${error.message}`, {
    code: 'view_refused',
    cause: error,
    hint: 'correct view_url, view and view_key in [board] of bellwether.toml',
  })
}

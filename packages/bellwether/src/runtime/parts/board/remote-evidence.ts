/**
 * Gets evidence from a view of another process, over HTTP. A view that is unavailable, busy or not ready means "wait", never "missing".
 * The board decides what the evidence means.
 */
import { defined, systemClock } from '@bellwether/base'
import { Terminal } from '@bellwether/protocol'
import { localEvidence } from '../../../board/dispatch/evidence/local-evidence.js'
import type { Evidence } from '../../../board/ports.js'
import { openClient } from '../../../client/client.js'
import type { Ids } from '../../../ports/ids.js'
import { viewedEvidence } from './viewed-evidence.js'

export interface RemoteViewOptions {
  readonly url: string
  readonly key: string
  readonly view: string
  /** Which source, if the view has several. */
  readonly source?: string | undefined
  /** The path of the task root in the view. */
  readonly path: string
  /** The task root on this machine. */
  readonly root: string
  readonly ids: Ids
}

/** Shorter than the timeout of a call (15 s), because the view's "not ready" says more than a timeout. */
export const evidenceWaitSeconds = 10

export function remoteEvidence(options: RemoteViewOptions): Evidence {
  const { url, key, view, source, root, ids, path } = options
  const awayHint = 'check that the view runs and that view_url in [board] of bellwether.toml is its address'
  // Routes of views have no project.
  const client = openClient({ url, key, project: '', awayHint }, systemClock)
  return viewedEvidence({
    path,
    local: localEvidence(root, ids),
    files: {
      async changeToken(signal) {
        const request = { params: { view }, query: { source }, signal }
        return (await client.ask('GET /views/:view/evidence', request).catch(refused)).token
      },
      async checkFiles(paths, since, signal) {
        const body = { paths: [...paths], since, wait: evidenceWaitSeconds, ...defined({ source }) }
        const request = { params: { view }, body, signal }
        const { files } = await client.ask('POST /views/:view/evidence', request).catch(refused)
        return files.map(({ changed_since: changedSince, kind, size, ...file }) => ({
          path: file.path,
          found: file.found,
          ...defined({ kind, size, changedSince }),
        }))
      },
    },
  })
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

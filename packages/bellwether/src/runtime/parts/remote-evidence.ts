/**
 * Inspects files on other hosts through a workspace view, over HTTP. The view reads the disk for each request. A view that is
 * unavailable, busy or not ready means "wait", never "missing". Hashes are computed here, if this machine sees the same file with
 * the same size. The board decides what the evidence means.
 */
import { posix } from 'node:path'
import { defined } from '@bellwether/base'
import { InvalidInput, Retryable, Terminal } from '@bellwether/protocol'
import { z } from 'zod'
import { localEvidence } from '../../board/dispatch/local-evidence.js'
import type { Evidence, FileEvidence } from '../../board/ports.js'
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

const tokenShape = z.object({ token: z.string().min(1) })
const filesShape = z.object({
  files: z.array(
    z.object({
      path: z.string(),
      found: z.enum(['present', 'missing', 'not_ready']),
      size: z.number().optional(),
      changed_since: z.boolean().optional(),
    }),
  ),
})

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
  const { key, view, source, root, ids } = options
  const address = new URL(`api/v1/views/${encodeURIComponent(view)}/evidence`, options.url.replace(/\/*$/, '/'))
  const local = localEvidence(root, ids)
  const pathIn = (path: string) => posix.join('/', options.path, path)

  async function request<T>(shape: z.ZodType<T>, signal: AbortSignal | undefined, question?: object): Promise<T> {
    const url = new URL(address)
    if (question === undefined && source !== undefined) url.searchParams.set('source', source)
    const response = await fetch(url, {
      method: question === undefined ? 'GET' : 'POST',
      headers: { 'x-api-key': key, 'content-type': 'application/json' },
      redirect: 'error',
      signal: signal ?? null,
      ...(question === undefined ? {} : { body: JSON.stringify(question) }),
    })
    const body: unknown = await response.json().catch(() => undefined)
    if (!response.ok) throw failure(response.status, body)
    const found = shape.safeParse(body)
    if (found.success) return found.data
    throw new Terminal(`Unexpected response from ${url.origin}`, {
      code: 'unexpected_response',
      hint: 'check that [board] view_url is the URL of a Bellwether server',
    })
  }

  /** Adds the hash if this machine sees the same file. */
  async function withHash(file: FileEvidence, signal: AbortSignal | undefined): Promise<FileEvidence> {
    if (file.found !== 'present') return file
    const [own] = await local.inspect([file.path], null, signal)
    return own?.sha256 === undefined || own.size !== file.size ? file : { ...file, sha256: own.sha256 }
  }

  return {
    changeToken: async (signal) => (await request(tokenShape, signal)).token,
    async inspect(paths, since, signal) {
      const wanted = paths.map(pathIn)
      const question = { paths: wanted, since, wait: waitSeconds, ...defined({ source }) }
      const { files } = await request(filesShape, signal, question)
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

/** A wrong key or address is permanent; everything else may be retried. */
function failure(status: number, body: unknown): Error {
  const detail = z.object({ detail: z.string() }).safeParse(body).data?.detail ?? 'no details'
  const text = `The view returned status ${status}: ${detail.slice(0, 500)}`
  if (status === 401 || status === 403)
    return new Terminal(text, { code: 'view_refused', hint: 'correct view and view_key in [board] of bellwether.toml' })
  if (status === 404 || status === 400)
    return new Terminal(text, { code: 'view_refused', hint: 'correct view_url and view in [board] of bellwether.toml' })
  return Object.assign(new Retryable(text, { code: 'view_away' }), { status })
}

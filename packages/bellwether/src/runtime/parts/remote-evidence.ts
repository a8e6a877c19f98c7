/**
 * The board's eyes where its files lie on other hosts: a view is asked over HTTP. Always: nothing is believed from memory, the
 * view looks when it is asked; a view that is away, busy or cannot tell means wait, never missing; the signal ends every
 * question. A hash is made here, where the file can be read and is as long as the view says. What is judged from it is the
 * board's.
 */
import { posix } from 'node:path'
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
  /** Where a view has several. */
  readonly source?: string | undefined
  /** Where the task root lies in the view. */
  readonly path: string
  /** The task root here: for hashes, where files are shared. */
  readonly root: string
  readonly ids: Ids
}

// Less than a call may take (15 s): the view's own "cannot tell yet" says more than a timeout.
const waitSeconds = 10

const tokenShape = z.object({ token: z.string().min(1) })
const filesShape = z.object({
  files: z.array(
    z.object({
      path: z.string(),
      found: z.enum(['present', 'missing', 'not_ready']),
      size: z.number().optional(),
      changedSince: z.boolean().optional(),
    }),
  ),
})

/** By the settings: a view, if one is named, else the disk of this machine. */
export function openEvidence(board: Settings['board'], root: string, ids: Ids): Evidence {
  const { view_url: url, view_key: key, view, view_path: path, view_source: source } = board
  if (url === undefined) return localEvidence(root, ids)
  if (key === undefined || view === undefined)
    throw new InvalidInput(`[board] view_url is set, and ${view === undefined ? 'view' : 'view_key'} is not`, {
      code: 'incomplete_settings',
      hint: 'a view is asked with its name (view) and its key (view_key)',
    })
  return remoteEvidence({ url: viewAddress(url), key, view, source, path, root, ids })
}

function viewAddress(text: string): string {
  if (/^https?:$/.test(URL.canParse(text) ? new URL(text).protocol : '')) return text
  throw new InvalidInput(`${JSON.stringify(text)} is no http or https address`, {
    code: 'bad_view_url',
    hint: 'mend view_url in [board] of bellwether.toml',
  })
}

export function remoteEvidence(options: RemoteViewOptions): Evidence {
  const { key, view, source, root, ids } = options
  const address = new URL(`api/v1/views/${encodeURIComponent(view)}/evidence`, options.url.replace(/\/*$/, '/'))
  const here = localEvidence(root, ids)
  const pathIn = (path: string) => posix.join('/', options.path, path)

  async function ask<T>(shape: z.ZodType<T>, signal: AbortSignal | undefined, body?: object): Promise<T> {
    const url = new URL(address)
    if (body === undefined && source !== undefined) url.searchParams.set('source', source)
    const answer = await fetch(url, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { 'x-api-key': key, 'content-type': 'application/json' },
      redirect: 'error',
      signal: signal ?? null,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const told: unknown = await answer.json().catch(() => undefined)
    if (!answer.ok) throw refusal(answer.status, told)
    const found = shape.safeParse(told)
    if (found.success) return found.data
    throw new Terminal('the view answered something else', {
      code: 'odd_answer',
      hint: 'is view_url a Bellwether view?',
    })
  }

  /** The hash of what the view has seen, as far as this machine sees the same. */
  async function hashed(file: FileEvidence, signal: AbortSignal | undefined): Promise<FileEvidence> {
    if (file.found !== 'present') return file
    const [own] = await here.inspect([file.path], null, signal)
    return own?.sha256 === undefined || own.size !== file.size ? file : { ...file, sha256: own.sha256 }
  }

  return {
    changeToken: async (signal) => (await ask(tokenShape, signal)).token,
    async inspect(paths, since, signal) {
      const wanted = paths.map(pathIn)
      const question = { paths: wanted, since, wait: waitSeconds, ...(source === undefined ? {} : { source }) }
      const { files } = await ask(filesShape, signal, question)
      const found: FileEvidence[] = []
      for (const [at, path] of paths.entries()) {
        const told = files.find((file) => file.path === wanted[at])
        if (told === undefined) {
          found.push({ path, found: 'not_ready' })
          continue
        }
        const { size, changedSince } = told
        const file: FileEvidence = {
          path,
          found: told.found,
          ...(size === undefined ? {} : { size }),
          ...(changedSince === undefined ? {} : { changedSince }),
        }
        found.push(await hashed(file, signal))
      }
      return found
    },
  }
}

/** The caller's mistake stays one; everything else may pass. */
function refusal(status: number, told: unknown): Error {
  const detail = z.object({ detail: z.string() }).safeParse(told).data?.detail ?? 'no more was said'
  const text = `the view answered ${status}: ${detail.slice(0, 500)}`
  if (status === 401 || status === 403)
    return new Terminal(text, { code: 'view_refused', hint: 'mend view and view_key in [board] of bellwether.toml' })
  if (status === 404 || status === 400)
    return new Terminal(text, { code: 'view_refused', hint: 'mend view_url and view in [board] of bellwether.toml' })
  return Object.assign(new Retryable(text, { code: 'view_away' }), { status })
}

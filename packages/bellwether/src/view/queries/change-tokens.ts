/**
 * Change tokens of a view: the token of each source's tree and the time of issue, as one opaque string. A token that is
 * malformed or from another run is not an error; it means that the reader must read everything again ("fresh instance").
 */
import { parseJson } from '@bellwether/base'
import type { ResponseFrom, ViewChange } from '@bellwether/protocol/http'
import { z } from 'zod'
import type { Change } from '../tree/tree.js'
import type { ViewSource } from '../view.js'

const shape = z.object({ at: z.number(), sources: z.record(z.string(), z.string()) })
export type ViewToken = z.infer<typeof shape>

const tokenLengthMax = 32_768

function writeToken(token: ViewToken): string {
  return Buffer.from(JSON.stringify(token)).toString('base64url')
}

export function readToken(text: string): ViewToken | undefined {
  if (text.length > tokenLengthMax) return undefined
  return shape.safeParse(parseJson(Buffer.from(text, 'base64url').toString())).data
}

export function tokenNow(sources: Iterable<ViewSource>, nowMs: number): string {
  const tokens: Record<string, string> = {}
  for (const { id, tree } of sources) tokens[id] = tree.token()
  return writeToken({ at: nowMs, sources: tokens })
}

export type ViewChanges = ResponseFrom<'GET /views/:view/changes'>

/** The changes of these sources since the token. A source that was added or dropped since makes a fresh instance. */
export function changesSince(sources: readonly ViewSource[], text: string, nowMs: number, max: number): ViewChanges {
  const since = readToken(text)
  const fresh = (): ViewChanges => ({ fresh_instance: true, changes: [], token: tokenNow(sources, nowMs), more: false })
  if (since === undefined) return fresh()
  const named = Object.keys(since.sources)
  if (named.length !== sources.length || sources.some(({ id }) => since.sources[id] === undefined)) return fresh()
  const tokens = { ...since.sources }
  const changes: ViewChange[] = []
  let more = false
  for (const { id, tree } of sources) {
    if (changes.length >= max) {
      more = true
      continue
    }
    const found = tree.changesSince(tokens[id]!, max - changes.length)
    if (found.freshInstance) return fresh()
    for (const change of found.changes) changes.push(wire(change, id))
    tokens[id] = found.token
    more ||= found.more
  }
  return { fresh_instance: false, changes, token: writeToken({ at: nowMs, sources: tokens }), more }
}

const wire = ({ seq, path, kind, isDirectory, isSymlink }: Change, source_id: string): ViewChange => ({
  seq,
  path,
  kind,
  is_directory: isDirectory,
  is_symlink: isSymlink,
  source_id,
})

/** Flattens the open part of a folder tree for a list. Pure. Deletions that no sensor saw stay at their place. */
import { groupBy } from '@bellwether/base'
import type { Entry } from '../api/types.js'

export type Row =
  | {
      readonly what: 'entry'
      readonly key: string
      readonly depth: number
      readonly node: Entry
      readonly isOpen: boolean
    }
  | { readonly what: 'gone'; readonly key: string; readonly depth: number; readonly path: string }
  | {
      readonly what: 'loading' | 'error' | 'empty'
      readonly key: string
      readonly depth: number
      readonly path: string
    }

export type FolderState = readonly Entry[] | 'loading' | 'error'

export interface Forest {
  readonly open: ReadonlySet<string>
  folder(path: string): FolderState | undefined
  /** Paths of deletions that no sensor saw happen. */
  readonly gone: readonly string[]
}

// Deeper than any path that a view accepts: an invalid response.
const depthMax = 1_024

export function rowsOf(forest: Forest): Row[] {
  const rows: Row[] = []
  const goneIn = groupBy(forest.gone, parentOf)
  walk('/', 0)
  return rows

  function walk(path: string, depth: number): void {
    const folder = forest.folder(path)
    if (folder === undefined || folder === 'loading' || folder === 'error') {
      rows.push({ what: folder === 'error' ? 'error' : 'loading', key: `${path}?`, depth, path })
      return
    }
    const gone = goneIn.get(path) ?? []
    if (folder.length + gone.length === 0) rows.push({ what: 'empty', key: `${path}!`, depth, path })
    for (const node of folder.toSorted(foldersFirst)) {
      const isOpen = node.content_type === 'directory' && forest.open.has(node.path)
      rows.push({ what: 'entry', key: node.path, depth, node, isOpen })
      if (isOpen && depth < depthMax) walk(node.path, depth + 1)
    }
    for (const one of gone) rows.push({ what: 'gone', key: `${one}-gone`, depth, path: one })
  }
}

function foldersFirst(one: Entry, other: Entry): number {
  if (one.content_type !== other.content_type) return one.content_type === 'directory' ? -1 : 1
  return one.path < other.path ? -1 : one.path > other.path ? 1 : 0
}

function parentOf(path: string): string {
  const at = path.lastIndexOf('/')
  return at <= 0 ? '/' : path.slice(0, at)
}

export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1)
}

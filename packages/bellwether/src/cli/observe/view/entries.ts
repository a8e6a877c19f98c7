/** Formats entries of a view for the terminal. Pure; control characters in names are escaped. */
import type { ResponseOf, Entry } from '@bellwether/protocol/http'
import { plain } from '../../../client/sanitize.js'
import { bytes, instant, table } from '../../shared/terminal.js'

const marks = (entry: Entry) =>
  [
    ...(entry.content_type === 'symlink' ? ['symlink'] : []),
    ...(entry.unreadable === true ? ['cannot be read'] : []),
    ...(entry.integrity_suspect === true ? ['may be incomplete'] : []),
    ...(entry.agent_missing === true ? ['blind spot'] : []),
  ].join(', ')

const isDirectory = (entry: Entry) => entry.content_type === 'directory'
const sizeOf = (entry: Entry) => (isDirectory(entry) || entry.size === undefined ? '–' : bytes(entry.size))

export function entryTable(entries: readonly Entry[], columns?: number): string {
  const rows = entries.map((entry) => [
    `${entry.path}${isDirectory(entry) && entry.path !== '/' ? '/' : ''}`,
    sizeOf(entry),
    instant(inRange(entry.modified_time)),
    marks(entry),
  ])
  return table(['PATH', 'SIZE', 'CHANGED (UTC)', ''], rows, columns)
}

// The largest time that a Date supports; files may have any mtime.
const timeMax = 8.64e12
const inRange = (at: number | undefined) => (at === undefined || Math.abs(at) >= timeMax ? null : at)

/** The tree as an indented list. */
export function treeLines(tree: ResponseOf<'GET /views/:view/tree'>, limit: number): string {
  const lines: string[] = []
  let omitted = 0
  const add = (node: Entry, depth: number) => {
    if (lines.length >= limit) {
      omitted += 1
    } else {
      const name = depth === 0 ? node.path : (node.name ?? node.path)
      const slash = isDirectory(node) && !name.endsWith('/') ? '/' : ''
      const details = [isDirectory(node) ? '' : sizeOf(node), marks(node)].filter((detail) => detail !== '').join(', ')
      lines.push(`${'  '.repeat(depth)}${plain(name)}${slash}${details === '' ? '' : `  (${details})`}`)
    }
    for (const child of node.children ?? []) add(child, depth + 1)
  }
  if ('content_type' in tree) add(tree, 0)
  if ('members' in tree)
    for (const [source, node] of Object.entries(tree.members)) {
      lines.push(`source ${plain(source)}`)
      if (node !== null) add(node, 0)
    }
  return omitted === 0 ? lines.join('\n') : `${lines.join('\n')}\n… and ${omitted} more (--limit)`
}

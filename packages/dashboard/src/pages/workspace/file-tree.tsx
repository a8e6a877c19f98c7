/** The file tree. A folder is read when it is opened; only visible rows are rendered. */
import { useQueries, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { blindSpotsQuery, folderQuery } from '../../api/view-queries.js'
import { oneLine } from '../../model/text.js'
import { agoMs } from '../../model/time.js'
import { nameOf, rowsOf, type FolderState, type Row } from '../../model/tree.js'
import { Icon } from '../../parts/glyph.js'
import { Gone, Marks, sizeOrLink } from './marks.js'
import { VirtualRows } from '../../parts/rows.js'
import { useNow } from '../../parts/time.js'

export function FileTree({ view, source }: { readonly view: string; readonly source: string | undefined }) {
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set())
  const paths = ['/', ...open]
  const folders = useQueries({ queries: paths.map((path) => folderQuery(view, source, path)) })
  const gone = useQuery(blindSpotsQuery(view, source))
  const known = new Map<string, FolderState>(
    folders.map(({ data, error }, at) => [paths[at]!, data ?? (error === null ? 'loading' : 'error')]),
  )
  const rows = rowsOf({ open, folder: (path) => known.get(path), gone: gone.data?.deletions ?? [] })
  const toggle = (row: Row) => {
    if (row.what === 'error') return void folders[paths.indexOf(row.path)]?.refetch()
    if (row.what !== 'entry' || row.node.content_type !== 'directory') return
    const next = new Set(open)
    if (!next.delete(row.node.path)) next.add(row.node.path)
    setOpen(next)
  }
  return (
    <VirtualRows
      role="tree"
      label="Files"
      items={rows}
      height={30}
      keyOf={(row) => row.key}
      open={toggle}
      rowProps={(row) => ({
        'aria-level': row.depth + 1,
        'aria-expanded': row.what === 'entry' && row.node.content_type === 'directory' ? row.isOpen : undefined,
        onClick: () => toggle(row),
      })}
    >
      {(row) => <TreeRow row={row} />}
    </VirtualRows>
  )
}

// A path may be a thousand folders deep; the indentation stops earlier.
const indentMax = 24

function TreeRow({ row }: { readonly row: Row }) {
  const style = { paddingLeft: 12 + Math.min(row.depth, indentMax) * 16 }
  const line = 'flex h-full items-center gap-2 pr-3 text-sm'
  if (row.what === 'gone')
    return (
      <div className={line} style={style}>
        <span className="w-3" />
        <Icon name="file" size={14} />
        <bdi className="min-w-0 flex-1 truncate text-ink-3 line-through">{oneLine(nameOf(row.path), 255)}</bdi>
        <Gone />
      </div>
    )
  if (row.what !== 'entry') {
    const words = { loading: 'Loading…', error: 'Cannot read this folder. Click to try again.', empty: 'Empty' }[
      row.what
    ]
    return (
      <div className={`${line} ${row.what === 'error' ? 'cursor-pointer text-bad' : 'text-ink-3'}`} style={style}>
        {words}
      </div>
    )
  }
  const { node, isOpen } = row
  const isFolder = node.content_type === 'directory'
  return (
    <div className={`${line} ${isFolder ? 'cursor-pointer' : ''}`} style={style}>
      <span className={`text-ink-3 ${isOpen ? 'rotate-90' : ''} ${isFolder ? '' : 'invisible'}`}>
        <Icon name="chevron" size={12} />
      </span>
      <span className="text-ink-3">
        <Icon name={isFolder ? 'folder' : 'file'} size={14} />
      </span>
      <bdi className={`min-w-0 flex-1 truncate ${isFolder ? 'font-medium' : ''}`} title={oneLine(node.path, 1_000)}>
        {oneLine(nameOf(node.path), 255)}
      </bdi>
      <Marks node={node} />
      <span className="w-16 text-right text-xs text-ink-3">{isFolder ? '' : sizeOrLink(node)}</span>
      <span className="hidden w-20 text-right text-xs text-ink-3 sm:inline">
        <Changed at={node.modified_time} />
      </span>
    </div>
  )
}

function Changed({ at }: { readonly at: number | undefined }) {
  const now = useNow()
  return <>{at === undefined ? '–' : agoMs(now - at * 1_000)}</>
}

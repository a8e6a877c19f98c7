/**
 * A virtual list: only visible rows are rendered. Rows have one height and are placed by a transform, so a change
 * does not cause a new layout; j and k move through all of them.
 */
import { useVirtualizer } from '@tanstack/react-virtual'
import { useRef, type ReactNode } from 'react'
import { useListKeys } from '../keyboard/shortcut-list.js'
import { clock } from '../ports/clock.js'

export interface RowsProps<T> {
  readonly items: readonly T[]
  readonly height: number
  readonly label: string
  readonly keyOf: (item: T) => string
  readonly open: (item: T) => void
  readonly children: (item: T, isChosen: boolean) => ReactNode
  /** The header row. */
  readonly head?: ReactNode
  readonly onEnd?: (() => void) | undefined
  readonly role?: 'table' | 'list' | 'tree'
  readonly rowProps?: (item: T) => Readonly<Record<string, unknown>>
}

const rowRoles = { table: 'row', list: 'listitem', tree: 'treeitem' } as const
// Extra rows beyond the visible part, so that fast scrolling shows no gaps.
const overscan = 12

export function VirtualRows<T>(props: RowsProps<T>) {
  const { items, height, label, keyOf, open, children, head, onEnd, role = 'list', rowProps } = props
  const box = useRef<HTMLDivElement>(null)
  const headHeight = head === undefined ? 0 : 30
  const rows = useVirtualizer({
    count: items.length,
    getScrollElement: () => box.current,
    estimateSize: () => height,
    getItemKey: (at) => keyOf(items[at]!),
    overscan,
    scrollPaddingStart: headHeight,
  })
  const chosen = useListKeys({
    count: items.length,
    show(at) {
      rows.scrollToIndex(at, { align: 'auto' })
      // The row may not be rendered yet.
      clock.after(0, () => box.current?.querySelector<HTMLElement>(`[data-at="${at}"]`)?.focus({ preventScroll: true }))
    },
    open: (at) => open(items[at]!),
  })
  const seen = rows.getVirtualItems()
  const last = seen.at(-1)?.index ?? 0
  const isTable = role === 'table'
  const group = isTable ? 'rowgroup' : undefined
  return (
    <div
      ref={box}
      className="h-full min-h-0 overflow-auto [contain:strict]"
      tabIndex={0}
      role={role}
      aria-label={label}
      aria-rowcount={isTable ? items.length + 1 : undefined}
      onScroll={() => {
        if (onEnd !== undefined && last >= items.length - overscan * 2) onEnd()
      }}
    >
      {head !== undefined && (
        <div role={group} className="sticky top-0 z-10 bg-panel">
          {head}
        </div>
      )}
      <div role={group ?? 'presentation'} className="relative w-full" style={{ height: rows.getTotalSize() }}>
        {seen.map(({ index, start, key }) => {
          const item = items[index]!
          return (
            <div
              key={key}
              data-at={index}
              role={rowRoles[role]}
              aria-rowindex={isTable ? index + 2 : undefined}
              aria-setsize={isTable ? undefined : items.length}
              aria-posinset={isTable ? undefined : index + 1}
              tabIndex={-1}
              className={`absolute inset-x-0 top-0 border-b border-line hover:bg-hover focus:bg-hover ${index === chosen ? 'bg-hover' : ''}`}
              style={{ height, transform: `translateY(${start}px)` }}
              onKeyDown={(event) => {
                if (event.key === 'Enter' && event.target === event.currentTarget) open(item)
              }}
              {...rowProps?.(item)}
            >
              {children(item, index === chosen)}
            </div>
          )
        })}
      </div>
    </div>
  )
}

/**
 * A virtual list, and the table of agents or turns that is built on it. Only visible rows are rendered. Rows have one
 * height and are placed by a transform, so a change does not cause a new layout; j and k move through all of them.
 */
import { useVirtualizer } from '@tanstack/react-virtual'
import { useRef, type ReactNode } from 'react'
import { useListKeys } from '../keyboard/shortcut-list.js'
import { clock } from '../ports/clock.js'
import { SelectBox } from './select-box.js'
import type { Selection } from './selection.js'
import { Status } from './status.js'

interface RowsProps<T> {
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
  readonly selecting?: Selecting<T> | undefined
}

/** The rows can be selected. */
interface Selecting<T> {
  readonly selection: Selection
  /** For screen readers. */
  readonly nameOf: (item: T) => string
}

const rowRoles = { table: 'row', list: 'listitem', tree: 'treeitem' } as const
// Extra rows beyond the visible part, so that fast scrolling shows no gaps.
const overscan = 12

export function VirtualRows<T>(props: RowsProps<T>) {
  const { items, height, label, keyOf, open, children, head, onEnd, role = 'list', rowProps, selecting } = props
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
    select: selecting && ((at, isRange) => selecting.selection.toggle(keyOf(items[at]!), isRange)),
    clear: selecting?.selection.clear,
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
              {selecting === undefined ? (
                children(item, index === chosen)
              ) : (
                <div className="flex h-full items-center">
                  <span role="cell" className="flex w-9 justify-end pr-1">
                    <SelectBox id={keyOf(item)} name={selecting.nameOf(item)} selection={selecting.selection} />
                  </span>
                  <div className="h-full min-w-0 flex-1">{children(item, index === chosen)}</div>
                </div>
              )}
            </div>
          )
        })}
      </div>
    </div>
  )
}

export interface Columns {
  /** The class that places the cells of a wide row. */
  readonly className: string
  readonly titles: readonly string[]
  readonly alignedRight?: readonly string[]
}

interface TableProps<T> extends Omit<RowsProps<T>, 'height' | 'role' | 'head'> {
  readonly columns: Columns
  readonly isWide: boolean
  readonly note: ReactNode
  /** What can be done with the selection. Its height does not depend on the selection. */
  readonly actions?: ReactNode
}

export function Table<T>({ columns, isWide, note, actions, ...rows }: TableProps<T>) {
  const head = <Head columns={columns} isWide={isWide} hasSelection={rows.selecting !== undefined} />
  return (
    <>
      <div className="min-h-0 flex-1">
        <VirtualRows {...rows} role="table" height={isWide ? 36 : 62} head={head} />
      </div>
      <div className="flex flex-wrap items-center gap-x-3 border-t border-line px-3 py-1">
        <p className="label">{note}</p>
        {actions}
      </div>
    </>
  )
}

/** A narrow table has no visible header, but screen readers read it. */
function Head({ columns, isWide, hasSelection }: HeadProps) {
  const { className, titles, alignedRight = [] } = columns
  const titled = (
    <>
      {titles.map((title) => (
        <span key={title} role="columnheader" className={alignedRight.includes(title) ? 'text-right' : ''}>
          {title}
        </span>
      ))}
    </>
  )
  return (
    <div
      role="row"
      aria-rowindex={1}
      className={isWide ? `${hasSelection ? 'flex items-center' : className} ${headClass}` : 'sr-only'}
    >
      {hasSelection ? (
        <>
          <span role="columnheader" className="w-9">
            <span className="sr-only">Selected</span>
          </span>
          <div className={isWide ? `${className} min-w-0 flex-1` : ''}>{titled}</div>
        </>
      ) : (
        titled
      )}
    </div>
  )
}

const headClass = 'h-[30px] border-b border-line text-xs font-medium text-ink-3'

interface HeadProps {
  readonly columns: Columns
  readonly isWide: boolean
  readonly hasSelection: boolean
}

interface NarrowRowProps {
  readonly name: ReactNode
  readonly status: string
  /** The cells of the second line. */
  readonly children: ReactNode
}

export function NarrowRow({ name, status, children }: NarrowRowProps) {
  return (
    <div className="flex h-full flex-col justify-center gap-0.5 px-3">
      <div className="flex items-center gap-3">
        <span role="cell" className="min-w-0 flex-1 truncate font-medium">
          {name}
        </span>
        <span role="cell" className="flex text-sm">
          <Status word={status} />
        </span>
      </div>
      <div className="flex items-center gap-3 text-sm">{children}</div>
    </div>
  )
}

/** The table of agents and that of turns: a header, virtual rows in columns or in two lines, and a note below them. */
import type { ReactNode } from 'react'
import { VirtualRows, type RowsProps } from './rows.js'
import { Status } from './status.js'

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
}

export function Table<T>({ columns, isWide, note, ...rows }: TableProps<T>) {
  const head = <Head columns={columns} isWide={isWide} />
  return (
    <>
      <div className="min-h-0 flex-1">
        <VirtualRows {...rows} role="table" height={isWide ? 36 : 62} head={head} />
      </div>
      <p className="label border-t border-line px-3 py-1">{note}</p>
    </>
  )
}

/** A narrow table has no visible header, but screen readers read it. */
function Head({ columns, isWide }: { readonly columns: Columns; readonly isWide: boolean }) {
  const { className, titles, alignedRight = [] } = columns
  return (
    <div
      role="row"
      aria-rowindex={1}
      className={isWide ? `${className} h-[30px] border-b border-line text-xs font-medium text-ink-3` : 'sr-only'}
    >
      {titles.map((title) => (
        <span key={title} role="columnheader" className={alignedRight.includes(title) ? 'text-right' : ''}>
          {title}
        </span>
      ))}
    </div>
  )
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

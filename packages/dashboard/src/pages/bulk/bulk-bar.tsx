/** What can be done with the selected rows, at the end of a list. It has the same height with and without a selection. */
import type { ReactNode } from 'react'
import { count } from '../../model/text.js'
import type { Selection } from '../../parts/selection.js'

interface BulkBarProps {
  readonly selection: Selection
  /** How many rows match the filter; null: unknown. */
  readonly total: number | null
  readonly openActions: () => void
}

export function BulkBar({ selection, total, openActions }: BulkBarProps): ReactNode {
  const { ids, isAll } = selection
  const isSome = isAll || ids.size > 0
  const all = total === null ? 'all that match' : `all ${count(total)} that match`
  return (
    <div className="ml-auto flex min-h-8 flex-wrap items-center gap-2 text-sm" role="group" aria-label="Selection">
      <span aria-live="polite" className="text-ink-2">
        {isAll ? `${all} selected` : isSome ? `${count(ids.size)} selected` : ''}
      </span>
      {!isAll && (
        <button type="button" className="button" onClick={selection.all}>
          Select {all}
        </button>
      )}
      {isSome && (
        <button type="button" className="button" onClick={selection.clear}>
          Clear
        </button>
      )}
      <button
        type="button"
        className="button button-main"
        aria-keyshortcuts="a"
        disabled={!isSome}
        title="x selects a row, Shift+X a range, a opens the actions"
        onClick={openActions}
      >
        Actions…
      </button>
    </div>
  )
}

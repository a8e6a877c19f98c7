/** How much of a limit is used: a bar and the same as text. Without a limit, only the text. */
import type { BudgetUse } from '../model/board.js'

export function BudgetBar({ use }: { readonly use: BudgetUse | null }) {
  if (use === null) return null
  const part = Math.min(1, use.part ?? 0)
  const tone = use.part === null ? 'bg-rest' : use.part >= 1 ? 'bg-bad' : use.part >= 0.8 ? 'bg-wait' : 'bg-go'
  return (
    <span className="block">
      <span
        className={`block text-xs whitespace-nowrap ${use.part !== null && use.part >= 1 ? 'text-bad' : 'text-ink-3'}`}
      >
        {use.label}
      </span>
      {use.part !== null && (
        <span
          className="mt-0.5 block h-1 overflow-hidden rounded bg-rest-soft"
          role="img"
          aria-label={`budget: ${use.label}`}
        >
          <span className={`block h-full ${tone}`} style={{ width: `${Math.round(part * 100)}%` }} />
        </span>
      )}
    </span>
  )
}

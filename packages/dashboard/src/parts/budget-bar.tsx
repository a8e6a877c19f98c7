/** How much of a limit is gone: a bar and the same in words. Without a limit, only the words. */
import type { Burn as Burned } from '../model/board.js'

export function Burn({ burn }: { readonly burn: Burned | null }) {
  if (burn === null) return null
  const part = Math.min(1, burn.part ?? 0)
  const tone = burn.part === null ? 'bg-rest' : burn.part >= 1 ? 'bg-bad' : burn.part >= 0.8 ? 'bg-wait' : 'bg-go'
  return (
    <span className="block">
      <span
        className={`block text-xs whitespace-nowrap ${burn.part !== null && burn.part >= 1 ? 'text-bad' : 'text-ink-3'}`}
      >
        {burn.label}
      </span>
      {burn.part !== null && (
        <span
          className="mt-0.5 block h-1 overflow-hidden rounded bg-rest-soft"
          role="img"
          aria-label={`budget: ${burn.label}`}
        >
          <span className={`block h-full ${tone}`} style={{ width: `${Math.round(part * 100)}%` }} />
        </span>
      )}
    </span>
  )
}

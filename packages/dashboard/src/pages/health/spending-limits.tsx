/** What was spent of each limit per calendar day and month. Shows nothing if no limit is set. */
import { useQuery } from '@tanstack/react-query'
import { limitText } from '@bellwether/protocol/spending'
import { quotasQuery } from '../../api/queries.js'
import type { Spending } from '../../api/types.js'
import { oneLine } from '../../model/text.js'
import { Section } from '../../frame/page.js'
import { BudgetBar } from '../../parts/budget-bar.js'
import { At } from '../../parts/time.js'

export function SpendingLimits() {
  const { data } = useQuery(quotasQuery)
  const limits = data?.limits ?? []
  if (limits.length === 0) return null
  return (
    <Section title="Spending limits">
      <ul className="divide-y divide-line" aria-label="Spending limits">
        {limits.map((limit) => (
          <Limit key={`${limit.limit} ${limit.project_id}`} limit={limit} />
        ))}
      </ul>
      <p className="label px-3 py-1">
        Set by <code>[spending]</code> of <code>bellwether.toml</code>
      </p>
    </Section>
  )
}

function Limit({ limit }: { readonly limit: Spending }) {
  const uses = (['cost_micros', 'tokens'] as const).flatMap((kind) => {
    const { used, limit: most } = limit[kind]
    if (most === null) return []
    return [{ label: limitText(kind === 'tokens' ? 'tokens' : 'micros', used, most), part: used / most }]
  })
  return (
    <li className="space-y-1 px-3 py-2">
      <div>
        <bdi className="block truncate font-medium">{oneLine(limit.limit, 120)}</bdi>
        {limit.ends_at !== null && (
          <span className="text-sm text-ink-2">
            counts until <At at={limit.ends_at} />
            {limit.action === 'hold'
              ? '; when it is used up, turns wait'
              : `; then: ${limit.action.replaceAll('_', ' ')}`}
          </span>
        )}
      </div>
      {uses.map((use) => (
        <BudgetBar key={use.label} use={use} />
      ))}
    </li>
  )
}

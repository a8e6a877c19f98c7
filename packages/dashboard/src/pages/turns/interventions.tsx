/** The watchdog interventions of one turn. */
import type { TurnIntervention } from '../../api/types.js'
import { oneLine } from '../../model/text.js'
import { meaningOf } from '../../model/watchdog.js'
import { At } from '../../parts/time.js'

export function Interventions({ interventions }: { readonly interventions: readonly TurnIntervention[] }) {
  if (interventions.length === 0) return <p className="px-3 py-2 text-ink-3">No interventions</p>
  return (
    <ul className="divide-y divide-line">
      {interventions.map((intervention) => (
        <li key={intervention.intervention_id} className="px-3 py-2 text-sm">
          <div className="flex gap-2">
            <span className="min-w-0 flex-1 truncate font-mono text-xs font-medium">
              {oneLine(intervention.kind, 60)}
            </span>
            <span className="text-xs text-ink-3">
              <At at={intervention.created_at} />
            </span>
          </div>
          <p className="text-ink-2">
            {meaningOf(intervention.kind).how}: {oneLine(intervention.reason, 300)}
          </p>
        </li>
      ))}
    </ul>
  )
}

/** Accounts that reached a limit of their provider: until when their turns wait, and a button that lifts the hold. Shows nothing if there are none. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { liftHold } from '../../api/mutations.js'
import { quotasQuery } from '../../api/queries.js'
import type { Hold } from '../../api/types.js'
import { oneLine, plural } from '../../model/text.js'
import { Section } from '../../frame/page.js'
import { Chip } from '../../parts/status.js'
import { At } from '../../parts/time.js'

export function HeldAccounts() {
  const { data } = useQuery(quotasQuery)
  const holds = data?.holds ?? []
  if (holds.length === 0) return null
  return (
    <Section title="Held accounts">
      <ul className="divide-y divide-line" aria-label="Held accounts">
        {holds.map((hold) => (
          <HeldAccount key={hold.account} hold={hold} />
        ))}
      </ul>
    </Section>
  )
}

function HeldAccount({ hold }: { readonly hold: Hold }) {
  const client = useQueryClient()
  const lift = useMutation({
    mutationFn: () => liftHold(hold.account),
    onSettled: () => client.invalidateQueries({ queryKey: quotasQuery.queryKey }),
  })
  return (
    <li className="px-3 py-2">
      <div className="flex flex-wrap items-center gap-x-2">
        <bdi className="min-w-0 flex-1 truncate font-medium">{oneLine(hold.account, 120)}</bdi>
        <Chip tone="wait">{plural(hold.turns, 'turn')} waiting</Chip>
        <button type="button" className="button" disabled={lift.isPending} onClick={() => lift.mutate()}>
          Lift hold
        </button>
      </div>
      <p className="text-sm text-ink-2">
        {hold.probing ? (
          'a turn probes the account now'
        ) : (
          <>
            until <At at={hold.until} />
          </>
        )}
        {': '}
        <bdi>{oneLine(hold.reason, 300)}</bdi>
      </p>
      <p role="alert" className="text-sm text-bad">
        {lift.error === null ? '' : oneLine(lift.error.message, 200)}
      </p>
    </li>
  )
}

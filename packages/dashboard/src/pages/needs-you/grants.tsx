/** What people allowed for a turn or an agent, with a button that revokes it. Hidden while there is none. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { revokeGrant } from '../../api/mutations.js'
import { grantsQuery } from '../../api/queries.js'
import type { ApprovalGrant } from '../../api/types.js'
import { oneLine, plural } from '../../model/text.js'
import { CallText } from '../../parts/call-text.js'
import { Ago } from '../../parts/time.js'

export function Grants({ project }: { readonly project: string }) {
  const grants = useQuery(grantsQuery(project)).data?.grants ?? []
  if (grants.length === 0) return null
  return (
    <details className="text-left">
      <summary className="font-semibold">{plural(grants.length, 'grant')} in force</summary>
      <ul className="mt-2 space-y-2">
        {grants.map((grant) => (
          <li key={grant.grant_id} className="panel px-4 py-2">
            <Grant project={project} grant={grant} />
          </li>
        ))}
      </ul>
    </details>
  )
}

function Grant({ project, grant }: { readonly project: string; readonly grant: ApprovalGrant }) {
  const client = useQueryClient()
  const revoke = useMutation({
    mutationFn: () => revokeGrant(project, grant.grant_id),
    onSettled: () => client.invalidateQueries({ queryKey: ['grants', project] }),
  })
  return (
    <div className="space-y-1 text-sm">
      <p className="flex flex-wrap items-baseline gap-x-3">
        <bdi className="font-semibold">{oneLine(grant.agent_id, 80)}</bdi>
        <span>
          may run <bdi className="font-mono">{oneLine(grant.tool_name, 80)}</bdi>
          {grant.agent_turn_id === null ? '' : ' in its current turn'}
        </span>
        <span className="flex-1 text-ink-3">
          by <bdi>{oneLine(grant.granted_by, 80)}</bdi>, <Ago at={grant.granted_at} />, used {grant.uses} times
        </span>
        <button type="button" className="button" disabled={revoke.isPending} onClick={() => revoke.mutate()}>
          Revoke
        </button>
      </p>
      <CallText args={grant.arguments} />
      {grant.any_arguments.length > 0 && (
        <p className="text-ink-2">Any value: {oneLine(grant.any_arguments.join(', '), 300)}</p>
      )}
      <p role="alert" className="text-bad">
        {revoke.error === null ? '' : oneLine(revoke.error.message, 300)}
      </p>
    </div>
  )
}

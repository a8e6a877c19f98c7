/** A call that waits for a person: the exact command, arguments or diff, and the choices allow once, for the turn, for the agent, deny. */
import type { ApprovalScope } from '@bellwether/protocol'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { decideApproval } from '../../api/mutations.js'
import type { Approval, ApprovalDecision } from '../../api/types.js'
import { oneLine } from '../../model/text.js'
import { CallText } from '../../parts/call-text.js'
import { RequestHeader } from './request-header.js'

const scopes: readonly (readonly [ApprovalScope, string])[] = [
  ['once', 'Allow once'],
  ['turn', 'For this turn'],
  ['agent', 'For this agent'],
]

export function ApprovalCard({ project, approval }: { readonly project: string; readonly approval: Approval }) {
  const [reason, setReason] = useState('')
  const [free, setFree] = useState<ReadonlySet<string>>(new Set())
  const client = useQueryClient()
  const decide = useMutation({
    mutationFn: (decision: ApprovalDecision) => decideApproval(project, approval.approval_id, decision),
    onSettled: () =>
      Promise.all(['approvals', 'grants'].map((key) => client.invalidateQueries({ queryKey: [key, project] }))),
  })
  const isOver = decide.isPending || decide.isSuccess
  const allow = (scope: ApprovalScope) =>
    decide.mutate({
      decision: 'allow',
      for: scope,
      ...(scope === 'once' || free.size === 0 ? {} : { any_arguments: [...free] }),
    })
  const toggle = (name: string) =>
    setFree((old) => new Set(old.has(name) ? [...old].filter((one) => one !== name) : [...old, name]))
  const tool = oneLine(approval.tool_name, 80)
  return (
    <article className="panel px-4 py-3" aria-label={`${tool} of ${oneLine(approval.agent_id, 80)}`}>
      <RequestHeader project={project} request={approval} end="denied in">
        <span>
          asks to run <bdi className="font-mono">{tool}</bdi>
        </span>
      </RequestHeader>
      <div className="my-2">
        <CallText args={approval.arguments} />
      </div>
      {approval.may_have_run && (
        <p className="my-2 text-sm text-bad">
          An equal call was allowed before its worker was lost. It may have run: check before you allow it again.
        </p>
      )}
      <div className="flex flex-wrap items-center gap-2">
        {scopes.map(([scope, label], at) => (
          <button
            key={scope}
            type="button"
            className={at === 0 ? 'button button-main' : 'button'}
            disabled={isOver}
            onClick={() => allow(scope)}
            {...(at === 0 ? { 'data-first': true } : {})}
          >
            {label}
          </button>
        ))}
        <form
          className="flex flex-1 gap-2"
          aria-label="Deny"
          onSubmit={(event) => {
            event.preventDefault()
            decide.mutate({ decision: 'deny', ...(reason === '' ? {} : { reason }) })
          }}
        >
          <button type="submit" className="button" disabled={isOver}>
            Deny
          </button>
          <input
            className="field min-w-32 flex-1"
            aria-label="Reason for denying"
            placeholder="Reason (the agent reads it)"
            maxLength={2_000}
            value={reason}
            onChange={(event) => setReason(event.target.value)}
          />
        </form>
      </div>
      <details className="mt-2 text-sm">
        <summary className="text-ink-2">What “for this turn” and “for this agent” allow</summary>
        <p className="my-1 text-ink-2">
          Calls of this tool with equal arguments. Select the arguments that may have any value:
        </p>
        <div className="flex flex-wrap gap-3">
          {Object.keys(approval.arguments).map((name) => (
            <label key={name}>
              <input type="checkbox" checked={free.has(name)} onChange={() => toggle(name)} />{' '}
              <bdi className="font-mono">{oneLine(name, 80)}</bdi>
            </label>
          ))}
        </div>
      </details>
      <p role="alert" className="text-sm text-bad">
        {decide.error === null ? '' : oneLine(decide.error.message, 300)}
      </p>
      <p role="status" className="text-sm text-ink-2">
        {decide.isSuccess ? (decide.data.status === 'allowed' ? 'Allowed.' : 'Denied.') : ''}
      </p>
    </article>
  )
}

/** `bellwether approvals`: lists, allows and denies calls that wait for a person, and lists and revokes what people allowed for longer. */
import { defined } from '@bellwether/base'
import { approvalScopes, type ApprovalScope } from '@bellwether/protocol'
import { callLines } from '@bellwether/protocol/call-text'
import type { Approval, ApprovalGrant } from '@bellwether/protocol/http'
import { Command, Option } from 'commander'
import { plain } from '../../client/sanitize.js'
import { openClient, toServer, type ServerFlags } from '../shared/client.js'
import { jsonLines } from '../shared/options.js'
import { print, printList } from '../shared/output.js'
import { facts, instant } from '../shared/terminal.js'

const pageMax = 500
type ListFlags = ServerFlags & { readonly all?: boolean }
type AllowFlags = ServerFlags & { readonly for: ApprovalScope; readonly any?: string }

export function approvalsCommand(): Command {
  const approvals = new Command('approvals')
    .description('list, allow and deny calls that wait for a person; list and revoke grants')
    .helpCommand(false)
  toServer(approvals.command('list', { isDefault: true }))
    .description('list calls that wait, oldest first (the default)')
    .option('-a, --all', 'include decided calls, newest first, with who decided')
    .addOption(jsonLines())
    .action(async (flags: ListFlags) => {
      const query = { limit: pageMax, show: flags.all === true ? 'all' : 'waiting' } as const
      const { approvals: found } = await openClient(flags).ask('GET /projects/:project/approvals', { query })
      printList(flags, { approvals: found }, found, () =>
        found.length === 0
          ? flags.all === true
            ? 'No approvals'
            : 'No call waits for approval'
          : found.map(approvalText).join('\n\n'),
      )
    })
  toServer(approvals.command('allow <approval>'))
    .description('allow the call exactly as it is shown')
    .addOption(
      new Option('--for <scope>', 'once, or equal calls of this turn or this agent')
        .choices(approvalScopes)
        .default('once'),
    )
    .option('--any <names>', 'with --for turn or agent: arguments, separated by commas, that may have any value')
    .action(async (approval: string, flags: AllowFlags) => {
      const names = flags.any?.split(',').map((name) => name.trim())
      const result = await openClient(flags).ask('POST /projects/:project/approvals/:approval/decision', {
        params: { approval },
        body: { decision: 'allow', for: flags.for, ...defined({ any_arguments: names }) },
      })
      print(flags, result, () => 'Allowed')
    })
  toServer(approvals.command('deny <approval>'))
    .description('deny the call')
    .option('-r, --reason <text>', 'the reason; the agent reads it')
    .action(async (approval: string, flags: ServerFlags & { readonly reason?: string }) => {
      const { reason } = flags
      const result = await openClient(flags).ask('POST /projects/:project/approvals/:approval/decision', {
        params: { approval },
        body: { decision: 'deny', ...defined({ reason }) },
      })
      print(flags, result, () => 'Denied')
    })
  toServer(approvals.command('grants'))
    .description('list what people allowed for a turn or an agent, newest first')
    .addOption(jsonLines())
    .action(async (flags: ServerFlags) => {
      const { grants } = await openClient(flags).ask('GET /projects/:project/grants', { query: { limit: pageMax } })
      printList(flags, { grants }, grants, () =>
        grants.length === 0 ? 'No grants' : grants.map(grantText).join('\n\n'),
      )
    })
  toServer(approvals.command('revoke <grant>'))
    .description('revoke a grant: equal calls wait for a person again')
    .action(async (grant: string, flags: ServerFlags) => {
      const result = await openClient(flags).ask('DELETE /projects/:project/grants/:grant', { params: { grant } })
      print(flags, result, () => 'Revoked')
    })
  return approvals
}

const callText = (tool: string, args: Readonly<Record<string, unknown>>) =>
  [plain(tool), ...callLines(args).map(({ mark, text }) => `  ${mark} ${plain(text)}`)].join('\n')

const mayHaveRun =
  'an equal call was allowed before its worker was lost; it may have run. Check before you allow it again'

function approvalText(approval: Approval): string {
  const { status, scope, decided_by: by, decided_at: at, reason } = approval
  const decided: [string, string][] =
    status === 'waiting'
      ? [['decide by', `${instant(approval.deadline)}, then it is denied`]]
      : [
          [
            'status',
            `${status}${scope === null ? '' : ` (${scope})`}${by === null ? '' : ` by ${by}`}, ${instant(at)}`,
          ],
          ...(reason === null ? [] : [['reason', reason] as [string, string]]),
        ]
  const fields = facts([
    ['id', approval.approval_id],
    ['from', `${approval.agent_id}, turn ${approval.agent_turn_id}`],
    ['asked', instant(approval.asked_at)],
    ...(approval.may_have_run ? [['note', mayHaveRun] as [string, string]] : []),
    ...decided,
  ])
  return `${callText(approval.tool_name, approval.arguments)}\n${fields}`
}

function grantText(grant: ApprovalGrant): string {
  const fields = facts([
    ['id', grant.grant_id],
    ['for', `${grant.agent_id}${grant.agent_turn_id === null ? '' : `, turn ${grant.agent_turn_id}`}`],
    ...(grant.any_arguments.length === 0 ? [] : [['any value', grant.any_arguments.join(', ')] as const]),
    ['granted', `${instant(grant.granted_at)} by ${grant.granted_by}`],
    ['used', `${grant.uses} times${grant.last_used_at === null ? '' : `, last ${instant(grant.last_used_at)}`}`],
  ])
  return `${callText(grant.tool_name, grant.arguments)}\n${fields}`
}

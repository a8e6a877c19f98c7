/** Approvals on a real database: nothing runs without a decision, one decision counts, and grants cover exactly what was shown. */
import { expect, it } from 'vitest'
import { readApprovals, readGrants } from '../../src/kernel/reads/approvals.js'
import { expireApprovals, revokeGrant, type Decision } from '../../src/kernel/verbs/approvals/approvals.js'
import { readPmoCalls } from '../../src/kernel/verbs/tools/pmo_calls.js'
import { reclaim, resendCommands } from '../../src/kernel/verbs/watchdog/watchdog.js'
import { batchIdOfCall } from '../../src/kernel/verbs/batches/fork.js'
import { readBatch } from '../../src/kernel/reads/batches.js'
import { headOf } from '../support/kernel-rows.js'
import { fullWatchWindow, suspendedTurn } from '../support/kernel-turns.js'
import { kernelPerTest, project, target } from '../support/kernel.js'

const t = kernelPerTest()
const silent = { projectId: project, silentSeconds: 30, max: 10 }
const open = (tools = ['deploy']) => t.kernel.openCalls({ ...silent, tools })
const waiting = () => readApprovals(t.db, { projectId: project, show: 'waiting', limit: 10 })
const decide = (approvalId: string, more: Partial<Decision> = {}) =>
  t.kernel.decideApproval({ projectId: project, approvalId, by: 'ann', ...more })
const commands = () => t.one<{ n: number }>(`select count(*)::int as n from state.events where kind = 'command'`)

/** A turn that waits for a call of a tool that is declared with approve: ask. */
async function asking(agentId = 'coder', args: object = { to: 'production' }, toolCallId = 'call-1') {
  await t.kernel.putTool({
    projectId: project,
    toolName: 'deploy',
    options: { approve: 'ask', approve_within_seconds: 600, timeout_seconds: 60 },
  })
  const turn = await suspendedTurn(t, agentId, [{ toolCallId, toolName: 'deploy', args }])
  return { turn, toolCallId }
}
const resultOf = async (agentTurnId: string) => {
  await t.claim()
  return (await t.kernel.readResults(agentTurnId))[0]
}

it('a call of a tool with approve: ask reaches no host before a person allows it, and then one', async () => {
  await t.agents('coder')
  const { turn, toolCallId } = await asking()
  expect(await open()).toEqual([])
  expect(await t.kernel.startTool(project, toolCallId, 'host-1')).toMatchObject({ what: 'waiting', started_by: null })
  expect(await t.kernel.report([{ projectId: project, toolCallId, status: 'success' }])).toEqual(['ignored'])
  await t.advance(60)
  expect(await resendCommands(t.db, target, 5)).toEqual([])
  expect((await commands()).n).toBe(0)
  const [approval] = await waiting()
  expect(approval).toMatchObject({
    agent_id: 'coder',
    agent_turn_id: turn.agentTurnId,
    tool_name: 'deploy',
    arguments: { to: 'production' },
    status: 'waiting',
  })
  expect(await decide(approval!.approval_id, { scope: 'once' })).toMatchObject({ result: 'decided' })
  expect((await commands()).n).toBe(1)
  expect(await open()).toMatchObject([{ tool_call_id: toolCallId }])
  expect(await t.kernel.startTool(project, toolCallId, 'host-1')).toMatchObject({ what: 'started' })
  expect(await t.kernel.startTool(project, toolCallId, 'host-2')).toMatchObject({ what: 'unknown' })
  expect(await waiting()).toEqual([])
})

it('a denied call never starts; the turn resumes with the reason', async () => {
  await t.agents('coder')
  const { turn, toolCallId } = await asking()
  const [approval] = await waiting()
  await decide(approval!.approval_id, { reason: 'not on Friday' })
  expect(await t.kernel.startTool(project, toolCallId, 'host-1')).toMatchObject({ what: 'gone' })
  expect(await resultOf(turn.agentTurnId)).toMatchObject({
    status: 'failed',
    error: { code: 'denied', message: 'a person denied the call: not on Friday' },
  })
})

it('a second, a late and an orphaned decision say what happened and change nothing', async () => {
  await t.agents('coder', 'late', 'gone')
  await asking()
  const [first] = await waiting()
  await decide(first!.approval_id)
  expect(await decide(first!.approval_id, { scope: 'agent', by: 'bob' })).toMatchObject({
    result: 'already',
    detail: { status: 'denied', decided_by: 'ann' },
  })
  expect(await readGrants(t.db, project, 10)).toEqual([])
  await asking('late', {}, 'call-2')
  const [second] = await waiting()
  await t.advance(601)
  expect(await waiting()).toEqual([])
  expect(await decide(second!.approval_id, { scope: 'once' })).toMatchObject({ result: 'expired' })
  const { turn } = await asking('gone', {}, 'call-3')
  const [third] = await waiting()
  await t.kernel.stop({ projectId: project, agentTurnId: turn.agentTurnId })
  expect(await decide(third!.approval_id, { scope: 'once' })).toMatchObject({ result: 'ended' })
  expect(await decide('no-such-approval', { scope: 'once' })).toMatchObject({ result: 'unknown' })
  expect((await commands()).n).toBe(0)
})

it('without a decision before the deadline the call is denied', async () => {
  await t.agents('coder')
  const { turn, toolCallId } = await asking()
  await t.advance(599)
  expect(await expireApprovals(t.db, t.ids)).toEqual([])
  await t.advance(2)
  await expireApprovals(t.db, t.ids)
  expect(await t.kernel.startTool(project, toolCallId, 'host-1')).toMatchObject({ what: 'gone' })
  expect(await resultOf(turn.agentTurnId)).toMatchObject({ status: 'failed', error: { code: 'approval_expired' } })
  expect(await expireApprovals(t.db, t.ids)).toEqual([])
})

it('a grant covers the tool and the arguments that the person saw, for its agent, until it is revoked', async () => {
  await t.agents('coder', 'other')
  await asking('coder', { to: 'staging', version: '1' })
  const [approval] = await waiting()
  await decide(approval!.approval_id, { scope: 'agent', anyArguments: ['version'] })
  const [grant] = await readGrants(t.db, project, 10)
  expect(grant).toMatchObject({
    agent_id: 'coder',
    agent_turn_id: null,
    tool_name: 'deploy',
    arguments: { to: 'staging' },
    any_arguments: ['version'],
    granted_by: 'ann',
  })
  const granted = async (agent: string, args: object) => {
    const { granted } = await t.one<{ granted: string | null }>(
      `select state.granted('${project}', '${agent}', 'some-turn', 'deploy', '${JSON.stringify(args)}') as granted`,
    )
    return granted !== null
  }
  expect(await granted('coder', { to: 'staging', version: '2' })).toBe(true)
  expect(await granted('coder', { to: 'staging' })).toBe(true)
  for (const args of [{ to: 'production', version: '1' }, { to: 'staging', force: true }, { to: ['staging'] }, {}])
    expect(await granted('coder', args)).toBe(false)
  expect(await granted('other', { to: 'staging', version: '1' })).toBe(false)
  expect(await revokeGrant(t.db, project, grant!.grant_id)).toBe(true)
  expect(await granted('coder', { to: 'staging', version: '2' })).toBe(false)
  expect(await revokeGrant(t.db, project, grant!.grant_id)).toBe(false)
})

it('a grant for one turn covers no other turn of its agent', async () => {
  await t.agents('coder')
  const { turn } = await asking()
  const [approval] = await waiting()
  await decide(approval!.approval_id, { scope: 'turn' })
  const granted = (agentTurnId: string) =>
    t.one(`select state.granted($1, 'coder', $2, 'deploy', '{"to": "production"}') as id`, project, agentTurnId)
  const [grant] = await readGrants(t.db, project, 10)
  expect(await granted(turn.agentTurnId)).toEqual({ id: grant!.grant_id })
  expect(await granted('another-turn')).toEqual({ id: null })
})

it('asks no person for a call that another host has started and that may have run', async () => {
  await t.agents('coder')
  await suspendedTurn(t, 'coder', [{ toolCallId: 'm-1', toolName: 'deploy', args: {} }])
  await t.kernel.startTool(project, 'm-1', 'host-1')
  const asked = { projectId: project, toolCallId: 'm-1', withinSeconds: 600, runSeconds: 60 }
  expect(await t.kernel.askForCall({ ...asked, host: 'host-2' })).toBe('gone')
  expect(await waiting()).toEqual([])
  expect(await t.kernel.askForCall({ ...asked, host: 'host-1' })).toBe('waiting')
})

it('a tool that only its host declares with approve: ask waits, too', async () => {
  await t.agents('coder')
  await suspendedTurn(t, 'coder', [{ toolCallId: 'm-1', toolName: 'deploy', args: { a: 1 } }])
  const asked = { projectId: project, toolCallId: 'm-1', host: 'host-1', withinSeconds: 600, runSeconds: 60 }
  expect(await open()).toHaveLength(1)
  expect(await Promise.all([t.kernel.askForCall(asked), t.kernel.askForCall(asked)])).toEqual(['waiting', 'waiting'])
  expect(await open()).toEqual([])
  const [approval, ...more] = await waiting()
  expect(more).toEqual([])
  expect((await headOf(t, 'coder')).resume_deadline!.getTime()).toBeGreaterThan(approval!.deadline.getTime())
  await decide(approval!.approval_id, { scope: 'once' })
  expect(await t.kernel.askForCall(asked)).toBe('allowed')
})

it('delegate with approve: ask creates no child turn before a person allows it', async () => {
  await t.agents('boss', 'clerk')
  await t.kernel.putTool({ projectId: project, toolName: 'delegate', options: { approve: 'ask' } })
  const args = { agent: 'clerk', instruction: 'add' }
  const batch = { tasks: [{ targetStrategy: 'reuse' as const, targetRef: 'clerk', instruction: 'add' }] }
  await suspendedTurn(t, 'boss', [{ toolCallId: 'd-1', toolName: 'delegate', args, batch }])
  expect(await readBatch(t.db, project, batchIdOfCall(project, 'd-1'))).toBeUndefined()
  expect(await readPmoCalls(t.db, 10)).toEqual([])
  const [approval] = await waiting()
  await decide(approval!.approval_id, { scope: 'once' })
  expect(await readPmoCalls(t.db, 10)).toMatchObject([{ toolCallId: 'd-1', pmoTool: 'delegate', args }])
})

it('the time in which a turn waits for an approval is not working time', async () => {
  await t.agents('coder')
  const { turn } = await asking()
  await t.advance(500)
  const [approval] = await waiting()
  await decide(approval!.approval_id, { scope: 'once' })
  await t.advance(20)
  const { ms } = await t.one<{ ms: number }>(`select state.working_ms('${turn.agentTurnId}')::int as ms`)
  expect(ms).toBeGreaterThanOrEqual(20_000)
  expect(ms).toBeLessThan(30_000)
})

const program = (more: object = {}) => ({
  approvalId: t.ids.next(),
  toolName: 'Bash',
  args: { command: 'rm -rf build' },
  withinSeconds: 600,
  ...more,
})

it('a worker that takes over finds the open request, its unused approval counts once, and no death is charged', async () => {
  await t.agents('coder')
  const turn = await t.running('coder')
  const first = await t.kernel.askApproval({ ...turn, ...program() })
  expect(first.what).toBe('waiting')
  // The same epoch asks for a second equal call: that is another call.
  const twin = await t.kernel.askApproval({ ...turn, ...program() })
  expect(twin.approval_id).not.toBe(first.approval_id)
  let next = turn
  // More deaths than a turn survives.
  for (let restart = 1; restart <= 4; restart += 1) {
    await t.advance(60)
    await reclaim(t.db, target, 30, 3, fullWatchWindow)
    next = (await t.claim(100, `worker-${restart + 1}`))[0]!
  }
  expect(next).toMatchObject({ agentTurnId: turn.agentTurnId, turnEpoch: turn.turnEpoch + 4, takenOver: true })
  expect(await decide(first.approval_id!, { scope: 'once' })).toMatchObject({ result: 'decided' })
  expect(await t.kernel.takeDecision(first.approval_id!, turn.turnEpoch)).toMatchObject({ what: 'stale' })
  const again = await t.kernel.askApproval({ ...next, ...program() })
  expect(again).toMatchObject({ what: 'waiting', approval_id: first.approval_id })
  expect(await t.kernel.takeDecision(first.approval_id!, next.turnEpoch)).toMatchObject({ what: 'allowed' })
  const other = await t.kernel.askApproval({ ...next, ...program() })
  expect(other.approval_id).toBe(twin.approval_id)
  expect(await t.kernel.askApproval({ ...turn, ...program() })).toMatchObject({ what: 'stale' })
})

it('an allowed call whose worker died before the program ended is asked again, and the request says that it may have run', async () => {
  await t.agents('coder')
  const turn = await t.running('coder')
  const first = await t.kernel.askApproval({ ...turn, ...program() })
  await decide(first.approval_id!, { scope: 'once' })
  expect(await t.kernel.takeDecision(first.approval_id!, turn.turnEpoch)).toMatchObject({ what: 'allowed' })
  // An equal call of the same program is another call, and no worker was lost.
  const twin = await t.kernel.askApproval({ ...turn, ...program() })
  expect(await waiting()).toMatchObject([{ approval_id: twin.approval_id, may_have_run: false }])
  await t.advance(60)
  await reclaim(t.db, target, 30, 3, fullWatchWindow)
  const [next] = await t.claim(100, 'successor')
  const again = await t.kernel.askApproval({ ...next!, ...program() })
  expect(again).toMatchObject({ what: 'waiting', approval_id: twin.approval_id })
  expect(await waiting()).toMatchObject([{ approval_id: twin.approval_id, may_have_run: true }])
  expect(await t.kernel.takeDecision(again.approval_id!, next!.turnEpoch)).toMatchObject({ what: 'waiting' })
})

it('a decision after the end of the turn, and one after the deadline of a program’s request, change nothing', async () => {
  await t.agents('coder', 'other')
  const turn = await t.running('coder')
  const asked = await t.kernel.askApproval({ ...turn, ...program() })
  await t.kernel.deliver({ ...turn, status: 'success', content: { text: 'done' } })
  expect(await decide(asked.approval_id!, { scope: 'agent' })).toMatchObject({ result: 'ended' })
  const late = await t.running('other')
  const open = await t.kernel.askApproval({ ...late, ...program({ withinSeconds: 20 }) })
  await t.advance(21)
  expect(await decide(open.approval_id!, { scope: 'once' })).toMatchObject({ result: 'expired' })
  expect(await t.kernel.takeDecision(open.approval_id!, late.turnEpoch)).toMatchObject({ what: 'expired' })
  expect(await readGrants(t.db, project, 10)).toEqual([])
})

it('a denial counts for equal calls of the whole turn, and too many open requests are refused', async () => {
  await t.agents('coder')
  const turn = await t.running('coder')
  const first = await t.kernel.askApproval({ ...turn, ...program() })
  await decide(first.approval_id!, { reason: 'no' })
  expect(await t.kernel.askApproval({ ...turn, ...program() })).toMatchObject({
    what: 'denied',
    reason: 'no',
    decided_by: 'ann',
  })
  for (let at = 0; at < 50; at += 1) {
    const asked = await t.kernel.askApproval({ ...turn, ...program({ args: { command: `echo ${at}` } }) })
    expect(asked.what).toBe('waiting')
  }
  expect(await t.kernel.askApproval({ ...turn, ...program({ args: {} }) })).toMatchObject({ what: 'full' })
})

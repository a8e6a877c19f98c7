/** Hazard 11: a tool host claims a call before it acts; an unstarted command is resent until the deadline. */
import { expect, it } from 'vitest'
import { resendCommands } from '../../../src/kernel/verbs/watchdog/watchdog.js'
import { kernelPerFile, project, target } from '../../support/kernel.js'

const t = kernelPerFile()
let calls = 0

async function waiting(agentId: string, idempotent = false) {
  await t.agents(agentId)
  const turn = await t.running(agentId)
  const toolCallId = `call-${(calls += 1)}`
  const call = { toolCallId, toolName: 'grep', args: { q: 'x' }, idempotent }
  await t.kernel.suspend({ ...turn, stepId: t.ids.next(), calls: [call] }, 30)
  return { turn, toolCallId }
}
const commands = async () =>
  (await t.one<{ count: number }>("select count(*) as count from state.events where kind = 'command'")).count

it('lets one host start a call, also when it repeats the request', async () => {
  const { toolCallId } = await waiting('ann')
  const first = await t.kernel.startTool(project, toolCallId, 'host-1')
  expect(first).toMatchObject({ what: 'started', tool_name: 'grep', arguments: { q: 'x' } })
  expect(await t.kernel.startTool(project, toolCallId, 'host-1')).toMatchObject({ what: 'started' })
  expect(await t.kernel.startTool(project, toolCallId, 'host-2')).toMatchObject({
    what: 'unknown',
    started_by: 'host-1',
  })
})

it('lets another host start an idempotent call again', async () => {
  const { toolCallId } = await waiting('bob', true)
  await t.kernel.startTool(project, toolCallId, 'host-1')
  expect(await t.kernel.startTool(project, toolCallId, 'host-2')).toMatchObject({
    what: 'started',
    started_by: 'host-2',
  })
})

it('returns gone to a host if no turn waits any more, and undefined for an unknown call', async () => {
  const { turn, toolCallId } = await waiting('cid')
  await t.kernel.stop({ projectId: project, agentTurnId: turn.agentTurnId })
  expect(await t.kernel.startTool(project, toolCallId, 'host-1')).toMatchObject({ what: 'gone' })
  expect(await t.kernel.startTool(project, 'no-such-call', 'host-1')).toBeUndefined()
})

it('resends an unstarted command, not a started one, and none after the deadline', async () => {
  const { toolCallId } = await waiting('dan')
  const started = await waiting('eve')
  await t.kernel.startTool(project, started.toolCallId, 'host-1')
  const before = await commands()
  expect(await resendCommands(t.db, target, 5)).toEqual([])
  await t.advance(6)
  const resent = await resendCommands(t.db, target, 5)
  expect(resent.map(({ detail }) => detail)).toContain(toolCallId)
  expect(resent.map(({ detail }) => detail)).not.toContain(started.toolCallId)
  expect(await commands()).toBe(before + resent.length)
  expect(await resendCommands(t.db, target, 5)).toEqual([])
  await t.advance(60)
  expect(await resendCommands(t.db, target, 5)).toEqual([])
})

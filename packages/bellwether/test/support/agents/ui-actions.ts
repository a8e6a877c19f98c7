/** Carries out a person's action on an agent of a test kernel, with whatever runs the agent's turns. */
import type { Card } from '../../../src/kernel/verbs/cards.js'
import { project, type TestKernel } from '../kernel.js'
import { cardsIn, eventsOf, headOf, turnRow, waitsOf, type InboxRow } from '../kernel-rows.js'
import { reportSuccess } from '../kernel-turns.js'

const actionTool = 'refund'

export interface CarriedOut {
  readonly row: InboxRow
  readonly deliverable: unknown
  /** The subjects of the commands that were sent. */
  readonly commands: readonly string[]
  /** The cards that the turn wrote. */
  readonly cards: readonly Pick<Card, 'type' | 'role' | 'content'>[]
}

/** `step` claims and runs what is pending. The tool answers once, after the turn has suspended. */
export async function carryOutAction(
  t: TestKernel,
  agentId: string,
  step: () => Promise<unknown>,
): Promise<CarriedOut> {
  await t.kernel.putTool({ projectId: project, toolName: actionTool })
  const action = { projectId: project, agentId, actionId: `${agentId}-click`, toolName: actionTool }
  const { what, agentTurnId } = await t.kernel.uiAction({ ...action, args: { order: 7 }, requestedBy: 'key desk' })
  if (what !== 'accepted' || agentTurnId === null) throw new Error(`the action was ${what}`)
  await step()
  const { status } = await headOf(t, agentId)
  const [wait, ...others] = await waitsOf(t, agentTurnId)
  if (status !== 'suspended' || wait === undefined || others.length > 0)
    throw new Error(`the turn is ${status} and waits for ${(await waitsOf(t, agentTurnId)).length} calls`)
  await reportSuccess(t, wait.tool_call_id, 'refunded order 7')
  await step()
  const row = await turnRow(t, agentTurnId)
  const card = row.deliverable_card_id === null ? undefined : await t.kernel.readCard(row.deliverable_card_id)
  const cards = await cardsIn(t, (await headOf(t, agentId)).output_box_id)
  return {
    row,
    deliverable: card?.content,
    commands: (await eventsOf(t, agentTurnId, 'command')).map((event) => event.subject),
    cards: cards.filter((one) => one.metadata['agent_turn_id'] === agentTurnId),
  }
}

/** What an action on any agent leaves behind, whatever executes the agent's turns. */
export const carriedOut = {
  row: { message_type: 'ui_action', status: 'consumed', outcome: 'success', error: null },
  deliverable: { text: 'refunded order 7' },
  commands: [`bw.v1.${project}.public.cmd.tool.${actionTool}.call`],
  cards: [
    {
      type: 'tool.call',
      role: 'user',
      content: { tool_name: actionTool, arguments: { order: 7 }, requested_by: 'key desk' },
    },
    { type: 'tool.result', content: { tool_name: actionTool, status: 'success', result: 'refunded order 7' } },
    { type: 'task.deliverable' },
  ],
}

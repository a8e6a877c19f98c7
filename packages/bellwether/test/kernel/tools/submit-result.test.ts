import { expect, it } from 'vitest'
import type { ToolResult } from '@bellwether/protocol/http'
import type { ToolCall } from '../../../src/kernel/verbs/turn/suspend.js'
import { kernelPerFile, project } from '../../support/kernel.js'
import { cardsIn, eventsOf, headOf, turnRow, waitsOf } from '../../support/kernel-rows.js'
import { enqueueTurn } from '../../support/kernel-turns.js'
import { runTurns, testWorker } from '../../support/worker.js'

const t = kernelPerFile()

const resultFields = [{ name: 'title', required: true, type: 'string' }]
const good = { fields: [{ name: 'title', value: 'Moby Dick' }] }
const submit = (args: unknown): ToolCall => ({ toolCallId: t.ids.next(), toolName: 'submit_result', args })

/** Runs one turn of an agent that makes these steps in order; returns the results it got before each. */
async function run(agentId: string, steps: (() => ToolCall[])[]) {
  await t.agents(agentId)
  const { agentTurnId } = await enqueueTurn(t, agentId, { resultFields })
  const received: (readonly ToolResult[])[] = []
  const worker = testWorker(t, () => async ({ results }) => {
    received.push(results)
    return { suspend: { calls: steps[received.length - 1]!() } }
  })
  await runTurns(worker)
  const row = await turnRow(t, agentTurnId)
  const card = row.deliverable_card_id === null ? undefined : await t.kernel.readCard(row.deliverable_card_id)
  return { agentTurnId, received, row, content: card?.content }
}

it('[T4.4] submit_result ends the turn with its fields; no tool is registered, commanded or waited for', async () => {
  const { agentTurnId, row, content } = await run('a', [() => [submit(good)]])
  expect(row).toMatchObject({ outcome: 'success', error: null })
  expect(content).toEqual(good)
  expect(await headOf(t, 'a')).toMatchObject({ status: 'idle' })
  expect(await eventsOf(t, agentTurnId, 'command')).toEqual([])
  expect(await waitsOf(t, agentTurnId)).toEqual([])
  expect(await t.all('select from resource.tools')).toEqual([])
})

it('[T4.4] a registered tool with that name changes nothing: no command is sent', async () => {
  await t.kernel.putTool({ projectId: project, toolName: 'submit_result', targetSubject: 'cmd.tool.evil.call' })
  const { agentTurnId, row } = await run('b', [() => [submit(good)]])
  expect(row.outcome).toBe('success')
  expect(await eventsOf(t, agentTurnId, 'command')).toEqual([])
  await t.all('delete from resource.tools')
})

it('[T4.4] [T4.2a] a refused submission returns the reason to the agent, which may submit again', async () => {
  const { agentTurnId, received, row, content } = await run('c', [
    () => [submit({ text: 'no fields' })],
    () => [submit({ fields: [{ name: 'title', value: 7 }] })],
    () => [submit(good)],
  ])
  expect(
    received.map((results) => results.map(({ tool_name, status, error }) => ({ tool_name, status, error }))),
  ).toEqual([
    [],
    [
      {
        tool_name: 'submit_result',
        status: 'failed',
        error: { code: 'missing_fields', message: 'required fields are missing: title' },
      },
    ],
    [
      {
        tool_name: 'submit_result',
        status: 'failed',
        error: { code: 'wrong_type', message: 'title must be of type string' },
      },
    ],
  ])
  expect([row.outcome, content]).toEqual(['success', good])
  expect(await eventsOf(t, agentTurnId, 'task')).toHaveLength(1)
})

it('[T4.4] submit_result is refused next to another call, and the other call is not sent either', async () => {
  const { agentTurnId, received, row } = await run('d', [
    () => [submit(good), { toolCallId: 'grep-1', toolName: 'grep', args: {} }],
    () => [submit(good)],
  ])
  expect(received[1]).toMatchObject([{ error: { code: 'not_the_only_call' } }])
  expect(row.outcome).toBe('success')
  expect(await eventsOf(t, agentTurnId, 'command')).toEqual([])
})

it('[T4.4] the third refusal fails the turn with a deliverable that contains the reason', async () => {
  const { received, row, content } = await run(
    'e',
    Array.from({ length: 9 }, () => () => [submit({ text: 'no' })]),
  )
  expect(received).toHaveLength(3)
  expect(row).toMatchObject({ outcome: 'failed', error: 'submit_result_missing_fields' })
  const text = 'The result was rejected 3 times. Last reason: required fields are missing: title.'
  expect(content).toEqual({ text, fallback: expect.objectContaining({ reason: text }) as object })
  expect((await cardsIn(t, (await headOf(t, 'e')).output_box_id)).map((card) => card.type)).toEqual([
    'task.deliverable',
  ])
})

it('[T4.4] a worker that loses its turn during the submission writes nothing', async () => {
  const { row } = await run('f', [() => [submit({ text: 'no' })], () => [submit(good)]])
  expect(row.outcome).toBe('success')
  await t.agents('g')
  const { agentTurnId } = await enqueueTurn(t, 'g', { resultFields })
  const worker = testWorker(t, () => async () => {
    await t.kernel.stop({ projectId: project, agentTurnId })
    return { suspend: { calls: [submit(good)] } }
  })
  await runTurns(worker)
  expect(await eventsOf(t, agentTurnId, 'task')).toMatchObject([{ payload: { status: 'canceled' } }])
})

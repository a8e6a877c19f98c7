/** One invalid item, tool, agent or answer is rejected by name and does not affect the others. */
import { InvalidInput } from '@bellwether/protocol'
import { expect, it } from 'vitest'
import { openRelay } from '../../src/pmo/relay.js'
import type { EventStream } from '../../src/ports/stream/stream.js'
import { kernelPerFile, project, target } from '../support/kernel.js'
import { quietLog } from '../support/quiet-log.js'
import { runTurns, testWorker, turnsDone } from '../support/worker.js'

const t = kernelPerFile()

const outcome = (agentId: string) =>
  t.one<{ outcome: string | null; error: string | null }>(
    'select outcome, error from state.turns where agent_id = $1 order by created_at desc limit 1',
    agentId,
  )
const calls = (...ids: string[]) => ids.map((toolCallId) => ({ toolCallId, toolName: 'grep', args: {} }))
const workerOf = (answer: () => Promise<never> | Promise<object>) => testWorker(t, () => answer as never)

it('accepts the valid turns of a batch and rejects the invalid one in its place', async () => {
  await t.agents('ann')
  const results = await t.kernel.enqueueMany([
    { projectId: project, agentId: 'ann', instruction: 'one' },
    { projectId: project, agentId: 'ann', instruction: 'no\0' },
    { projectId: project, agentId: 'ann', instruction: 'deep', recursionDepth: 3e9 },
    { projectId: project, agentId: 'ann', instruction: 'two' },
  ])
  expect(results.map((result) => (result instanceof InvalidInput ? result.code : result.status))).toEqual([
    'pending',
    'invalid_text',
    'invalid_recursion_depth',
    'queued',
  ])
})

it('stores a long tool error in its card, and its code in the inbox', async () => {
  await t.agents('bob')
  const turn = await t.running('bob')
  await t.kernel.suspend({ ...turn, stepId: 's-bob', calls: calls('b1', 'b2') }, 30)
  const error = { code: 'crashed', message: 'x'.repeat(300_000) }
  const receipt = { projectId: project, status: 'failed', error } as const
  expect(
    await t.kernel.report([
      { ...receipt, toolCallId: 'b1' },
      { ...receipt, toolCallId: 'b2' },
    ]),
  ).toEqual(['reported', 'reported'])
  expect(await t.one("select payload -> 'error' as error from state.agent_inbox where correlation_id = 'b1'")).toEqual({
    error: { code: 'crashed' },
  })
})

it('rejects an infinite deadline and an invalid subject', async () => {
  const agent = { projectId: project, agentId: 'cid', workerTarget: target }
  await expect(t.kernel.putAgents([{ ...agent, turnDeadlineSeconds: Number.MAX_SAFE_INTEGER }])).rejects.toMatchObject({
    code: 'invalid_turn_deadline',
  })
  for (const targetSubject of ['', 'cmd.my tool', 'cmd.*', 'evt.agent.x.task']) {
    await expect(t.kernel.putTool({ projectId: project, toolName: 'grep', targetSubject })).rejects.toMatchObject({
      code: 'invalid_subject',
    })
  }
})

it.each([
  ['nothing', undefined],
  ['no calls', { suspend: {} }],
  ['an unknown status', { deliver: { text: 'x' }, status: 'ok' }],
  [
    'an endless timeout',
    { suspend: { calls: [{ toolCallId: 'x', toolName: 'grep', args: {}, timeoutSeconds: Number.MAX_SAFE_INTEGER }] } },
  ],
  [
    'an unknown end',
    { suspend: { calls: [{ toolCallId: 'y', toolName: 'grep', args: {}, afterExecution: 'finish' }] } },
  ],
])('fails a turn at once when its agent answers %s', async (name, answer) => {
  const agentId = name.replaceAll(' ', '-')
  await t.agents(agentId)
  await t.kernel.enqueue({ projectId: project, agentId })
  let runs = 0
  const worker = workerOf(async () => {
    runs += 1
    return answer as object
  })
  while ((await worker.step()).started > 0) await turnsDone(worker)
  expect(await outcome(agentId)).toMatchObject({ outcome: 'failed' })
  expect(runs).toBeGreaterThan(0)
})

it('[T3.3c] delivers a failed result that ends the turn as a failure', async () => {
  await t.agents('dan')
  const turn = await t.running('dan')
  await t.kernel.suspend(
    {
      ...turn,
      stepId: 's-dan',
      calls: [{ toolCallId: 'd1', toolName: 'grep', args: {}, afterExecution: 'terminate' }],
    },
    30,
  )
  await t.kernel.report([{ projectId: project, toolCallId: 'd1', status: 'failed', error: { code: 'no_disk' } }])
  const worker = workerOf(async () => ({ deliver: { text: 'never asked' } }))
  await runTurns(worker)
  expect(await outcome('dan')).toEqual({ outcome: 'failed', error: 'no_disk' })
})

it('reports that more receipts are pending when a claim is full', async () => {
  await t.agents('eve')
  const turn = await t.running('eve')
  const ids = Array.from({ length: 5 }, (_, index) => `e${index}`)
  await t.kernel.suspend({ ...turn, stepId: 's-eve', calls: calls(...ids) }, 30)
  await t.kernel.report(
    ids.map((toolCallId) => ({ projectId: project, toolCallId, status: 'success', result: 1 }) as const),
  )
  const claimant = { workerTarget: target, workerId: 'w1', max: 2, resumeLeaseSeconds: 30 }
  expect(await t.kernel.claim(claimant)).toMatchObject({ turns: [], again: true })
})

it('[W2.3b] returns already for a repeated suspend after another worker resumed the turn, and does not resume with old results', async () => {
  await t.agents('fay')
  const turn = await t.running('fay')
  const first = { ...turn, stepId: 's1', calls: calls('f1') }
  await t.kernel.suspend(first, 30)
  await t.kernel.report([{ projectId: project, toolCallId: 'f1', status: 'success', result: 1 }])
  await t.claim()
  expect(await t.kernel.resume(turn, 'w2', 's1')).toBe('resumed')
  expect(await t.kernel.suspend(first, 30)).toBe('already')
  await t.kernel.suspend({ ...turn, stepId: 's2', calls: calls('f2') }, 30)
  await t.kernel.report([{ projectId: project, toolCallId: 'f2', status: 'success', result: 2 }])
  await t.claim()
  expect(await t.kernel.resume(turn, 'w1', 's1')).toBe('stale')
  expect(await t.kernel.resume(turn, 'w2', 's2')).toBe('resumed')
})

it('[T5.2] restores the head’s own output box after a turn with another box', async () => {
  await t.agents('gus', 'hal')
  const box = async (agentId: string) =>
    (
      await t.one<{ output_box_id: string }>(
        'select output_box_id from state.agent_state_head where agent_id = $1',
        agentId,
      )
    ).output_box_id
  const [own, other] = [await box('gus'), await box('hal')]
  await t.kernel.enqueue({ projectId: project, agentId: 'gus', outputBoxId: other })
  expect(await box('gus')).toBe(other)
  const turn = (await t.claim()).find(({ agentId }) => agentId === 'gus')!
  await t.kernel.deliver({ ...turn, status: 'success', content: { text: 'x' } })
  expect(await box('gus')).toBe(own)
})

it('skips an event that the stream rejects, and publishes the others', async () => {
  const taken: string[] = []
  const stream: EventStream = {
    kind: 'nats',
    remembers: true,
    lastCursor: async () => undefined,
    async publish(events) {
      if (events.some(({ subject }) => subject.includes('.fay.')))
        throw new InvalidInput('no', { code: 'invalid_event' })
      taken.push(...events.map(({ subject }) => subject))
      return 'ok'
    },
    close: async () => undefined,
  }
  const published = await openRelay({ db: t.db, stream, log: quietLog }).step()
  expect(taken.length).toBeGreaterThan(5)
  expect(published).toBeGreaterThan(taken.length)
})

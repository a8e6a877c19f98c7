import { systemClock } from '@bellwether/base'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { openTraces } from '../../src/telemetry/traces.js'
import { startFleet } from '../support/processes/fleet.js'
import { forkFrom, join, reuse } from '../support/forks.js'
import { kernelPerFile, project } from '../support/kernel.js'
import { deliverTurn, enqueueTurn, reportSuccess, suspendedTurn } from '../support/kernel-turns.js'
import { until } from '../support/until.js'
import { startCollector, type Collector, type SeenSpan } from './collector.js'

const t = kernelPerFile({ time: 'real' })
let collector: Collector
beforeAll(async () => {
  collector = await startCollector()
  // The first step sets the cursor to the end of the outbox; later turns are exported.
  await traces().step()
})
afterAll(async () => {
  await collector.close()
})
afterEach(() => collector.answer(200))

const traces = (ratio = 1) => openTraces({ db: t.db, clock: systemClock, endpoint: collector.url, ratio })
/** Steps until this turn is exported, because transactions in other databases may delay the outbox briefly. */
const exportedSpans = (agentTurnId: string, exporter = traces()) =>
  until('the turn is exported', async () => {
    await exporter.step()
    const spans = collector.of(agentTurnId)
    return spans.length > 0 ? spans : undefined
  })
const named = (spans: readonly SeenSpan[], name: string) => {
  const found = spans.filter((span) => span.name === name)
  expect(found, `one span ${name} among ${spans.map((span) => span.name).join(', ')}`).toHaveLength(1)
  return found[0]!
}

it('builds one trace from the caller through enqueue, dispatch, step, tool and child turn to the delivery', async () => {
  await t.agents('parent', 'child')
  const caller = { trace: '0af7651916cd43dd8448eb211c80319c', span: 'b7ad6b7169203331' }
  const traceparent = `00-${caller.trace}-${caller.span}-01`
  const { agentTurnId } = await enqueueTurn(t, 'parent', { traceparent })
  const turn = (await t.claim()).find((one) => one.agentTurnId === agentTurnId)!
  const usage = { input_tokens: 12, output_tokens: 3 }
  await t.kernel.record({
    ...turn,
    step: { stepId: 'step-fork-1', phase: 'model', status: 'success', metadata: { usage, duration_ms: 250 } },
  })
  await forkFrom(t, turn, 'fork-1', [reuse('child')])
  const [child] = await t.claim()
  await deliverTurn(t, child!)
  await join(t)
  const [again] = await t.claim()
  await t.kernel.resume(again!, 'worker-1')
  await deliverTurn(t, again!)

  const spans = await exportedSpans(agentTurnId)
  const own = named(spans, 'turn')
  expect(own).toMatchObject({ traceId: caller.trace, parentSpanId: caller.span })
  expect(own.attributes).toMatchObject({ 'bellwether.agent_id': 'parent', 'bellwether.outcome': 'success' })
  for (const name of ['enqueue', 'dispatch', 'deliver']) expect(named(spans, name).parentSpanId).toBe(own.spanId)
  const step = named(spans, 'step model')
  expect(step).toMatchObject({ parentSpanId: own.spanId, attributes: { 'gen_ai.usage.input_tokens': 12 } })
  expect(BigInt(step.endTimeUnixNano) - BigInt(step.startTimeUnixNano)).toBe(250_000_000n)
  const tool = named(spans, 'tool fork_join')
  expect(tool).toMatchObject({ parentSpanId: step.spanId, attributes: { 'bellwether.status': 'success' } })
  const childTurn = named(collector.of(child!.agentTurnId), 'turn')
  expect(childTurn).toMatchObject({ traceId: caller.trace, parentSpanId: tool.spanId })
  const inside = BigInt(childTurn.startTimeUnixNano) >= BigInt(tool.startTimeUnixNano)
  expect(inside && BigInt(childTurn.endTimeUnixNano) <= BigInt(tool.endTimeUnixNano)).toBe(true)
  expect(new Set([...spans, ...collector.of(child!.agentTurnId)].map((span) => span.traceId))).toEqual(
    new Set([caller.trace]),
  )
})

it('makes a turn without a caller the root of a trace, with its error and interventions', async () => {
  await t.agents('lone')
  const turn = await suspendedTurn(t, 'lone', [{ toolCallId: 'lone-1', toolName: 'grep', args: {} }])
  await t.all(
    `insert into state.interventions (kind, project_id, agent_id, agent_turn_id, reason, created_at)
      values ('reclaim', $1, 'lone', $2, 'silent', state.now())`,
    project,
    turn.agentTurnId,
  )
  await t.kernel.stop({ projectId: project, agentTurnId: turn.agentTurnId, reason: 'enough' })
  const spans = await exportedSpans(turn.agentTurnId)
  const own = named(spans, 'turn')
  expect(own.traceId).toBe(turn.agentTurnId.replaceAll('-', ''))
  expect(own.parentSpanId ?? '').toBe('')
  expect(own).toMatchObject({ status: { code: 2 }, events: ['reclaim'] })
  expect(named(spans, 'tool grep')).toMatchObject({ status: { code: 2, message: 'not_answered' } })
})

it('exports every span once after an outage of the collector, while a second exporter stands by', async () => {
  await t.agents('later')
  const first = traces()
  const second = traces()
  await first.step()
  await second.step()
  collector.answer(503)
  const turn = await t.running('later')
  await deliverTurn(t, turn)
  const refusal = await until('it is refused', async () =>
    first.step().then(
      () => undefined,
      (error: unknown) => error,
    ),
  )
  expect(refusal).toMatchObject({ code: 'collector_away' })
  expect(collector.of(turn.agentTurnId)).toEqual([])
  collector.answer(200)
  expect(await first.step()).toBe(4)
  const [spans, requests] = [collector.of(turn.agentTurnId), collector.requests()]
  expect(spans.map((span) => span.name).sort()).toEqual(['deliver', 'dispatch', 'enqueue', 'turn'])
  // The cursor has moved, so another process is exporting.
  expect(await second.step()).toBe(0)
  expect(await second.step()).toBe(0)
  expect(collector.requests()).toBe(requests)
  expect(await first.step()).toBe(0)
})

it('samples complete traces by trace id, and lets a caller opt out', async () => {
  await t.agents('many')
  const exporter = traces(0.5)
  await exporter.step()
  const runs: string[] = []
  for (const at of Array.from({ length: 16 }, (_, index) => index.toString(16))) {
    const trace = `0af7651916cd43dd8448eb21${at}c80319c`
    const { agentTurnId } = await enqueueTurn(t, 'many', { traceparent: `00-${trace}-b7ad6b7169203331-01` })
    runs.push(agentTurnId)
    await deliverTurn(t, (await t.claim())[0]!)
  }
  const { agentTurnId: quiet } = await enqueueTurn(t, 'many', {
    traceparent: `00-${'1'.repeat(32)}-${'2'.repeat(16)}-00`,
  })
  await deliverTurn(t, (await t.claim())[0]!)
  // The outbox is exported in order: after the last turn, all are exported.
  const last = await enqueueTurn(t, 'many', { traceparent: `00-${'1'.repeat(32)}-${'2'.repeat(16)}-01` })
  await deliverTurn(t, (await t.claim())[0]!)
  await exportedSpans(last.agentTurnId, exporter)
  expect(runs.map((turn) => collector.of(turn).length)).toEqual([...Array(8).fill(4), ...Array(8).fill(0)])
  expect(collector.of(quiet)).toEqual([])
})

it('[T8.1] continues the trace of a turn when its worker is killed and another process takes over', async ({
  onTestFinished,
}) => {
  await t.agents('slow-one', 'asking-one')
  // So long that a busy machine alone causes no second takeover.
  const timings = { WORKER__INBOX_PROCESSING_TIMEOUT_SECONDS: '8', WORKER__SUSPEND_TIMEOUT_SECONDS: '300' }
  const fleet = await startFleet({ url: t.url, workers: 2, pmos: 1, timings })
  onTestFinished(() => fleet.stop())
  await fleet.hold()
  const caller = '00-0af7651916cd43dd8448eb211c80319d-b7ad6b7169203332-01'
  const { agentTurnId } = await t.kernel.enqueue({ projectId: project, agentId: 'slow-one', traceparent: caller })
  const claimedBy = async () =>
    (
      await t.one<{ by: string | null }>(
        'select claimed_by as by from state.turns where agent_turn_id = $1',
        agentTurnId,
      )
    ).by
  const victim = await until('a worker has it', async () => {
    const by = await claimedBy()
    for (const worker of fleet.workers) if ((await worker.ready())['worker_id'] === by) return worker
    return undefined
  })
  victim.signal('SIGKILL')
  await victim.ended
  await fleet.release()
  const asking = await t.kernel.enqueue({ projectId: project, agentId: 'asking-one', traceparent: caller })
  const calls = await until('it asks', async () => {
    const rows = await t.all<{ tool_call_id: string }>(
      'select tool_call_id from state.turn_waiting_tools where agent_turn_id = $1',
      asking.agentTurnId,
    )
    return rows.length === 2 ? rows : undefined
  })
  for (const { tool_call_id: id } of calls) await reportSuccess(t, id)
  const exporter = traces()
  const exported = await until(
    'both are exported',
    async () => {
      await exporter.step()
      return collector.of(agentTurnId).length > 0 && collector.of(asking.agentTurnId).length > 0 ? true : undefined
    },
    40_000,
  )
  expect(exported).toBe(true)
  const own = named(collector.of(agentTurnId), 'turn')
  expect(own).toMatchObject({ parentSpanId: 'b7ad6b7169203332', events: ['reclaim'] })
  expect(own.attributes).toMatchObject({ 'bellwether.outcome': 'success', 'bellwether.worker_id': await claimedBy() })
  expect(own.attributes['bellwether.worker_id']).not.toBe((await victim.ready())['worker_id'])
  expect(collector.of(asking.agentTurnId).filter((span) => span.name === 'tool echo')).toHaveLength(2)
  const traceIds = new Set(
    [agentTurnId, asking.agentTurnId].flatMap((id) => collector.of(id)).map((span) => span.traceId),
  )
  expect([...traceIds]).toEqual(['0af7651916cd43dd8448eb211c80319d'])
})

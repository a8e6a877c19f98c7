/** A tool host on a real kernel: dead hosts, timeouts, failures, an unavailable database and shutdown. */
import { systemClock } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import { expect, it } from 'vitest'
import type { Kernel } from '../../src/kernel/kernel.js'
import { expireWaits, resendCommands } from '../../src/kernel/verbs/watchdog/watchdog.js'
import { ToolFailure } from '../../src/ports/tools/tool-failure.js'
import type { ToolHost } from '../../src/worker/tools/host.js'
import type { HostedTool } from '../../src/worker/tools/tool.js'
import { project, target } from '../support/kernel.js'
import { waitsOf } from '../support/kernel-rows.js'
import { fullWatchWindow } from '../support/kernel-turns.js'
import { manualTimeout } from '../support/manual-timeout.js'
import { until } from '../support/until.js'
import { findsNothing, tool, toolHostTests, unique } from './tool-host-setup.js'

const fixture = toolHostTests()

it('leaves a non-idempotent call of a dead host until its deadline, and ends it as unknown', async () => {
  const name = unique('post')
  const { turn, ids } = await fixture.waitingFor(name)
  await fixture.t.kernel.startTool(project, ids[0]!, 'dead-host')
  const runs: string[] = []
  const host = await fixture.hosting([tool(name, async (_args, { toolCallId }) => void runs.push(toolCallId))])
  await fixture.t.advance(20)
  expect(await fixture.t.kernel.openCalls({ projectId: project, tools: [name], silentSeconds: 1, max: 10 })).toEqual([])
  await fixture.t.advance(11)
  await findsNothing(host)
  expect(await resendCommands(fixture.t.db, target, 5)).toEqual([])
  await expireWaits(fixture.t.db, fixture.t.ids, target, fullWatchWindow)
  expect(runs).toEqual([])
  expect(await fixture.resultsOf(turn)).toMatchObject([
    {
      status: 'timeout',
      error: { code: 'tool_timeout', message: expect.stringContaining('check before you call it again') },
    },
  ])
})

it('restarts an idempotent call of a silent host on another host, and resends its command', async () => {
  const name = unique('get')
  const { turn, ids } = await fixture.waitingFor(name, { idempotent: true, timeoutSeconds: 300 })
  await fixture.t.kernel.startTool(project, ids[0]!, 'dead-host')
  const again = tool(name, async () => 'again', { idempotent: true })
  await fixture.t.advance(20)
  expect(await fixture.t.kernel.beatTools(project, ids, 'dead-host')).toEqual(new Set())
  await fixture.t.advance(20)
  const resent = async () =>
    (await resendCommands(fixture.t.db, target, 5)).filter((one) => one.detail === ids[0]).length
  const early = await fixture.hosting([again])
  await findsNothing(early)
  await early.close(0)
  expect(await resent()).toBe(0)
  await fixture.t.advance(15)
  // A beat of another host does not count.
  expect(await fixture.t.kernel.beatTools(project, ids, 'someone-else')).toEqual(new Set(ids))
  expect(await resent()).toBe(1)
  await fixture.hosting([again])
  expect(await fixture.resultsOf(turn)).toMatchObject([{ status: 'success', result: 'again' }])
  // The dead host comes back: its beat returns the call as lost.
  expect(await fixture.t.kernel.beatTools(project, ids, 'dead-host')).toEqual(new Set(ids))
})

it('ends a tool at its timeout: unknown if it must not be repeated, retried if it may be', async () => {
  const [once, twice] = [unique('slow'), unique('slow')]
  const tries: string[] = []
  const ends: string[] = []
  const hang: HostedTool['run'] = (_args, { toolCallId, signal }) => {
    tries.push(toolCallId)
    return new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => (ends.push(toolCallId), reject(new Error('heeded'))))
    })
  }
  const [first, second] = [await fixture.waitingFor(once), await fixture.waitingFor(twice, { idempotent: true })]
  const timeoutSeconds = 600
  const timeout = manualTimeout(timeoutSeconds * 1_000, 100_000)
  let aheadMs = 0
  const clock = { ...timeout.clock, monotonicMs: () => systemClock.monotonicMs() + aheadMs }
  const tools = [tool(once, hang, { timeoutSeconds }), tool(twice, hang, { timeoutSeconds, idempotent: true })]
  await fixture.hosting(tools, { clock })
  // After its second timeout an idempotent call has no time left.
  for (const [runs, passedMs] of [
    [2, 100_000],
    [3, 2 * timeoutSeconds * 1_000],
  ] as const) {
    await until(`${runs} runs`, async () => tries.length === runs || undefined)
    aheadMs = passedMs
    timeout.elapse()
  }
  expect(await fixture.resultsOf(first.turn)).toMatchObject([
    {
      status: 'timeout',
      error: {
        code: 'unknown',
        message:
          'no result within 600.0 s; the call had started and may have taken effect: check before you call it again',
      },
    },
  ])
  expect(await fixture.resultsOf(second.turn)).toMatchObject([{ status: 'timeout', error: { code: 'tool_timeout' } }])
  expect(tries.filter((id) => id === first.ids[0])).toHaveLength(1)
  expect(tries.filter((id) => id === second.ids[0])).toHaveLength(2)
  expect(ends.toSorted()).toEqual(tries.toSorted())
})

it('reports a failure with its code, one in doubt as unknown, and retries a transient one if the tool is idempotent', async () => {
  const [plain, doubt, flaky] = [unique('plain'), unique('doubt'), unique('flaky')]
  let [tries, doubts] = [0, 0]
  const tools = [
    tool(plain, async () => {
      throw new Error('no such\0 user')
    }),
    tool(doubt, async () => {
      doubts += 1
      throw new ToolFailure('cut off', { code: 'http_network', inDoubt: true, retryable: true })
    }),
    tool(
      flaky,
      async () => {
        tries += 1
        if (tries < 3) throw new ToolFailure('busy', { code: 'busy', inDoubt: true, retryable: true })
        return tries
      },
      { idempotent: true },
    ),
  ]
  const turns = [
    await fixture.waitingFor(plain),
    await fixture.waitingFor(doubt),
    await fixture.waitingFor(flaky, { idempotent: true }),
  ]
  await fixture.hosting(tools)
  const results = []
  for (const { turn } of turns) results.push(...(await fixture.resultsOf(turn)))
  expect(results).toMatchObject([
    { status: 'failed', error: { code: 'tool_failed', message: 'no such user' } },
    { status: 'failed', error: { code: 'unknown', message: expect.stringMatching(/^cut off; the call had started/) } },
    { status: 'success', result: 3 },
  ])
  expect(doubts).toBe(1)
})

it('does not wait for a tool that ignores its signal, and disables the tool after 20 such calls', async () => {
  const name = unique('deaf')
  const { turn } = await fixture.waitingFor(name, {}, 25)
  const host = await fixture.hosting([tool(name, () => new Promise(() => undefined), { timeoutSeconds: 0.05 })], {
    settings: { concurrency: 25 },
  })
  expect((await fixture.resultsOf(turn)).map((one) => one.error?.code)).toEqual(
    Array.from({ length: 25 }, () => 'unknown'),
  )
  const next = await fixture.waitingFor(name)
  for (const _look of [1, 2, 3]) await findsNothing(host)
  const [wait] = await fixture.t.all<{ started_by: string | null }>(
    'select started_by from state.turn_waiting_tools where tool_call_id = $1',
    next.ids[0],
  )
  expect(wait?.started_by).toBeNull()
})

it('runs a tool once and reports it although the database fails during claim and report', async () => {
  const name = unique('steady')
  let [claims, reports, runs] = [0, 0, 0]
  const opened: { host?: ToolHost } = {}
  const fences: unknown[] = []
  const away = () => new Retryable('the database is away', { code: 'database_away' })
  const kernel: Partial<Kernel> = {
    async startTool(...args) {
      // A beat in between must not cancel a call that is not claimed yet.
      await opened.host?.beat()
      const answer = await fixture.t.kernel.startTool(...args)
      claims += 1
      // In doubt: the claim succeeded, but the caller got an error.
      if (claims < 3) throw away()
      return answer
    },
    async report(receipts) {
      fences.push(receipts[0]?.fence)
      reports += 1
      if (reports === 1) throw away()
      const answer = await fixture.t.kernel.report(receipts)
      if (reports === 2) throw away()
      return answer
    },
  }
  const { turn } = await fixture.waitingFor(name)
  opened.host = await fixture.hosting([tool(name, async () => (runs += 1))], { kernel })
  expect(await fixture.resultsOf(turn)).toMatchObject([{ status: 'success', result: 1 }])
  await until('the last report is acknowledged', async () => reports === 3 || undefined)
  expect([claims, reports, runs]).toEqual([3, 3, 1])
  expect(fences[0]).toEqual({ agentTurnId: turn.agentTurnId, turnEpoch: turn.turnEpoch })
})

it('lets running calls end on close', async () => {
  const short = unique('short')
  let finish: (() => void) | undefined
  const { turn } = await fixture.waitingFor(short)
  const host = await fixture.hosting([tool(short, () => new Promise((resolve) => (finish = () => resolve('done'))))])
  // A call counts as running from before its claim.
  const end = await until('the tool runs', async () => finish)
  const closing = host.close(60_000)
  end()
  await closing
  expect(await fixture.resultsOf(turn)).toMatchObject([{ status: 'success', result: 'done' }])
})

it('reports the non-idempotent calls that outlast a close as unknown', async () => {
  const [long, free] = [unique('long'), unique('free')]
  let runs = 0
  const forever: HostedTool['run'] = () => {
    runs += 1
    return new Promise(() => undefined)
  }
  const tools = [
    tool(long, forever, { timeoutSeconds: 300 }),
    tool(free, forever, { timeoutSeconds: 300, idempotent: true }),
  ]
  const turns = [await fixture.waitingFor(long), await fixture.waitingFor(free, { idempotent: true })]
  const host = await fixture.hosting(tools)
  await until('both run', async () => runs === 2 || undefined)
  await host.close(50)
  expect(await fixture.resultsOf(turns[0]!.turn)).toMatchObject([{ status: 'failed', error: { code: 'unknown' } }])
  expect(await waitsOf(fixture.t, turns[1]!.turn.agentTurnId)).toMatchObject([{ wait_status: 'waiting' }])
})

/** The model executor against a provider that speaks HTTP with real streams and misbehaves: the real client code runs. */
import { type Clock, defined, systemClock } from '@bellwether/base'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { ModelTimeouts } from '../../../src/ports/model/call-model.js'
import { openFakeProvider, type FakeProvider } from '../../support/agents/fake-openai.js'
import { kernelPerFile } from '../../support/kernel.js'
import { until } from '../../support/until.js'
import { openModelSetup, type ModelSetup, type ModelSetupOptions } from './model-setup.js'

const key = 'sk-very-secret-0123456789'
const t = kernelPerFile({ time: 'real' })
let provider: FakeProvider
let b: ModelSetup

async function open(more: Partial<ModelSetupOptions> = {}): Promise<void> {
  const env = {
    OPENAI_BASE_URL: provider.url,
    OPENAI_API_KEY: key,
    ANTHROPIC_BASE_URL: provider.url.replace(/\/v1$/, ''),
    ANTHROPIC_API_KEY: key,
  }
  b = await openModelSetup({ t, env, tools: { add: ({ a, b: other }) => Number(a) + Number(other) }, ...more })
}

beforeEach(async () => {
  provider = await openFakeProvider()
})
afterEach(async () => {
  await b.close()
  await provider.close()
})

// Timeouts that end no request by themselves, however slow the machine is.
const patient: ModelTimeouts = { firstMs: 600_000, stallMs: 600_000, totalMs: 600_000 }

/** A clock that a test moves past a timeout; a call looks at it every 20 ms. */
function movableClock() {
  let aheadMs = 0
  const clock: Clock = {
    ...systemClock,
    monotonicMs: () => systemClock.monotonicMs() + aheadMs,
    sleep: (ms, signal) => systemClock.sleep(Math.min(ms, 20), signal),
  }
  return { clock, move: (ms: number) => void (aheadMs += ms) }
}
const twice = {
  maxAttempts: 2,
  backoff: { mode: 'fixed', baseMs: 10, multiplier: 1, maxMs: 5_000, jitterPct: 0 },
} as const

describe.each(['openai', 'anthropic'] as const)('%s', (kind) => {
  const model = `${kind}/m`

  it('streams text, calls tools with the provider’s own ids, and counts the usage', async () => {
    await open()
    provider.behave((_request, number) =>
      number === 1
        ? {
            text: 'I add.',
            calls: [
              { name: 'add', args: { a: 2, b: 3 }, id: 'theirs_1' },
              { name: 'add', args: { a: 1, b: 1 }, id: 'theirs_2' },
            ],
            usage: { input: 100, output: 20 },
          }
        : { text: 'It is 5, and 2.', usage: { input: 150, output: 10 } },
    )
    const ended = await b.run({ model, prices: { input_per_million: 3, output_per_million: 15 } })
    expect(ended).toMatchObject({ outcome: 'success', text: 'It is 5, and 2.' })
    expect(ended.steps.map((step) => step.metadata)).toMatchObject([
      { usage: { input_tokens: 100, output_tokens: 20, total_tokens: 120 }, cost_micros: 600 },
      { usage: { total_tokens: 160 }, cost_micros: 600 },
    ])
    expect(b.chunks.map((chunk) => chunk.text).join('')).toBe('I add.It is 5, and 2.')
    const again = JSON.stringify(provider.requests[1]!.body.messages)
    expect(again).toContain('theirs_1')
    expect(again).toContain('theirs_2')
    const { headers } = provider.requests[0]!
    expect(kind === 'openai' ? headers['authorization'] : headers['x-api-key']).toContain(key)
    expect(provider.requests[0]!.body.max_tokens).toBe(8_192)
  })

  it('retries a stream that breaks off or has no end marker', async () => {
    await open()
    provider.behave((_request, number) =>
      number === 1
        ? { text: 'never whole, never whole', cutAfter: 2 }
        : number === 2
          ? { text: 'no end', noFinish: true }
          : { text: 'whole' },
    )
    const ended = await b.run({ model })
    expect(ended).toMatchObject({ outcome: 'success', text: 'whole' })
    expect(ended.steps).toHaveLength(1)
    // The usage of the two broken calls is unknown.
    expect(ended.steps[0]!.metadata).toMatchObject({ tries: 3, charged_in_full: 2 })
  })

  it.each([
    [500, undefined, 'model_unavailable'],
    [503, '<html>upstream</html>', 'model_unavailable'],
    [529, undefined, 'model_busy'],
  ])('retries status %i a limited number of times', async (status, body, error) => {
    await open({ retry: twice })
    provider.behave((_request, number) =>
      number === 1 ? { status, headers: { 'retry-after-ms': '20' }, ...defined({ body }) } : { text: 'well' },
    )
    expect(await b.run({ model })).toMatchObject({ outcome: 'success', text: 'well' })
    provider.behave(() => ({ status, headers: { 'retry-after-ms': '20' }, ...defined({ body }) }))
    const ended = await b.run({ model })
    expect(ended).toMatchObject({ outcome: 'failed', error, taskEvents: 1 })
    expect(ended.text).toContain(`status ${status}`)
    expect(provider.requests).toHaveLength(4)
  })

  it.each([
    [401, 'model_key_refused'],
    [404, 'model_not_found'],
    [400, 'model_request_refused'],
  ])('does not retry status %i, and shows no key', async (status, error) => {
    await open()
    provider.behave(() => ({
      status,
      body: JSON.stringify({ type: 'error', error: { type: 'e', message: `wrong: ${key}` } }),
    }))
    const ended = await b.run({ model })
    expect(ended).toMatchObject({ outcome: 'failed', error })
    expect(provider.requests).toHaveLength(1)
    expect(JSON.stringify(ended)).not.toContain(key)
    expect(JSON.stringify(await b.t.all('select * from cards.cards'))).not.toContain(key)
  })

  it('ends the request to an endpoint that hangs', async () => {
    const { clock, move } = movableClock()
    await open({ times: patient, clock, retry: twice })
    // Each request is recorded before its time is over.
    provider.behave(() => {
      move(600_000)
      return { hang: true }
    })
    const ended = await b.run({ model })
    expect(ended).toMatchObject({ outcome: 'failed', error: 'model_timeout', taskEvents: 1 })
    expect(provider.requests).toHaveLength(2)
    await until('the requests are ended', async () => provider.requests.every((request) => request.hungUp) || undefined)
  })

  it('ends a stream that stalls', async () => {
    await open({ times: { ...patient, stallMs: 1_000 }, retry: { ...twice, maxAttempts: 1 } })
    provider.behave(() => ({ text: 'x'.repeat(80), stallAfter: 3 }))
    const stalled = await b.run({ model })
    expect(stalled).toMatchObject({ outcome: 'failed', error: 'model_timeout' })
    expect(stalled.text).toMatch(/nothing for too long/)
    await until('the request is ended', async () => provider.requests.every((request) => request.hungUp) || undefined)
  })

  it('ends a stream that never ends', async () => {
    await open({ times: { ...patient, totalMs: 1_000 }, retry: { ...twice, maxAttempts: 1 } })
    provider.behave(() => ({ text: 'x'.repeat(8_000), everyMs: 500 }))
    const dripped = await b.run({ model })
    expect(dripped).toMatchObject({ outcome: 'failed', error: 'model_timeout' })
    expect(dripped.text).toContain('took longer than 1000 ms')
    await until('the requests are ended', async () => provider.requests.every((request) => request.hungUp) || undefined)
  })

  it('ends the request of a huge answer, gives the model feedback, and ends the turn', async () => {
    await open()
    provider.behave(() => ({ text: 'x'.repeat(400_000) }))
    const ended = await b.run({ model })
    expect(ended).toMatchObject({ outcome: 'failed', error: 'model_answer_cut' })
    expect(ended.text.length).toBeLessThan(60_000)
    expect(provider.requests).toHaveLength(3)
  })
})

it('gives the model feedback about broken JSON and unknown tools of a real stream', async () => {
  await open()
  provider.behave((_request, number) =>
    number === 1
      ? {
          calls: [
            { name: 'add', args: '{"a": 1,' },
            { name: 'rm_rf', args: {} },
          ],
        }
      : { text: 'sorry' },
  )
  expect(await b.run({})).toMatchObject({ outcome: 'success', text: 'sorry' })
  const conversation = JSON.stringify(provider.requests[1]!.body.messages)
  expect(conversation).toContain('must be one JSON object')
  expect(conversation).toContain('unknown tool rm_rf')
})

it('distinguishes repeated call ids of a provider', async () => {
  await open()
  provider.behave((_request, number) =>
    number < 3 ? { calls: [{ name: 'add', args: { a: number, b: 0 }, id: 'same' }] } : { text: 'done' },
  )
  expect(await b.run({})).toMatchObject({ outcome: 'success' })
  const results = provider.requests[2]!.body.messages.filter((message) => message.role === 'tool')
  expect(results.map((message) => message.content)).toEqual(['1', '2'])
  expect(new Set(results.map((message) => (message as { tool_call_id?: string }).tool_call_id)).size).toBe(2)
})

it('excludes thoughts, in tags or in their own field, from the answer', async () => {
  await open()
  provider.behave(() => ({ thought: 'hm. ', text: '<think>let me see</think>\n\nIt is so.' }))
  const ended = await b.run({})
  expect(ended.text).toBe('It is so.')
  expect(
    b.chunks
      .filter((chunk) => chunk.kind === 'thought')
      .map((chunk) => chunk.text)
      .join(''),
  ).toBe('hm. let me see')
})

it('a cancellation ends the HTTP request at once, and nothing more is written', async () => {
  await open({ times: patient })
  provider.behave(() => ({ text: 'x'.repeat(4_000), stallAfter: 5 }))
  const turn = await b.begin({})
  await b.worker.step()
  await until('it streams', async () => (b.chunks.length > 2 ? true : undefined))
  const scope = b.worker.running.get(turn)!
  scope.cancellation.cancel('fence_lost')
  await scope.done
  await until('the request is ended', async () => provider.requests[0]!.hungUp || undefined)
  const written = await b.t.all("select from cards.cards where metadata ->> 'agent_turn_id' = $1", turn)
  expect(written).toEqual([])
})

it('20 turns that get 429 wait together: after the first refusals one asks at a time, and all succeed', async () => {
  await open({ requestsMax: 8 })
  const pauseMs = 300
  const refusals = 11
  let allIn = (): void => undefined
  const together = new Promise<void>((resolve) => (allIn = resolve))
  provider.behave((_request, number) => {
    if (number === 8) allIn()
    if (number > refusals) return { text: 'well' }
    // The first eight are refused together; the turns behind them have not sent a request yet.
    const refusal = {
      status: 429,
      headers: { 'retry-after-ms': String(pauseMs) },
      body: '{"error":{"message":"slow"}}',
    }
    return number <= 8 ? { ...refusal, after: together } : refusal
  })
  const turns: string[] = []
  for (let number = 0; number < 20; number += 1) turns.push(await b.begin({}))
  await b.worker.step()
  const ended = await Promise.all(turns.map((turn) => b.ended(turn)))
  expect(ended.filter((turn) => turn.outcome !== 'success')).toEqual([])
  expect(provider.requests).toHaveLength(refusals + 20)
  // After the first refusals each that asks is alone, and a pause later than the one before; a slow machine only adds to it.
  const times = provider.requests.slice(7, refusals + 1).map((request) => request.atMs)
  const gaps = times.slice(1).map((at, index) => at - times[index]!)
  expect(gaps).toHaveLength(refusals - 7)
  expect(gaps.filter((gap) => gap < pauseMs * 0.95)).toEqual([])
})

it('does not retry a provider that reports a used-up quota', async () => {
  await open()
  provider.behave(() => ({
    status: 429,
    body: '{"error":{"code":"insufficient_quota","message":"You exceeded your quota"}}',
  }))
  expect(await b.run({})).toMatchObject({ outcome: 'failed', error: 'model_quota' })
  expect(provider.requests).toHaveLength(1)
})

it('retries an HTML page instead of a stream, and a closed port, and then names the problem', async () => {
  await open({ retry: twice })
  provider.behave(() => ({
    status: 200,
    headers: { 'content-type': 'text/html' },
    body: '<html>captive portal</html>',
  }))
  expect(await b.run({})).toMatchObject({ outcome: 'failed', error: 'model_stream_cut' })
  await provider.close()
  expect(await b.run({})).toMatchObject({ outcome: 'failed', error: 'model_unreachable' })
  provider = await openFakeProvider()
})

it('sends a smaller conversation if the context window is smaller than configured', async () => {
  await open({ tools: { add: () => 'y'.repeat(30_000) } })
  provider.behave((request, number) => {
    const size = JSON.stringify(request.body.messages).length
    if (JSON.stringify(request.body.messages).includes('You write the working memory')) return { text: 'They added.' }
    if (size > 60_000)
      return { status: 400, body: '{"error":{"code":"context_length_exceeded","message":"maximum context length"}}' }
    return number < 4 ? { calls: [{ name: 'add', args: {} }] } : { text: 'fits' }
  })
  const ended = await b.run({}, { budget: { tokens: 1_000_000 } })
  expect(ended).toMatchObject({ outcome: 'success', text: 'fits' })
  const rows = await t.all<{ status: string }>(
    'select status from state.reservations where agent_turn_id = $1 order by created_at',
    ended.agent_turn_id,
  )
  // Two calls, one that was refused and cost nothing, and the smaller one.
  expect(rows.map((row) => row.status)).toEqual(['committed', 'committed', 'released', 'committed'])
})

it('returns the signature of a call to the provider', async () => {
  await open()
  const signed = { name: 'add', args: { a: 1, b: 1 }, signature: 'c2lnbmVk' }
  provider.behave((_request, number) => (number === 1 ? { calls: [signed] } : { text: 'done' }))
  expect(await b.run({})).toMatchObject({ outcome: 'success' })
  expect(JSON.stringify(provider.requests[1]!.body.messages)).toContain('c2lnbmVk')
})

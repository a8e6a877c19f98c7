import type { Clock } from '@bellwether/base'
import { Retryable, Terminal } from '@bellwether/protocol'
import type { TurnDetail } from '@bellwether/protocol/http'
import { describe, expect, it } from 'vitest'
import type { Client } from './client.js'
import { describeEvent, followTurn, startTurn } from './turns.js'

/** Time passes only during sleeps. */
function fastClock(): Clock {
  let nowMs = 0
  return {
    wallMs: () => nowMs,
    monotonicMs: () => nowMs,
    async sleep(ms, signal) {
      if (signal?.aborted !== true) nowMs += ms
    },
  }
}
const signal = new AbortController().signal
const away = () => new Retryable('away', { code: 'server_away' })
const turn = (ended: boolean) =>
  ({ agent_turn_id: 't', outcome: ended ? 'success' : null, ended_at: ended ? 'then' : null }) as TurnDetail

/** Gives the answers of the script in order, then repeats the last one. */
function scripted(script: readonly (TurnDetail | Error)[], requests: unknown[] = []): Client {
  let at = 0
  const ask = async (_key: string, request: unknown) => {
    requests.push(request)
    const next = script[Math.min(at, script.length - 1)]
    at += 1
    if (next instanceof Error) throw next
    return next
  }
  async function* follow() {
    yield* []
  }
  return { url: 'http://server', project: 'p', ask: ask as Client['ask'], follow: follow as Client['follow'] }
}

describe('turns of a client', () => {
  it('startTurn repeats a lost request with the same idempotency key', async () => {
    const requests: object[] = []
    const client = scripted([away(), away(), turn(false)], requests)
    await startTurn(client, 'ann', { instruction: 'x' }, 'key-1', { clock: fastClock(), signal })
    expect(requests).toMatchObject(Array.from({ length: 3 }, () => ({ idempotencyKey: 'key-1' })))
  })

  it('followTurn returns the ended turn although the server restarts', async () => {
    const client = scripted([turn(false), away(), away(), turn(false), turn(true)])
    expect(await followTurn(client, 't', { clock: fastClock(), signal })).toMatchObject({ outcome: 'success' })
  })

  it('followTurn gives up if the server is unavailable for a minute, or rejects the request', async () => {
    await expect(followTurn(scripted([away()]), 't', { clock: fastClock(), signal })).rejects.toMatchObject({
      code: 'server_away',
    })
    const refused = new Terminal('no', { code: 'forbidden' })
    await expect(followTurn(scripted([refused]), 't', { clock: fastClock(), signal })).rejects.toBe(refused)
  })

  it('followTurn returns the running turn when the time is over', async () => {
    const clock = fastClock()
    const found = await followTurn(scripted([turn(false)]), 't', { clock, signal, withinMs: 3_000 })
    expect(found.ended_at).toBeNull()
    expect(clock.monotonicMs()).toBeLessThan(4_000)
  })
})

it('describes an event of a turn in a few words', () => {
  expect(describeEvent({ kind: 'step', payload: { phase: 'model', status: 'success' } })).toBe('step model success')
  expect(describeEvent({ kind: 'task', payload: { status: 'failed' } })).toBe('ended: failed')
  const metadata = { activity: 'thinking', current_tool: 'search', waiting_tool_count: 2 }
  expect(describeEvent({ kind: 'state', payload: { status: 'busy', metadata } })).toBe(
    'busy · thinking · search · waits for 2',
  )
  expect(describeEvent({ kind: 'state', payload: {} })).toBe('')
})

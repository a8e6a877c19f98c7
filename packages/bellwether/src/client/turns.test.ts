import type { Clock } from '@bellwether/base'
import { Retryable, Terminal } from '@bellwether/protocol'
import { describe, expect, it } from 'vitest'
import type { Asking, Client } from './client.js'
import { beginTurn, doing, followTurn, type Turn } from './turns.js'

/** Time passes only while somebody sleeps. */
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
  ({ agent_turn_id: 't', outcome: ended ? 'success' : null, ended_at: ended ? 'then' : null }) as Turn

/** Answers as the script says, one after the other; the last one again and again. */
function scripted(script: readonly (Turn | Error)[], asked: Asking[] = []): Client {
  let at = 0
  return {
    url: 'http://house',
    project: 'p',
    of: (path) => path,
    async ask<T>(_method: string, _path: string, asking: Asking = {}) {
      asked.push(asking)
      const next = script[Math.min(at, script.length - 1)]
      at += 1
      if (next instanceof Error) throw next
      return next as T
    },
    async *follow() {
      yield* []
    },
  }
}

describe('a turn, as a client follows it', () => {
  it('is begun once, however often its answer is lost', async () => {
    const asked: Asking[] = []
    const client = scripted([away(), away(), turn(false)], asked)
    await beginTurn(client, 'ann', { instruction: 'x' }, 'key-1', { clock: fastClock(), signal })
    expect(asked.map(({ idempotencyKey }) => idempotencyKey)).toEqual(['key-1', 'key-1', 'key-1'])
  })

  it('is followed to its end past a server that restarts', async () => {
    const client = scripted([turn(false), away(), away(), turn(false), turn(true)])
    expect(await followTurn(client, 't', { clock: fastClock(), signal })).toMatchObject({ outcome: 'success' })
  })

  it('is given up when the server stays away for a minute, or refuses', async () => {
    await expect(followTurn(scripted([away()]), 't', { clock: fastClock(), signal })).rejects.toMatchObject({
      code: 'server_away',
    })
    const refused = new Terminal('no', { code: 'forbidden' })
    await expect(followTurn(scripted([refused]), 't', { clock: fastClock(), signal })).rejects.toBe(refused)
  })

  it('is handed over as it stands when the time is over', async () => {
    const clock = fastClock()
    const found = await followTurn(scripted([turn(false)]), 't', { clock, signal, withinMs: 3_000 })
    expect(found.ended_at).toBeNull()
    expect(clock.monotonicMs()).toBeLessThan(4_000)
  })
})

it('tells in few words what a turn does', () => {
  expect(doing({ kind: 'step', payload: { phase: 'model', status: 'success' } })).toBe('step model success')
  expect(doing({ kind: 'task', payload: { status: 'failed' } })).toBe('ended: failed')
  const metadata = { activity: 'thinking', current_tool: 'search', waiting_tool_count: 2 }
  expect(doing({ kind: 'state', payload: { status: 'busy', metadata } })).toBe('busy · thinking · search · waits for 2')
  expect(doing({ kind: 'state' })).toBe('')
})

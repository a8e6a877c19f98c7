/** The transcript of a turn: order, fence, bounds and retention. */
import { describe, expect, it } from 'vitest'
import { readTranscript, readTranscriptBefore } from '../../../src/kernel/reads/transcript.js'
import type { ClaimedTurn } from '../../../src/kernel/verbs/turn/claim.js'
import { splitContent } from '../../../src/kernel/verbs/content/append_transcript.js'
import { prune, reclaim } from '../../../src/kernel/verbs/watchdog/watchdog.js'
import type { Fence } from '../../../src/kernel/verdict.js'
import { kernelPerFile, target } from '../../support/kernel.js'
import { deliverTurn, fullWatchWindow } from '../../support/kernel-turns.js'

const t = kernelPerFile()
const maxBytes = 65_536
const all = async ({ agentTurnId }: Fence) => (await readTranscript(t.db, agentTurnId, 0, 10_000)).entries
const texts = async (turn: Fence) => (await all(turn)).map((entry) => entry.content)

function appendTo(turn: Fence, contents: readonly string[], { session = 1, first = 1, leftOutBytes = 0 } = {}) {
  const entries = contents.map((content, at) => ({
    kind: 'text' as const,
    content,
    number: first + at,
    ageMs: 0,
    ...(at === 0 && leftOutBytes > 0 ? { leftOutBytes } : {}),
  }))
  return t.kernel.appendTranscript([{ ...turn, session, entries }], maxBytes)
}

async function takenOver(turn: ClaimedTurn): Promise<ClaimedTurn> {
  await t.advance(31)
  await reclaim(t.db, target, 30, 3, fullWatchWindow)
  const claimed = await t.claim(10, 'successor')
  const successor = claimed.find(({ agentTurnId }) => agentTurnId === turn.agentTurnId)
  expect(successor).toMatchObject({ takenOver: true })
  return successor!
}

describe('the transcript of a turn', () => {
  it('[T9.2] stores names that are cut within a character', async () => {
    await t.agents('cut')
    const turn = await t.running('cut')
    const name = `${'n'.repeat(199)}😀`
    const entries = [{ kind: 'tool_call' as const, content: '{}', callId: name, name, number: 1, ageMs: 0 }]
    expect(await t.kernel.appendTranscript([{ ...turn, session: 1, entries }], maxBytes)).toEqual([1])
    expect((await all(turn))[0]).toMatchObject({ name: `${'n'.repeat(199)}\ufffd` })
  })

  it('[T9.2] the transcript of a turn has its entries in order, with their times, and rings once per batch for its readers', async () => {
    await t.agents('order')
    const turn = await t.running('order')
    t.rings()
    expect(
      await t.kernel.appendTranscript(
        [
          {
            ...turn,
            session: 7,
            entries: [
              { kind: 'thought', content: 'hm', number: 1, ageMs: 2_000 },
              { kind: 'tool_call', content: '{"a":1}', callId: 'c1', name: 'grep', number: 2, ageMs: 0 },
              { kind: 'tool_result', content: 'bad \0 \ud800', callId: 'c1', name: 'grep', number: 3, ageMs: 0 },
            ],
          },
        ],
        maxBytes,
      ),
    ).toEqual([3])
    expect(t.rings()).toMatchObject([
      { subject: 'bw.v1.p.public.str.transcript', payload: { agent_turn_ids: [turn.agentTurnId] } },
    ])
    const [thought, call, result] = await all(turn)
    expect([thought, call, result]).toMatchObject([
      { seq: 1, kind: 'thought', content: 'hm', turn_epoch: turn.turnEpoch, left_out: null },
      { seq: 2, kind: 'tool_call', call_id: 'c1', name: 'grep' },
      { seq: 3, kind: 'tool_result', content: 'bad \u{fffd} \u{fffd}' },
    ])
    expect(call!.created_at.getTime() - thought!.created_at.getTime()).toBeGreaterThan(1_900)
    await expect(t.all("update state.transcript set content = ''")).rejects.toMatchObject({ code: 'BW002' })
  })

  it('[T9.2] a repeated append writes nothing twice, also if the first one was only partly the same', async () => {
    await t.agents('repeat')
    const turn = await t.running('repeat')
    await appendTo(turn, ['a', 'b'])
    expect(await appendTo(turn, ['a', 'b'])).toEqual([2])
    expect(await appendTo(turn, ['a', 'b', 'c'])).toEqual([3])
    expect(await appendTo(turn, ['d'], { session: 2 })).toEqual([4])
    expect(await texts(turn)).toEqual(['a', 'b', 'c', 'd'])
  })

  it('[T9.2] a takeover continues the sequence, and the worker that lost the turn can append nothing more', async () => {
    await t.agents('taken')
    const turn = await t.running('taken')
    await appendTo(turn, ['first attempt'])
    const successor = await takenOver(turn)
    expect(await appendTo(turn, ['zombie'], { first: 2 })).toEqual(['stale'])
    expect(await appendTo(successor, ['second attempt'], { session: 2 })).toEqual([2])
    await deliverTurn(t, successor)
    expect(await appendTo(successor, ['after the end'], { session: 2, first: 2 })).toEqual(['stale'])
    expect(await all(turn)).toMatchObject([
      { seq: 1, content: 'first attempt', turn_epoch: turn.turnEpoch },
      { seq: 2, content: 'second attempt', turn_epoch: successor.turnEpoch },
    ])
  })

  it('[T9.2] stays within its bytes: the beginning and the end are kept, and one entry says how much is missing', async () => {
    await t.agents('long')
    const turn = await t.running('long')
    const lines = Array.from({ length: 1_000 }, (_, at) => `line ${String(at).padStart(4, '0')} ${'x'.repeat(490)}`)
    for (let at = 0; at < lines.length; at += 20) await appendTo(turn, lines.slice(at, at + 20), { first: at + 1 })
    const { bytes } = await t.one<{ bytes: number }>(
      'select sum(octet_length(content) + 64)::int as bytes from state.transcript where agent_turn_id = $1',
      turn.agentTurnId,
    )
    expect(bytes).toBeLessThanOrEqual(maxBytes)
    const entries = await all(turn)
    const gap = entries.findIndex((entry) => entry.kind === 'truncated')
    const [before, after] = [entries.slice(0, gap), entries.slice(gap + 1)]
    expect(before.map((entry) => entry.content)).toEqual(lines.slice(0, before.length))
    expect(after.map((entry) => entry.content)).toEqual(lines.slice(-after.length))
    expect(before.length * 564).toBeGreaterThan(maxBytes * 0.45)
    expect(after.length * 564).toBeGreaterThan(maxBytes * 0.35)
    const missing = lines.length - before.length - after.length
    expect(entries[gap]).toMatchObject({
      seq: after[0]!.seq - 1,
      left_out: { entries: missing, bytes: missing * 500 },
      content: expect.stringContaining(`${missing * 500} bytes were left out`),
    })
    // A reader that continues after the gap does not get it again, and pages have it once.
    expect((await readTranscript(t.db, turn.agentTurnId, entries[gap]!.seq, 1)).entries).toEqual([after[0]])
    const paged = []
    for (let cursor: number | null = 0; cursor !== null;) {
      const page = await readTranscript(t.db, turn.agentTurnId, cursor, 7)
      paged.push(...page.entries)
      cursor = page.cursor
    }
    expect(paged).toEqual(entries)
    const backwards = []
    for (let cursor: number | null = Number.MAX_SAFE_INTEGER; cursor !== null;) {
      const page = await readTranscriptBefore(t.db, turn.agentTurnId, cursor, 7)
      backwards.unshift(...page.entries)
      cursor = page.cursor
    }
    expect(backwards).toEqual(entries)
  })

  it('[T9.2] shows what the writer had to drop, and splits long content between characters', async () => {
    await t.agents('drop')
    const turn = await t.running('drop')
    await appendTo(turn, ['start'])
    await appendTo(turn, ['later'], { first: 2, leftOutBytes: 5_000 })
    expect(await all(turn)).toMatchObject([
      { seq: 1, content: 'start' },
      { seq: 2, kind: 'truncated', left_out: { entries: 1, bytes: 5_000 } },
      { seq: 3, content: 'later' },
    ])
    const long = `${'ü😀'.repeat(8_000)}end`
    const pieces = splitContent(long)
    expect(pieces.join('')).toBe(long)
    expect(Math.max(...pieces.map((piece) => Buffer.byteLength(piece)))).toBeLessThanOrEqual(16_384)
    expect(splitContent('')).toEqual([''])
  })

  it('[T9.2] retention removes it with its turn', async () => {
    await t.agents('gone', 'kept')
    const gone = await t.running('gone')
    await appendTo(gone, ['old'])
    await deliverTurn(t, gone)
    const kept = await t.running('kept')
    await appendTo(kept, ['running'])
    await t.advance(2 * 86_400)
    while ((await prune(t.db, 1)) > 0);
    expect(await texts(gone)).toEqual([])
    expect(await texts(kept)).toEqual(['running'])
  })
})

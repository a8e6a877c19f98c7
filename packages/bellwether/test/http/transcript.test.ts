/** Transcripts over HTTP: appended by workers under their fence, read in pages, live and as text, by those who may read the turn. */
import { describe, expect, it, onTestFinished } from 'vitest'
import { project } from '../support/kernel.js'
import { readEvents } from './reader.js'
import { serverPerFile, type Body } from './test-server.js'
import { workerClient } from './workers/worker-client.js'

const server = serverPerFile()
const { agent, enqueue, claim, callWorkerApi, pass } = workerClient(server)
const p = `/projects/${project}`
const line = (content: string, more: object = {}) => ({ kind: 'text', content, ...more })

async function running(name: string): Promise<Body> {
  await enqueue(await agent(name))
  const [turn] = await claim()
  return turn!
}

async function follow(
  turn: Body,
  { last, key = server.keys.reader }: { last?: string | undefined; key?: string } = {},
) {
  const url = `${server.url}/api/v1${p}/turns/${turn.agent_turn_id}/transcript/events`
  const reader = await readEvents(url, { key, last })
  onTestFinished(() => reader.cut())
  return reader
}

const entriesOf = async (turn: Body, query = '') =>
  (await server.get(`${p}/turns/${turn.agent_turn_id}/transcript${query}`)).body['entries'] as Body[]

describe('the transcript of a turn over HTTP', () => {
  it('[T9.2] a live reader gets every entry once, resumes after Last-Event-ID, ends with the turn, and equals what is read afterwards', async () => {
    const turn = await running('live')
    const early = await follow(turn)
    await callWorkerApi(turn, 'transcript', { entries: [line('one'), line(' more', { continued: true })] })
    await early.next('the second', ({ id }) => id === '2')
    early.cut()
    const call = { kind: 'tool_call', content: '{"q":"x"}', call_id: 'c1', name: 'search' }
    await callWorkerApi(turn, 'transcript', { entries: [call, { ...call, kind: 'tool_result', content: 'found' }] })
    const late = await follow(turn, { last: early.lastId() })
    await late.next('the fourth', ({ id }) => id === '4')
    await callWorkerApi(turn, 'transcript', { entries: [{ kind: 'stderr', content: 'warning\n' }] })
    await callWorkerApi(turn, 'deliver', { text: 'done' })
    await late.next('the end', ({ event }) => event === 'end')
    await late.ended
    const live = [...early.events, ...late.events].filter(({ event }) => event === 'entry').map(({ data }) => data)
    expect(live.map(({ seq, kind, content }) => [seq, kind, content])).toEqual([
      [1, 'text', 'one'],
      [2, 'text', ' more'],
      [3, 'tool_call', '{"q":"x"}'],
      [4, 'tool_result', 'found'],
      [5, 'stderr', 'warning\n'],
    ])
    expect(await entriesOf(turn)).toEqual(live)
    expect(late.events.at(-1)).toMatchObject({ id: '5', event: 'end', data: { outcome: 'success' } })
    // A reader that comes after the end gets the same, and the end.
    const after = await follow(turn)
    await after.ended
    expect(after.events.slice(0, -1).map(({ data }) => data)).toEqual(live)
    const page = await server.get(`${p}/turns/${turn.agent_turn_id}/transcript?after=1&limit=2`)
    expect(page.body).toMatchObject({ entries: [{ seq: 2 }, { seq: 3 }], cursor: 3 })
    const backwards = await server.get(`${p}/turns/${turn.agent_turn_id}/transcript?before=999999999999&limit=2`)
    expect(backwards.body).toMatchObject({ entries: [{ seq: 4 }, { seq: 5 }], cursor: 4 })
    const first = await server.get(`${p}/turns/${turn.agent_turn_id}/transcript?before=4`)
    expect(first.body).toMatchObject({ entries: [{ seq: 1 }, { seq: 2 }, { seq: 3 }], cursor: null })
    const text = await server.get(`${p}/turns/${turn.agent_turn_id}/transcript/text`)
    expect(text.headers['content-disposition']).toContain('attachment')
    expect(text.text).toMatch(
      /^\d\d:\d\d:\d\d text one more\n\d\d:\d\d:\d\d call search \{"q":"x"\}\n\S+ result search found\n\S+ stderr\nwarning\n$/,
    )
  })

  it('[T9.2] a downloaded transcript has no characters that control a terminal', async () => {
    const turn = await running('escapes')
    const entries = [
      { kind: 'tool_call', name: 'run\u001b[2J', content: '\u001b]0;x\u0007\tone\r\ntwo\u202e' },
      { kind: 'tool_call', continued: true, content: '\u009b31m' },
    ]
    await callWorkerApi(turn, 'transcript', { entries })
    const { text } = await server.get(`${p}/turns/${turn.agent_turn_id}/transcript/text`)
    expect(text.slice(9)).toBe('call run?[2J\n?]0;x?\tone\ntwo??31m\n')
  })

  it('[T9.2] a worker that lost its turn gets 409, its successor appends after it, and a repeated request changes nothing', async () => {
    const turn = await running('lost')
    const first = { session: 7, first: 1, entries: [line('first attempt')] }
    expect((await callWorkerApi(turn, 'transcript', first)).body).toEqual({ status: 'appended', seq: 1 })
    expect((await callWorkerApi(turn, 'transcript', first)).body).toEqual({ status: 'appended', seq: 1 })
    await pass(40)
    const [successor] = await claim()
    expect(successor).toMatchObject({ agent_turn_id: turn.agent_turn_id, taken_over: true })
    const refused = await callWorkerApi(turn, 'transcript', { entries: [line('zombie')] })
    expect([refused.status, refused.body.code]).toEqual([409, 'stale'])
    await callWorkerApi(successor!, 'transcript', { entries: [line('second attempt')] })
    const entries = await entriesOf(turn)
    expect(entries.map(({ content }) => content)).toEqual(['first attempt', 'second attempt'])
    expect(entries.map((entry) => entry['turn_epoch'])).toEqual([turn.turn_epoch, successor!.turn_epoch])
  })

  it('[T9.2] only keys that may read the turn can read its transcript, and only workers can append to it', async () => {
    const turn = await running('secret')
    await callWorkerApi(turn, 'transcript', { entries: [line('secret')] })
    const path = `${p}/turns/${turn.agent_turn_id}/transcript`
    const elsewhere = await server.key('reader', { project: 'elsewhere' })
    for (const part of ['', '/events', '/text']) {
      expect((await server.get(`${path}${part}`, { key: elsewhere })).status).toBe(403)
      expect((await server.get(`${path}${part}`, { key: server.keys.worker })).status).toBe(403)
      expect((await server.get(`/projects/elsewhere/turns/${turn.agent_turn_id}/transcript${part}`)).status).toBe(404)
    }
    const body = { turn_epoch: turn.turn_epoch, lease_token: turn.lease_token, entries: [line('forged')] }
    const append = `/turns/${turn.agent_turn_id}/transcript`
    expect((await server.post(append, body, { key: server.keys.operator })).status).toBe(403)
    expect((await entriesOf(turn)).map(({ content }) => content)).toEqual(['secret'])
  })

  it('[T9.2] a long entry becomes several that continue each other', async () => {
    const turn = await running('long')
    const content = 'ü'.repeat(16_384)
    await callWorkerApi(turn, 'transcript', { session: 1, entries: [line(content), line('next')] })
    const entries = await entriesOf(turn)
    expect(entries.map((entry) => entry['continued'])).toEqual([false, true, false])
    expect(
      entries
        .slice(0, 2)
        .map((entry) => entry['content'])
        .join(''),
    ).toBe(content)
  })
})

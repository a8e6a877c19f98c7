/** Replay, fork, export and import over HTTP, with turns of a scripted model, of a function, and of no worker at all. */
import { createHash } from 'node:crypto'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { ReplayReport, Trail } from '@bellwether/protocol/http'
import { replay } from '../../src/worker/replay/replay.js'
import { agentFunction } from '../../src/worker/agent.js'
import { openModelSetup, type ModelSetup } from '../executors/model/model-setup.js'
import { addAgent, addTurn, serverPerFile, type Body } from '../http/test-server.js'
import { project } from '../support/kernel.js'
import { reportSuccess } from '../support/kernel-turns.js'
import { testWorker, runTurns } from '../support/worker.js'

const server = serverPerFile()
const elsewhere = serverPerFile()
const p = `/projects/${project}`
let b: ModelSetup
let asked = 0
beforeAll(async () => {
  b = await openModelSetup({
    t: server.t,
    tools: { add: ({ a, b: more }) => Number(a) + Number(more), half: () => 21 },
  })
})
afterAll(() => b.close())

/** Two steps with tools, then an answer that contains the last result and the instruction. */
const counting = () =>
  b.script(({ messages }) => {
    asked += 1
    const outputs = messages.flatMap((one) => (one.role === 'tool' ? one.outputs : []))
    if (outputs.length === 0)
      return {
        text: 'I add.',
        calls: [
          { name: 'add', args: { a: 1, b: 2 } },
          { name: 'nothing', args: {} },
        ],
      }
    if (outputs.length === 2) return { calls: [{ name: 'half', args: {} }] }
    const texts = messages.flatMap((one) => (one.role === 'user' ? [one.text] : [])).join(' ')
    return { text: `sum ${outputs[0]!.text}, ${/Double/.test(texts) ? 'doubled' : 'plain'}` }
  })

const ended = () => b.run({ model: counting() })

const replayed = async (turn: string) => {
  const { status, body } = await server.get(`${p}/turns/${turn}/replay`)
  expect(status).toBe(200)
  return body as unknown as ReplayReport
}

/** Of every row that belongs to the turn. */
async function rowsHash(turn: string): Promise<string> {
  const rows = await server.t.all<{ row: string }>(
    `select t::text as row from state.agent_inbox t where agent_turn_id = $1
      union all select t::text from state.agent_steps t where agent_turn_id = $1
      union all select t::text from state.turn_waiting_tools t where agent_turn_id = $1
      union all select t::text from state.transcript t where agent_turn_id = $1
      union all select c::text || x::text from cards.cards c join cards.box_cards x using (card_id)
        where c.metadata ->> 'agent_turn_id' = $1
      union all select e::text from state.events e where agent_turn_id = $1
      order by 1`,
    turn,
  )
  expect(rows.length).toBeGreaterThan(5)
  return createHash('sha256')
    .update(rows.map(({ row }) => row).join('\n'))
    .digest('hex')
}

const fork = (turn: string, body: object, headers = {}) =>
  server.request('POST', `${p}/turns/${turn}/fork`, body, { headers })

it('replays the turn of a model to the same deliverable, without a call of the model or a tool', async () => {
  const { agent_turn_id: turn, text } = await ended()
  expect(text).toBe('sum 3, plain')
  const calls = [asked, { ...b.ran }]
  const report = await replayed(turn!)
  expect(report).toMatchObject({ result: 'exact', executor: 'model', rerun: true, first_step: 0, difference: null })
  expect(report.deliverable.replayed_sha256).toBe(report.deliverable.recorded_sha256)
  expect(report.steps.map(({ step, result }) => [step, result])).toEqual([
    [1, 'same'],
    [2, 'same'],
    [3, 'same'],
  ])
  expect([asked, b.ran]).toEqual(calls)
})

it('names the first step that differs', async () => {
  const { agent_turn_id: turn } = await ended()
  const trail = (await server.get(`${p}/turns/${turn}/export`)).body as unknown as Trail
  const steps = trail.cards.filter(({ metadata }) => metadata['model_step'] !== undefined)
  const changed = (card: unknown, change: object): Trail => ({
    ...trail,
    cards: trail.cards.map((one) => (one === card ? { ...one, ...change } : one)),
  })
  const second = steps[1]!
  const note = second.metadata['model_step'] as Body
  const renumbered = changed(second, { metadata: { ...second.metadata, model_step: { ...note, step_id: 'other' } } })
  expect(replay(renumbered)).toMatchObject({ result: 'differs', difference: { step: 2 } })
  expect(replay(renumbered).steps.map(({ result }) => result)).toEqual(['same', 'differs', 'not_reached'])
  const answer = changed(steps[2], { content: { text: 'another answer' } })
  expect(replay(answer)).toMatchObject({ difference: { step: null, what: 'the deliverable' } })
  const refused = trail.cards.find(({ type, metadata }) => type === 'tool.call' && metadata['refused'] === true)
  expect(replay({ ...trail, cards: trail.cards.filter((card) => card !== refused) })).toMatchObject({
    difference: { step: 1, what: 'a refused call' },
  })
})

it('forks a turn at each of its steps, and the original does not change', async () => {
  const { agent_turn_id: turn } = await ended()
  const before = await rowsHash(turn!)
  for (const [at, calls] of [
    [0, 3],
    [1, 2],
    [2, 1],
    [3, 0],
  ] as const) {
    const first = asked
    const { status, body } = await fork(turn!, { at })
    expect(status).toBe(202)
    const id = body.agent_turn_id!
    expect(await b.ended(id)).toMatchObject({ outcome: 'success', text: 'sum 3, plain' })
    expect(asked - first).toBe(calls)
    expect(await replayed(id)).toMatchObject({ result: 'exact', executor: 'model' })
    const detail = (await server.get(`${p}/turns/${id}`)).body
    expect(detail).toMatchObject({
      parent: { agent_turn_id: turn },
      forked_from: { agent_turn_id: turn, step: at },
      continues: null,
    })
    expect((detail['cards'] as Body[]).length).toBeGreaterThanOrEqual(8)
  }
  expect(await rowsHash(turn!)).toBe(before)
  const children = (await server.get(`${p}/turns/${turn}`)).body['children'] as Body[]
  expect(children).toHaveLength(4)
})

it('a fork of a fork, with another result, another instruction and a message', async () => {
  const { agent_turn_id: turn } = await ended()
  const call = `${turn}-s0001-c1`
  const edited = (await fork(turn!, { at: 1, edit: { results: { [call]: 40 } } })).body.agent_turn_id!
  expect((await b.ended(edited)).text).toBe('sum 40, plain')
  const doubled = (await fork(edited, { at: 2, edit: { instruction: 'Double it' } })).body.agent_turn_id!
  expect((await b.ended(doubled)).text).toBe('sum 40, doubled')
  const spoken = (await fork(turn!, { at: 3, edit: { message: 'Double it' } })).body.agent_turn_id!
  expect((await b.ended(spoken)).text).toBe('sum 3, doubled')
  expect(await replayed(spoken)).toMatchObject({ result: 'exact' })
})

it('refuses a fork at a step that the turn does not have, and an edit of a call that it does not keep', async () => {
  const { agent_turn_id: turn } = await ended()
  const count = async () => (await server.t.one<{ n: number }>('select count(*)::int as n from state.agent_inbox')).n
  const before = await count()
  expect(await fork(turn!, { at: 4 })).toMatchObject({ status: 400, body: { code: 'unknown_step' } })
  const later = { results: { [`${turn}-s0002-c1`]: 1 } }
  expect(await fork(turn!, { at: 1, edit: later })).toMatchObject({ status: 400, body: { code: 'unknown_call' } })
  expect(await fork(turn!, { at: 1, edit: {} })).toMatchObject({ status: 400, body: { code: 'invalid_request' } })
  expect(await fork('unknown', { at: 0 })).toMatchObject({ status: 404 })
  expect(await count()).toBe(before)
})

it('a repeated fork with the same key starts one turn', async () => {
  const { agent_turn_id: turn } = await ended()
  const headers = { 'idempotency-key': 'fork-once' }
  const [one, two] = [await fork(turn!, { at: 2 }, headers), await fork(turn!, { at: 2 }, headers)]
  expect(two.body.agent_turn_id).toBe(one.body.agent_turn_id)
  await b.ended(one.body.agent_turn_id!)
})

it('a fork of a function gets the results that the function had at that step', async () => {
  const agentId = 'forked-function'
  await server.t.kernel.putAgents([{ projectId: project, agentId, workerTarget: 'functions' }])
  const agent = agentFunction((turn) =>
    turn.results.length === 0
      ? { suspend: { calls: [{ toolCallId: turn.newId(), toolName: 'grep', args: {} }] } }
      : { deliver: { text: `got ${JSON.stringify(turn.results[0]!.result)}` } },
  )
  const worker = testWorker(server.t, () => agent, { workerTarget: 'functions' })
  const { agentTurnId: turn } = await server.t.kernel.enqueue({ projectId: project, agentId, instruction: 'search' })
  await runTurns(worker)
  const [wait] = await server.t.all<{ tool_call_id: string }>(
    'select tool_call_id from state.turn_waiting_tools where agent_turn_id = $1',
    turn,
  )
  await reportSuccess(server.t, wait!.tool_call_id, 'a line')
  await runTurns(worker)
  expect(await replayed(turn)).toMatchObject({ result: 'exact', executor: 'function', rerun: false })
  const edit = { results: { [wait!.tool_call_id]: 'another line' } }
  const forked = (await fork(turn, { at: 1, edit })).body.agent_turn_id!
  await runTurns(worker)
  expect((await server.get(`${p}/turns/${forked}`)).body).toMatchObject({
    outcome: 'success',
    deliverable: { content: { text: 'got "another line"' } },
  })
})

it('refuses to replay, fork or export a turn that has not ended', async () => {
  await addAgent(server, 'slow')
  const turn = await addTurn(server, 'slow')
  expect(await server.get(`${p}/turns/${turn}/replay`)).toMatchObject({ status: 409, body: { code: 'turn_not_ended' } })
  expect(await fork(turn, { at: 0 })).toMatchObject({ status: 409 })
  expect(await server.get(`${p}/turns/${turn}/export`)).toMatchObject({ status: 409 })
  await server.post(`${p}/turns/${turn}/stop`)
  expect(await replayed(turn)).toMatchObject({ result: 'exact', executor: 'none' })
})

const importTo = (document: unknown) => elsewhere.request('POST', `${p}/imports`, document)

it('moves turns to another database, where they replay and read the same, and are never run', async () => {
  const first = await ended()
  const again = (await fork(first.agent_turn_id!, { at: 1 })).body.agent_turn_id!
  await b.ended(again)
  for (const turn of [first.agent_turn_id!, again]) {
    const exported = await server.get(`${p}/turns/${turn}/export`)
    expect(await importTo(exported.body)).toMatchObject({ status: 201, body: { agent_turn_id: turn } })
    expect(await importTo(exported.body)).toMatchObject({ status: 409, body: { code: 'turn_exists' } })
    const detail = (await elsewhere.get(`${p}/turns/${turn}`)).body
    const here = (await server.get(`${p}/turns/${turn}`)).body
    expect(detail).toMatchObject({
      outcome: 'success',
      imported_from: { project_id: project, imported_by: expect.any(String) },
    })
    expect(detail['cards']).toEqual(here['cards'])
    expect((detail['deliverable'] as Body)['content']).toEqual((here['deliverable'] as Body)['content'])
    const report = (await elsewhere.get(`${p}/turns/${turn}/replay`)).body
    expect(report).toEqual(await replayed(turn))
  }
  // A document cannot put a card of another project into its context.
  const other = { ...((await server.get(`${p}/turns/${first.agent_turn_id}/export`)).body as unknown as Trail) }
  const stranger = await elsewhere.request('POST', '/projects/q/imports', {
    ...other,
    turn: { ...other.turn, agent_turn_id: 'turn-of-q', deliverable_card_id: null, output_box_id: null },
    ...{ cards: [], steps: [], waits: [], receipts: [], transcript: [] },
  })
  expect(stranger).toMatchObject({ status: 409, body: { code: 'turn_exists' } })
  expect(await elsewhere.t.all('select * from state.queue')).toEqual([])
})

it('an invalid or newer document changes nothing, and the error says what to do', async () => {
  const { agent_turn_id: turn } = await ended()
  const trail = (await server.get(`${p}/turns/${turn}/export`)).body as unknown as Trail
  const rows = () =>
    elsewhere.t.all('select count(*) from cards.cards union all select count(*) from state.agent_inbox')
  const before = await rows()
  const refused = async (document: unknown) => {
    const { status, body } = await importTo(document)
    expect(status).toBe(400)
    return body.code
  }
  expect(await refused({ ...trail, version: 2 })).toBe('newer_trail')
  expect(await refused({ ...trail, format: 'something' })).toBe('invalid_trail')
  expect(await refused({ ...trail, cards: [{}] })).toBe('invalid_trail')
  expect(await refused({ ...trail, extra: 1 })).toBe('invalid_trail')
  const [card] = trail.cards
  expect(await refused({ ...trail, cards: [{ ...card!, content: { text: 'a\0b' } }] })).toBe('invalid_text')
  // The last statement of the import fails.
  const entry = {
    seq: 1,
    kind: 'unknown',
    continued: false,
    call_id: null,
    name: null,
    content: '',
    created_at: card!.created_at,
  }
  expect(await refused({ ...trail, transcript: [entry] })).toBe('invalid_trail')
  expect(await rows()).toEqual(before)
})

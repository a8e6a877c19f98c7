/** The library on a real database, as a program that only has a PostgreSQL URL uses it. */
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { deferred } from '@bellwether/base'
import { afterAll, beforeAll, expect, it, onTestFinished, vi } from 'vitest'
import { defineTool, open, TurnFailed, type Bellwether } from '../../src/index.js'
import { freshDatabase, testFolder } from '../support/postgres.js'
import { quietLog } from '../support/quiet-log.js'

let database: Awaited<ReturnType<typeof freshDatabase>>
let bw: Bellwether
beforeAll(async () => {
  database = await freshDatabase()
  bw = await open(database.url, { log: quietLog })
  await bw.agents.define('greeter', (turn) => `Hello! You asked: ${turn.instruction}`)
  await bw.agents.define('clerk', (turn) =>
    turn.results.length === 0
      ? { suspend: { calls: [{ toolCallId: turn.newId(), toolName: 'stamp', args: { pages: 3 } }] } }
      : `stamped: ${JSON.stringify(turn.results[0]!.result)}`,
  )
  await bw.agents.define('asker', ({ turn, results }) =>
    results.length === 0
      ? {
          suspend: {
            calls: [{ toolCallId: `ask-${turn.agentTurnId}`, toolName: 'ask_person', args: {}, hostedBy: 'people' }],
          },
        }
      : `answer: ${JSON.stringify(results[0]!.result)}`,
  )
  await bw.agents.define('failing', () => ({ deliver: { text: 'no' }, status: 'failed', error: 'not_today' }))
  await bw.agents.define('elsewhere', { target: 'another' })
  await bw.agents.define('listener', async (turn) => {
    const [first] = await turn.messages()
    return first === undefined ? `heard nothing, asked: ${turn.instruction}` : `heard: ${first.text}`
  })
  const stamp = defineTool({
    name: 'stamp',
    description: 'Stamps pages.',
    parameters: { type: 'object', properties: { pages: { type: 'number' } } },
    run: async ({ pages }) => ({ stamps: pages }),
  })
  await bw.worker({ tools: [stamp], agents: { late: (turn) => turn.instruction.toUpperCase() } })
})
afterAll(async () => {
  await bw.close()
  await database.drop()
})

it('runs a turn and returns its deliverable', async () => {
  expect(await bw.turns.run('greeter', 'Good morning')).toEqual({ text: 'Hello! You asked: Good morning' })
})

it('defines schedules, runs one while it is paused, and reports what became of it', async () => {
  const nightly = { cron: '30 2 * * *', time_zone: 'Europe/Berlin', agent: 'greeter', instruction: 'Good night' }
  await bw.schedules.define('nightly', nightly)
  await bw.schedules.define('nightly', { ...nightly, overlap: 'replace' })
  expect(await bw.schedules.list()).toMatchObject([{ schedule: 'nightly', definition: { overlap: 'replace' } }])
  await bw.schedules.pause('nightly')
  expect(await bw.schedules.list()).toMatchObject([{ paused_by: 'library', next_fire_at: null }])
  const fire = await bw.schedules.run('nightly')
  expect(await bw.turns.wait(fire.agent_turn_id!)).toMatchObject({ outcome: 'success' })
  await bw.schedules.resume('nightly')
  expect((await bw.schedules.list())[0]!.next_fire_at).toBeInstanceOf(Date)
  await expect(bw.schedules.define('nightly', { ...nightly, cron: 'at night' })).rejects.toThrow(/"cron"/)
  await expect(bw.schedules.define('no agent', nightly)).rejects.toThrow(/1 to 64 of the characters/)
  await expect(bw.schedules.define('x', { every: '1h', agent: 'absent', instruction: 'x' })).rejects.toThrow(/absent/)
  await bw.schedules.remove('nightly')
  expect(await bw.schedules.list()).toEqual([])
  expect(await bw.schedules.fires('nightly')).toMatchObject([{ kind: 'manual', requested_by: 'library' }])
})

it('waits for hosted tools without holding the turn', async () => {
  expect(await bw.turns.run('clerk', 'Stamp it.')).toEqual({ text: 'stamped: {"stamps":3}' })
})

it('runs an agent whose code is given to the worker', async () => {
  await bw.agents.define('late')
  expect(await bw.turns.run('late', 'loud')).toEqual({ text: 'LOUD' })
})

it('sends a message to a turn, lists it, and continues the turn after its end', async () => {
  const { id } = await bw.turns.start('elsewhere', 'Wait.')
  expect(await bw.turns.say(id, 'one', { messageId: 'm1', sender: 'rita' })).toEqual({ seq: 1, status: 'waiting' })
  expect(await bw.turns.say(id, 'one', { messageId: 'm1', sender: 'rita' })).toEqual({ seq: 1, status: 'waiting' })
  expect(await bw.turns.messages(id)).toEqual([{ seq: 1, sender: 'rita', text: 'one', status: 'waiting' }])
  await expect(bw.turns.continue(id, 'More.')).rejects.toMatchObject({ code: 'turn_not_ended' })
  await bw.turns.stop(id)
  // The turn ended before its agent got the message.
  expect(await bw.turns.messages(id)).toMatchObject([{ status: 'not delivered' }])
  await expect(bw.turns.say(id, 'two')).rejects.toMatchObject({ code: 'turn_ended' })
  await expect(bw.turns.say('none', 'two')).rejects.toMatchObject({ code: 'unknown_turn' })
  const first = await bw.turns.start('listener', 'Listen.')
  await bw.turns.wait(first.id)
  const next = await bw.turns.continue(first.id, 'Again.', { correlationId: 'follow-up' })
  expect(await bw.turns.continue(first.id, 'Again.', { correlationId: 'follow-up' })).toEqual({
    ...next,
    duplicate: true,
  })
  expect(await bw.turns.wait(next.id)).toMatchObject({ deliverable: { text: 'heard nothing, asked: Again.' } })
})

it('throws TurnFailed with the turn when a turn fails', async () => {
  const error = await bw.turns.run('failing', 'Try.').catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(TurnFailed)
  expect(error).toMatchObject({ code: 'not_today', turn: { outcome: 'failed', deliverable: { text: 'no' } } })
})

it('[T9.2] lists questions, delivers the answers of people, and has both in the transcript', async () => {
  const events = bw.events({ kinds: ['command', 'state'] })
  const { id } = await bw.turns.start('asker', 'Ask someone.')
  for await (const event of events) {
    expect(['command', 'state']).toContain(event.kind)
    if ((await bw.toolCalls.questions()).length > 0) break
  }
  expect(await bw.toolCalls.answer(`ask-${id}`, 'blue')).toBe('reported')
  expect(await bw.turns.wait(id)).toMatchObject({ outcome: 'success', deliverable: { text: 'answer: "blue"' } })
  expect(await bw.toolCalls.answer(`ask-${id}`, 'red')).toBe('ignored')
  const entries: string[] = []
  for await (const { kind, content } of bw.turns.transcript(id)) entries.push(`${kind} ${content}`)
  expect(entries).toEqual(['question {}', 'answer blue'])
  await expect(bw.toolCalls.answer('none', 1)).rejects.toMatchObject({ code: 'unknown_tool_call' })
})

it('starts one turn per correlation id, reads it, gives up waiting and stops it', async () => {
  const first = await bw.turns.start('elsewhere', 'Wait.', { correlationId: 'one' })
  expect(await bw.turns.start('elsewhere', 'Wait.', { correlationId: 'one' })).toEqual({
    id: first.id,
    duplicate: true,
  })
  expect(await bw.turns.get(first.id)).toMatchObject({ agent: 'elsewhere', outcome: null, deliverable: null })
  await expect(bw.turns.wait(first.id, { timeoutMs: 50 })).rejects.toMatchObject({ code: 'wait_timeout' })
  expect(await bw.turns.stop(first.id, 'not needed')).toBe('ended')
  expect(await bw.turns.stop(first.id)).toBe('already')
  const fallback = { code: 'stopped', reason: 'not needed', endedBy: 'turns.stop', started: false, lastText: null }
  expect(await bw.turns.wait(first.id)).toMatchObject({ outcome: 'canceled', deliverable: { fallback } })
  await expect(bw.turns.get('none')).rejects.toMatchObject({ code: 'unknown_turn' })
})

it('yields the events of a turn that is started after the call, however slow the database is', async () => {
  const { db } = bw.kernel
  const query = db.query.bind(db)
  const gate = deferred<void>()
  vi.spyOn(db, 'query').mockImplementation(async (statement) => {
    if (statement.name === 'bw_outbox_end') await gate.promise
    return query(statement)
  })
  onTestFinished(() => void vi.restoreAllMocks())
  const events = bw.events()
  let isStarted = false
  const starting = bw.turns.start('greeter', 'Good morning').finally(() => (isStarted = true))
  for (let trip = 0; trip < 50; trip += 1) await query({ text: 'select 1' })
  expect(isStarted).toBe(false)
  gate.resolve()
  const { id } = await starting
  for await (const event of events) if (event.turnId === id && event.kind === 'task') break
})

it('yields the events of a turn in order, ending with its task event', async () => {
  const events = bw.events()
  const { id } = await bw.turns.start('greeter', 'Once more')
  const kinds: string[] = []
  for await (const event of events) {
    if (event.turnId !== id) continue
    kinds.push(event.kind)
    if (event.kind === 'task') break
  }
  expect(kinds.at(-1)).toBe('task')
  expect(kinds.filter((kind) => kind === 'task')).toHaveLength(1)
})

it('[T9.2] reads the transcript of a turn afterwards, and live until the turn ends', async () => {
  const gate = deferred<void>()
  await bw.agents.define('talker', async (turn) => {
    turn.say('first')
    await gate.promise
    turn.say({ kind: 'note', content: 'second' })
    return 'done'
  })
  const { id } = await bw.turns.start('talker', 'Talk.')
  const live: string[] = []
  for await (const { kind, content } of bw.turns.transcript(id, { live: true })) {
    live.push(`${kind} ${content}`)
    gate.resolve()
  }
  expect(live).toEqual(['text first', 'note second'])
  expect(await bw.turns.get(id)).toMatchObject({ outcome: 'success' })
  const stored: unknown[] = []
  for await (const entry of bw.turns.transcript(id, { after: 1 })) stored.push(entry)
  expect(stored).toMatchObject([{ seq: 2, kind: 'note', content: 'second', createdAt: expect.any(Date) as Date }])
  await expect(bw.turns.transcript('none').next()).rejects.toMatchObject({ code: 'unknown_turn' })
})

it('rejects an address that is not a PostgreSQL URL, or is not set', async () => {
  await expect(open('localhost:5432')).rejects.toMatchObject({ code: 'invalid_database_url' })
  const unset = undefined as unknown as string
  await expect(open(unset)).rejects.toMatchObject({ code: 'invalid_database_url' })
})

it('opens an embedded database in a folder, without a server', async () => {
  const folder = await testFolder()
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const own = await open({ embedded: join(folder, 'database') }, { log: quietLog, project: 'own' })
  await own.agents.define('greeter', () => 'hello')
  await own.worker()
  expect(await own.turns.run('greeter', 'Hi')).toEqual({ text: 'hello' })
  await own.close()
})

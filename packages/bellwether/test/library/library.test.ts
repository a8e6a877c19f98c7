/** The library on a real database, as a program that only has a PostgreSQL URL uses it. */
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
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

it('waits for hosted tools without holding the turn', async () => {
  expect(await bw.turns.run('clerk', 'Stamp it.')).toEqual({ text: 'stamped: {"stamps":3}' })
})

it('runs an agent whose code is given to the worker', async () => {
  await bw.agents.define('late')
  expect(await bw.turns.run('late', 'loud')).toEqual({ text: 'LOUD' })
})

it('throws TurnFailed with the turn when a turn fails', async () => {
  const error = await bw.turns.run('failing', 'Try.').catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(TurnFailed)
  expect(error).toMatchObject({ code: 'not_today', turn: { outcome: 'failed', deliverable: { text: 'no' } } })
})

it('lists questions and delivers the answers of people', async () => {
  const events = bw.events({ kinds: ['command', 'state'] })
  const { id } = await bw.turns.start('asker', 'Ask someone.')
  for await (const event of events) {
    expect(['command', 'state']).toContain(event.kind)
    if ((await bw.toolCalls.questions()).length > 0) break
  }
  expect(await bw.toolCalls.answer(`ask-${id}`, 'blue')).toBe('reported')
  expect(await bw.turns.wait(id)).toMatchObject({ outcome: 'success', deliverable: { text: 'answer: "blue"' } })
  expect(await bw.toolCalls.answer(`ask-${id}`, 'red')).toBe('ignored')
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

it('rejects an address that is not a PostgreSQL URL', async () => {
  await expect(open('localhost:5432')).rejects.toMatchObject({ code: 'invalid_database_url' })
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

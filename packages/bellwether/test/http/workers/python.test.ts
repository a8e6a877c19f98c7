/** examples/python-worker/worker.py against a real server: a complete turn, a budget, and a takeover. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { until } from '../../support/until.js'
import { call, openServerProcesses, type ServerProcesses, type RunningServer } from '../server-process.js'

const script = fileURLToPath(new URL('../../../../../examples/python-worker/worker.py', import.meta.url))
let processes: ServerProcesses
let server: RunningServer
let key = ''
beforeAll(async () => {
  processes = await openServerProcesses()
  server = await processes.server()
  key = String(server.readyLine['adminKey'])
  await ask('PUT', '/projects/demo/agents/ann', { worker_target: 'py' })
  await ask('PUT', '/projects/demo/agents/bob', { worker_target: 'py' })
})
afterAll(() => processes.stop())

const ask = (method: string, path: string, body?: object) => call(server.address, key, method, path, body)
async function worker() {
  const { body } = await ask('POST', '/keys', { role: 'worker' })
  const env = { BELLWETHER_URL: server.address, BELLWETHER_KEY: String(body['key']) }
  return processes.program('python3', [script, 'py'], env)
}
/** The turn, when it has ended. */
const ended = (turn: string) =>
  until('the turn ends', async () => {
    const found = await ask('GET', `/projects/demo/turns/${turn}?wait=30`)
    return found.body['outcome'] === null ? undefined : found
  })
const enqueue = async (agent: string, instruction: string, more: object = {}) =>
  String((await ask('POST', `/projects/demo/agents/${agent}/turns`, { instruction, ...more })).body['agent_turn_id'])

it('the Python worker has at most 60 lines', () => {
  expect(readFileSync(script, 'utf8').trimEnd().split('\n').length).toBeLessThanOrEqual(60)
})

it('[T3.2a] [T8.1] a Python worker runs turns with and without a tool, stays within its budget, and after SIGKILL another one takes its turn over', async () => {
  const first = await worker()
  const plain = await enqueue('ann', 'say hello')
  const done = await ended(plain)
  expect([done.body['status'], first.stderr()]).toEqual(['success', ''])
  expect(done.body['deliverable']).toMatchObject({ content: { text: 'say hello: done' } })

  for (const max_tokens of [400, 500]) {
    const cheap = await enqueue('ann', 'save', { budget: { max_tokens } })
    const { body: spent } = await ended(cheap)
    expect(spent).toMatchObject(
      max_tokens === 400
        ? { status: 'failed', error: 'budget_exceeded', budget: { exceeded_keys: ['tokens'], tokens: { used: 0 } } }
        : { status: 'success', budget: { exceeded_keys: [], tokens: { used: 'save'.length } } },
    )
  }

  const asking = await enqueue('bob', 'ask a person')
  await until('its question', async () => {
    const { body } = await ask('GET', `/projects/demo/turns/${asking}`)
    return (body['waits'] as object[]).length > 0 ? true : undefined
  })
  await ask('POST', `/projects/demo/tool-calls/${asking}-1/result`, { status: 'success', result: 42 })
  const answered = await ended(asking)
  expect(answered.body['deliverable']).toMatchObject({ content: { text: 'ask a person: 42' } })

  const long = await enqueue('ann', 'wait for me')
  await until('the worker to be at it', async () =>
    first.lines().some((line) => line['turn'] === long) ? true : undefined,
  )
  // Longer than the processing timeout, so only beats have kept the turn.
  await until('some beats', async () => {
    const [row] = await processes.db.query<{ beaten: boolean }>({
      text: `select updated_at > leased_at + interval '5.5 seconds' as beaten from state.agent_state_head where agent_id = 'ann'`,
    })
    return row?.beaten === true ? true : undefined
  })
  first.child.kill('SIGKILL')
  const second = await worker()
  const taken = await ended(long)
  expect(taken.body).toMatchObject({ status: 'success', deaths: 1 })
  expect(second.lines()).toContainEqual({ turn: long, kind: 'turn', taken_over: true })
  expect(taken.body['interventions']).toMatchObject([{ kind: 'reclaim' }])
  const { body } = await ask('GET', '/projects/demo/agents/ann')
  const box = (body['state'] as Record<string, string>)['output_box_id']
  const cards = (await ask('GET', `/projects/demo/boxes/${box}/cards`)).body['cards'] as { type: string }[]
  expect(cards.filter((card) => card.type === 'task.deliverable')).toHaveLength(4)
})

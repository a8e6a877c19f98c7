/** The commands that change many turns or tasks, against a real server: preview, confirmation, results and exit codes. */
import { beforeAll, expect, it } from 'vitest'
import { inProcess } from '../cli/running-up.js'
import { project } from '../support/kernel.js'
import { boardPart } from './board-part.js'
import { addAgent, addTurn, serverPerFile } from './test-server.js'

const server = serverPerFile(async (world) => ({ board: await boardPart(world) }))
const ids: string[] = []

beforeAll(async () => {
  for (const agent of ['ann', 'bob']) {
    await addAgent(server, agent)
    for (let at = 0; at < 2; at += 1) ids.push(await addTurn(server, agent))
  }
})

const type = (...words: string[]) => inProcess([...words, '--server', server.url, '--key', server.keys.operator])
const statuses = async () => {
  const { turns = [] } = (await server.get(`/projects/${project}/turns`)).body
  return turns.map(({ agent_id: agent, status }) => `${String(agent)} ${String(status)}`).toSorted()
}

it('shows what would change, changes nothing without a confirmation, and stops the turns of a filter with --yes', async () => {
  const before = await statuses()
  const stop = ['turn', 'stop', '--all', '--agent', 'ann', '--project', project]
  const preview = await type(...stop, '--dry-run')
  expect(preview).toMatchObject({ code: 0, err: '' })
  expect(preview.out).toContain('stop: would change 2 turns\n')
  const unconfirmed = await type(...stop)
  expect([unconfirmed.code, unconfirmed.err]).toEqual([2, expect.stringContaining('add --yes')])
  expect(await statuses()).toEqual(before)
  const stopped = await type(...stop, '--yes', '--reason', 'wrong branch', '--json')
  expect(JSON.parse(stopped.out)).toMatchObject({ dry_run: false, affected: 2, unaffected: 0, failed: 0 })
  expect(await statuses()).toEqual(['ann canceled', 'ann canceled', 'bob dispatched', 'bob queued'])
  expect((await type(...stop, '--yes')).out).toContain('No turn matches')
})

it('runs named turns again, and says why others stay as they are', async () => {
  const again = await type('turn', 'retry', ...ids, '--project', project, '--yes')
  expect([again.code, again.out]).toEqual([0, expect.stringContaining('retry: changed 2 turns; 2 unaffected')])
  expect(again.out).toContain('it has not ended')
  expect(await statuses()).toHaveLength(6)
})

it('gives tasks another priority and agent, and runs an action on all that match', async () => {
  await server.post('/board/control', { paused: true })
  for (const title of ['one', 'two']) await server.post('/board/tasks', { title })
  const prioritized = await type('task', 'bulk', 'prioritize', 'T-1', 'T-2', 'T-9', '--priority', '7', '--yes')
  expect(prioritized.out).toContain('prioritize: changed 2 tasks; 1 unaffected')
  expect(prioritized.out).toContain('there is no such task')
  await type('task', 'bulk', 'assign', 'T-1', '--to', 'bob', '--yes')
  await type('task', 'bulk', 'require-approval', '--all', '--text', 'two', '--yes')
  const tasks = (await server.get('/board/tasks')).body['tasks'] as { priority: number; waitCode: string | null }[]
  expect(tasks.map(({ priority }) => priority)).toEqual([7, 7])
  expect((await server.get('/board/tasks/T-1')).body['fields']).toMatchObject({ agent: 'bob' })
  expect((await server.get('/board/tasks/T-2')).body).toMatchObject({ waitCode: 'approval' })
})

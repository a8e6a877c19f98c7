/** Many turns or tasks at once: preview, act, results per row, repeated requests, counts that changed, limits and the audit log. */
import { beforeAll, describe, expect, it } from 'vitest'
import { project } from '../support/kernel.js'
import { boardPart } from './board-part.js'
import { addAgent, addTurn, serverPerFile, type Body } from './test-server.js'

const server = serverPerFile(async (world) => ({ board: await boardPart(world) }))
const turns = `/projects/${project}/turns`

interface Row {
  readonly agent_turn_id: string
  readonly taskId: string
  readonly updatedAt: string
  readonly result: string
  readonly reason: string | null
  readonly new_turn_id: string | null
}
const rowsOf = (body: Body) => body['rows'] as readonly Row[]
const resultsOf = (body: Body) => rowsOf(body).map(({ result, reason }) => (reason === null ? result : reason))
/** The newest lines of the audit log, oldest first. */
const audited = async (limit: number) =>
  ((await server.get(`/audit?limit=${limit}`)).body['audit'] as { method: string; path: string; status: number }[])
    .map(({ method, path, status }) => `${method} ${path.replace('/api/v1', '')} ${status}`)
    .toReversed()
const auditLines = async () =>
  (await server.t.one<{ n: number }>('select count(*)::int as n from resource.audit_log')).n

describe('turns', () => {
  const bulk = (body: object) => server.post(`${turns}/bulk`, body)
  let queued: string[]
  let other: string

  beforeAll(async () => {
    for (const agent of ['ann', 'bob']) await addAgent(server, agent)
    queued = []
    for (let at = 0; at < 3; at += 1) queued.push(await addTurn(server, 'ann', { instruction: `number ${at}` }))
    other = await addTurn(server, 'bob')
  })

  it('previews a filter without changing or auditing anything, and refuses the action if another number would be affected', async () => {
    const lines = await auditLines()
    const preview = await bulk({ action: 'stop', filter: { agent: 'ann' }, dry_run: true })
    expect(preview.body).toMatchObject({ dry_run: true, affected: 3, unaffected: 0, failed: 0, more: false })
    expect(
      rowsOf(preview.body)
        .map((row) => row.agent_turn_id)
        .toSorted(),
    ).toEqual(queued.toSorted())
    expect(await auditLines()).toBe(lines)
    const refused = await bulk({ action: 'stop', filter: { agent: 'ann' }, expected_affected: 2 })
    expect([refused.status, refused.body.code]).toEqual([409, 'count_changed'])
    expect((await server.get(`${turns}?agent=ann&status=canceled`)).body.turns).toEqual([])
    const unsure = await bulk({ action: 'stop', filter: { agent: 'ann' } })
    expect([unsure.status, unsure.text]).toEqual([400, expect.stringContaining('expected_affected')])
  })

  it('stops each turn once, with a result and an audit line per turn, and says why the others are unaffected', async () => {
    const ids = [...queued, 'no-such-turn', queued[0]!]
    const first = await bulk({ action: 'stop', turns: ids, reason: 'wrong branch' })
    expect(first.body).toMatchObject({ affected: 3, unaffected: 1, failed: 0 })
    expect(resultsOf(first.body)).toEqual(['affected', 'affected', 'affected', 'there is no such turn in this project'])
    expect((await audited(3)).toSorted()).toEqual(queued.map((id) => `POST ${turns}/${id}/stop 200`).toSorted())
    const again = await bulk({ action: 'stop', turns: queued })
    expect(resultsOf(again.body)).toEqual(queued.map(() => 'it has ended: canceled'))
    expect(await audited(1)).toEqual([`POST ${turns}/bulk 200`])
    expect((await server.get(`${turns}/${other}`)).body.status).toBe('dispatched')
  })

  it('runs ended turns again, each once per request id, and never one that has not ended', async () => {
    const body = { action: 'retry', turns: [...queued, other], request_id: 'r1' }
    expect((await bulk({ ...body, request_id: undefined })).status).toBe(400)
    const first = await bulk(body)
    expect(resultsOf(first.body)).toEqual(['affected', 'affected', 'affected', 'it has not ended'])
    const started = rowsOf(first.body).map((row) => row.new_turn_id)
    const again = await bulk(body)
    expect(rowsOf(again.body).map((row) => row.new_turn_id)).toEqual(started)
    expect(again.body).toMatchObject({ affected: 0, unaffected: 4 })
    const detail = (await server.get(`${turns}/${started[0]}`)).body
    expect((detail['context_cards'] as { content: object }[])[0]?.content).toMatchObject({ text: 'number 0' })
    expect((await server.get(`${turns}?agent=ann`)).body.turns).toHaveLength(6)
  })

  it('a turn of another project, and a key of another project, change nothing', async () => {
    const elsewhere = await server.post('/projects/other/turns/bulk', { action: 'stop', turns: [other] })
    expect(resultsOf(elsewhere.body)).toEqual(['there is no such turn in this project'])
    const key = await server.key('operator', { project: 'other' })
    const foreign = await server.post(`${turns}/bulk`, { action: 'stop', turns: [other] }, { key })
    expect(foreign.status).toBe(403)
  })

  it('takes at most 1,000 rows per request, and says that more match', async () => {
    const tooMany = await bulk({ action: 'stop', turns: Array.from({ length: 1_001 }, (_, at) => `t${at}`) })
    expect(tooMany.status).toBe(400)
    const many = Array.from({ length: 1_001 }, () => ({ projectId: project, agentId: 'bob', instruction: 'x' }))
    for (let at = 0; at < many.length; at += 500) await server.kernel.enqueueMany(many.slice(at, at + 500))
    const first = await bulk({ action: 'stop', filter: { agent: 'bob', status: 'queued' }, expected_affected: 1_000 })
    expect(first.body).toMatchObject({ affected: 1_000, failed: 0, more: true })
    const rest = await bulk({ action: 'stop', filter: { agent: 'bob' }, dry_run: true })
    expect(rest.body).toMatchObject({ affected: 2, more: false })
  })
})

describe('tasks', () => {
  const bulk = (body: object) => server.post('/board/tasks/bulk', body)
  const add = async (body: object) => String((await server.post('/board/tasks', body)).body['taskId'])
  const read = async (id: string) => (await server.get(`/board/tasks/${id}`)).body
  const ids: string[] = []

  beforeAll(async () => {
    await server.post('/board/control', { paused: true })
    for (const [title, more] of [
      ['Repair the login', { agent: 'ann', priority: 5 }],
      ['Write the guide', { agent: 'bob', instruction: 'Explain the LOGIN too' }],
      ['Publish', { requiresApproval: true }],
    ] as const)
      ids.push(await add({ title, ...more }))
  })

  it('filters tasks by agent, words, time and status, alike in the list and in a preview', async () => {
    const changed = encodeURIComponent(String((await read(ids[1]!))['updatedAt']))
    for (const [query, filter, wanted] of [
      ['agent=ann', { agent: 'ann' }, [0]],
      ['text=login', { text: 'login' }, [0, 1]],
      ['text=GUIDE&agent=ann', { text: 'GUIDE', agent: 'ann' }, []],
      [`until=${changed}`, { until: decodeURIComponent(changed) }, [0]],
      ['status=blocked', { status: 'blocked' }, []],
      ['error=x', { error: 'x' }, []],
      ['outcome=failed', { outcome: 'failed' }, []],
      ['min_cost_micros=1', { min_cost_micros: 1 }, []],
    ] as const) {
      const found = wanted.map((at) => ids[at])
      const listed = (await server.get(`/board/tasks?${query}`)).body['tasks'] as readonly Row[]
      expect(
        listed.map((one) => one.taskId),
        query,
      ).toEqual(found)
      const preview = await bulk({ action: 'freeze', filter, dry_run: true })
      expect(
        rowsOf(preview.body).map((one) => one.taskId),
        query,
      ).toEqual(found)
    }
  })

  it('names per task why an action does not apply, in the preview and when it runs, and runs it on the others', async () => {
    const tasks = [...ids, 'T-none'].map((taskId) => ({ taskId }))
    const expected = [
      expect.stringContaining('does not need approval'),
      expect.stringContaining('does not need approval'),
      'affected',
      'there is no such task',
    ]
    const preview = await bulk({ action: 'approve', tasks, dry_run: true })
    expect(resultsOf(preview.body)).toEqual(expected)
    expect((await read(ids[2]!))['waitCode']).toBe('approval')
    const done = await bulk({ action: 'approve', tasks })
    expect(resultsOf(done.body)).toEqual(expected)
    expect(await audited(1)).toEqual([`PATCH /board/tasks/${ids[2]} 200`])
    expect((await read(ids[2]!))['waitCode']).not.toBe('approval')
    const again = await bulk({ action: 'approve', tasks: [{ taskId: ids[2] }] })
    expect(resultsOf(again.body)).toEqual([expect.stringContaining('already approved')])
  })

  it('changes priority and agent, skips tasks that have the values, and tasks that changed since the preview', async () => {
    const change = { priority: 5, agent: 'ann' }
    const preview = await bulk({ change, filter: { done: false }, dry_run: true })
    expect(preview.body).toMatchObject({ affected: 2, unaffected: 1 })
    const chosen = rowsOf(preview.body).map(({ taskId, updatedAt }) => ({ taskId, updatedAt }))
    await server.request('PATCH', `/board/tasks/${ids[1]}`, { title: 'Write the long guide' })
    const done = await bulk({ change, tasks: chosen })
    const result = Object.fromEntries(rowsOf(done.body).map((row) => [row.taskId, row.reason ?? row.result]))
    expect(result).toEqual({
      [ids[0]!]: 'it has these values already',
      [ids[1]!]: 'it has changed since the preview',
      [ids[2]!]: 'affected',
    })
    expect(await read(ids[2]!)).toMatchObject({ priority: 5, fields: { agent: 'ann' } })
    // Repeating the request changes nothing.
    expect((await bulk({ change, tasks: chosen })).body).toMatchObject({ affected: 0 })
  })

  it('aborts the open tasks of a filter with the reason, and repeating it changes nothing', async () => {
    const aborted = await bulk({ action: 'abort', filter: { done: false }, expected_affected: 3, reason: 'not now' })
    expect(aborted.body).toMatchObject({ affected: 3, failed: 0 })
    expect((await read(ids[0]!))['reason']).toContain('not now')
    const again = await bulk({ action: 'abort', tasks: ids.map((taskId) => ({ taskId })) })
    expect(again.body).toMatchObject({ affected: 0, unaffected: 3 })
  })

  it('rejects a body with two actions, without rows, or with an action that needs a person', async () => {
    const tasks = [{ taskId: ids[0] }]
    for (const body of [
      { action: 'abort', change: { priority: 1 }, tasks },
      { action: 'abort' },
      { change: {}, tasks },
      { change: { verify: ['rm -rf /'] }, tasks },
      { action: 'done', tasks },
      { action: 'abort', filter: {} },
    ])
      expect((await bulk(body)).status, JSON.stringify(body)).toBe(400)
  })
})

describe('a change of one task', () => {
  it('is refused if the task has changed since the caller read it, with an action and with fields', async () => {
    const id = String((await server.post('/board/tasks', { title: 'Two people' })).body['taskId'])
    const { updatedAt } = (await server.get(`/board/tasks/${id}`)).body
    const patch = (body: object) => server.request('PATCH', `/board/tasks/${id}`, body)
    const first = await patch({ priority: 3, updatedAt })
    expect([first.status, first.body['priority']]).toEqual([200, 3])
    for (const body of [{ priority: 4 }, { action: 'freeze' }, { action: 'done', unchecked: true }]) {
      const { status, body: problem } = await patch({ ...body, updatedAt })
      expect([status, problem.code], JSON.stringify(body)).toEqual([409, 'task_changed'])
    }
    expect((await server.get(`/board/tasks/${id}`)).body).toMatchObject({ priority: 3, status: 'pending' })
    expect((await patch({ action: 'freeze', updatedAt: first.body['updatedAt'] })).status).toBe(200)
  })

  it('names the values before a bulk change and the time after it, so that it can be undone', async () => {
    const id = String(
      (await server.post('/board/tasks', { title: 'Move up', priority: 2, agent: 'ann' })).body['taskId'],
    )
    const act = async (body: object) =>
      rowsOf((await server.post('/board/tasks/bulk', body)).body)[0] as unknown as Body & { updatedAt: string }
    const row = await act({ change: { priority: 9, agent: 'bob' }, tasks: [{ taskId: id }] })
    expect(row).toMatchObject({ priority: 2, agent: 'ann', result: 'affected' })
    const back = await act({ change: { priority: 2 }, tasks: [{ taskId: id, updatedAt: row.updatedAt }] })
    expect(back).toMatchObject({ priority: 9, result: 'affected' })
    const late = await act({ change: { priority: 1 }, tasks: [{ taskId: id, updatedAt: row.updatedAt }] })
    expect(late).toMatchObject({ result: 'unaffected', reason: 'it has changed since the preview' })
  })
})

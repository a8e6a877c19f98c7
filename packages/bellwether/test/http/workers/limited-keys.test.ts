/** Attacks with keys that are limited to worker targets or a project, answers to questions by workers, and targets of other projects. */
import { describe, expect, it } from 'vitest'
import { project } from '../../support/kernel.js'
import { untilLockWait } from '../../support/lock-wait.js'
import { serverPerFile, type Body } from '../test-server.js'

const part = { name: 'worker of another project', status: 'ready', pid: 1, restarts: 0, last_end: null } as const
const server = serverPerFile({ parts: () => [part] })
const p = `/projects/${project}`
let names = 0
const fresh = (kind: string) => `${kind}-${(names += 1)}`

async function addTurn(inProject: string, target: string): Promise<string> {
  const agent = fresh('agent')
  await server.request('PUT', `/projects/${inProject}/agents/${agent}`, { worker_target: target })
  const { body } = await server.post(`/projects/${inProject}/agents/${agent}/turns`, { instruction: 'do it' })
  return body.agent_turn_id!
}
const claim = async (target: string, key: string, body: object = {}) =>
  server.post(`/workers/${target}/claim`, { max: 10, ...body }, { key })
const fenceOf = ({ turn_epoch, lease_token }: Body) => ({ turn_epoch, lease_token })

describe('a worker’s key that is limited to targets', () => {
  it('claims from these targets only, and shows them in /me and /keys', async () => {
    const [mine, also, foreign] = [fresh('mine'), fresh('also'), fresh('foreign')]
    const made = await server.post('/keys', { role: 'worker', targets: [mine, also, mine] })
    const key = String(made.body['key'])
    const turns = [await addTurn(project, mine), await addTurn('q', also)]
    await addTurn(project, foreign)
    expect((await claim(foreign, key)).body).toMatchObject({ status: 403, code: 'forbidden' })
    const claimed = [...(await claim(mine, key)).body.turns!, ...(await claim(also, key)).body.turns!]
    expect(claimed.map((turn) => turn.agent_turn_id)).toEqual(turns)
    for (const turn of claimed)
      expect((await server.post(`/turns/${turn.agent_turn_id}/beat`, fenceOf(turn), { key })).status).toBe(200)
    expect((await server.get('/me', { key })).body).toMatchObject({ targets: [mine, also], project: null })
    const { keys } = (await server.get('/keys')).body as unknown as { keys: Body[] }
    expect(keys.find((one) => one['key_id'] === made.body['key_id'])).toMatchObject({ targets: [mine, also] })
  })

  it('a worker’s key that is limited to targets may not work on a turn of another target, even with its token, and may after its agent moved', async () => {
    const [mine, foreign] = [fresh('mine'), fresh('foreign')]
    const key = await server.key('worker', { targets: [mine] })
    await addTurn(project, foreign)
    const [turn] = (await claim(foreign, server.keys.worker)).body.turns!
    const path = `/turns/${turn!.agent_turn_id}/beat`
    expect((await server.post(path, fenceOf(turn!), { key })).body).toMatchObject({ code: 'forbidden' })
    await addTurn(project, mine)
    const [own] = (await claim(mine, key)).body.turns!
    await server.request('PUT', `${p}/agents/${String(own!['agent_id'])}`, { worker_target: foreign })
    expect((await server.post(`/turns/${own!.agent_turn_id}/beat`, fenceOf(own!), { key })).status).toBe(200)
  })

  it('reads and reports nothing in projects, unless it names one; then only calls of its targets', async () => {
    const [mine, foreign] = [fresh('mine'), fresh('foreign')]
    const call = async (target: string) => {
      const turn = await addTurn(project, target)
      const [claimed] = (await claim(target, server.keys.worker)).body.turns!
      const calls = [{ tool_call_id: `${turn}-c`, tool_name: 'lookup' }]
      await server.post(`/turns/${turn}/suspend`, { ...fenceOf(claimed!), calls })
      return {
        box: `${p}/boxes/${String(claimed!['output_box_id'])}/cards`,
        result: `${p}/tool-calls/${turn}-c/result`,
      }
    }
    const [own, other] = [await call(mine), await call(foreign)]
    const ofTargets = await server.key('worker', { targets: [mine] })
    const both = await server.key('worker', { targets: [mine], project })
    const done = { status: 'success', result: 1 }
    for (const path of [own.box, `${p}/events?cursor=x`])
      expect([path, (await server.get(path, { key: ofTargets })).status]).toEqual([path, 403])
    expect((await server.post(own.result, done, { key: ofTargets })).status).toBe(403)
    expect((await server.get(own.box, { key: both })).status).toBe(200)
    expect((await server.post(other.result, done, { key: both })).status).toBe(403)
    expect((await server.post(own.result, done, { key: both })).body).toMatchObject({ status: 'reported' })
  })

  it('a worker’s key that is limited to targets is refused for other roles, and without targets', async () => {
    for (const role of ['operator', 'admin', 'reader', 'answerer'])
      expect((await server.post('/keys', { role, targets: ['x'] })).body).toMatchObject({ code: 'targets_need_worker' })
    for (const targets of [[], [''], ['A B'], Array.from({ length: 101 }, (_, at) => `t${at}`)])
      expect((await server.post('/keys', { role: 'worker', targets })).status).toBe(400)
  })

  it('does not see the processes of the installation', async () => {
    const key = await server.key('worker', { targets: [fresh('mine')] })
    const components = async (of: string) =>
      (await server.get('/health/components', { key: of })).text.includes(part.name)
    expect([await components(server.keys.worker), await components(key)]).toEqual([true, false])
  })
})

describe('a worker’s key that is limited to a project', () => {
  it('claims the turns of its project and leaves those of others, also when they come first', async () => {
    const target = fresh('shared')
    const others = [await addTurn('q', target), await addTurn('q', target)]
    const own = await addTurn(project, target)
    const key = await server.key('worker', { project })
    const claimed = (await claim(target, key)).body.turns!
    expect(claimed.map((turn) => turn.agent_turn_id)).toEqual([own])
    expect((await claim(target, key)).body).toEqual({ turns: [] })
    const rest = (await claim(target, server.keys.worker)).body.turns!
    expect(rest.map((turn) => turn.agent_turn_id)).toEqual(others)
    const foreign = rest[0]!
    expect((await server.post(`/turns/${foreign.agent_turn_id}/beat`, fenceOf(foreign), { key })).status).toBe(403)
  })

  it('resumes the turns of its project only', async () => {
    const target = fresh('resumes')
    const asked: (readonly [string, string])[] = []
    for (const one of ['q', project]) {
      const turn = await addTurn(one, target)
      const [claimed] = (await claim(target, server.keys.worker)).body.turns!
      const calls = [{ tool_call_id: `${turn}-c`, tool_name: 'lookup' }]
      await server.post(`/turns/${turn}/suspend`, { ...fenceOf(claimed!), calls })
      asked.push([one, `${turn}-c`])
    }
    for (const [one, call] of asked)
      await server.post(`/projects/${one}/tool-calls/${call}/result`, { status: 'success', result: one })
    const key = await server.key('worker', { project })
    expect((await claim(target, key)).body.turns).toMatchObject([{ kind: 'resume', project_id: project }])
    expect((await claim(target, key)).body.turns).toEqual([])
    expect((await claim(target, server.keys.worker)).body.turns).toMatchObject([{ kind: 'resume', project_id: 'q' }])
  })

  it('a worker’s key that is limited to a project is woken for a turn of its project while a worker of another project waits before it', async () => {
    const target = fresh('waits')
    const ofQ = await server.key('worker', { project: 'q' })
    const ofP = await server.key('worker', { project })
    const waiting = server.waiting('/workers/:target/claim')
    const other = claim(target, ofQ, { wait_seconds: 40 })
    await expect.poll(() => server.waiting('/workers/:target/claim')).toBe(waiting + 1)
    const mine = claim(target, ofP, { wait_seconds: 40 })
    await expect.poll(() => server.waiting('/workers/:target/claim')).toBe(waiting + 2)
    const turn = await addTurn(project, target)
    expect((await mine).body.turns).toMatchObject([{ agent_turn_id: turn }])
    const late = await addTurn('q', target)
    expect((await other).body.turns).toMatchObject([{ agent_turn_id: late }])
  })

  it('a worker’s key that is limited to a project cannot claim if it is limited to a view', async () => {
    const key = await server.key('worker', { view: 'v' })
    expect((await claim(fresh('any'), key)).status).toBe(403)
  })
})

describe('an approval', () => {
  async function ask(key: string): Promise<Body> {
    const target = fresh('approves')
    await server.request('PUT', `${p}/tools/deploy`, { options: { approve: 'ask' } })
    const turn = await addTurn(project, target)
    const [claimed] = (await claim(target, key)).body.turns!
    const calls = [{ tool_call_id: `${turn}-d`, tool_name: 'deploy', arguments: { to: 'production' } }]
    await server.post(`/turns/${turn}/suspend`, { ...fenceOf(claimed!), calls }, { key })
    const { approvals } = (await server.get(`${p}/approvals`)).body as unknown as { approvals: Body[] }
    return approvals.find((one) => one['agent_turn_id'] === turn)!
  }
  const decide = (approval: Body, key: string, body: object = { decision: 'allow' }) =>
    server.post(`${p}/approvals/${String(approval['approval_id'])}/decision`, body, { key })

  it('an approval is never decided by a worker’s key or by the key that claimed the turn, and no worker answers or starts the call', async () => {
    const approval = await ask(server.keys.worker)
    const call = `${p}/tool-calls/${String(approval['tool_call_id'])}`
    for (const key of [server.keys.worker, await server.key('worker', { project })])
      expect((await decide(approval, key)).body).toMatchObject({ status: 403, code: 'forbidden' })
    expect((await server.post(`${call}/start`, { host: 'h' }, { key: server.keys.worker })).body).toMatchObject({
      status: 'waiting',
    })
    expect(
      (await server.post(`${call}/result`, { status: 'success' }, { key: server.keys.worker })).body,
    ).toMatchObject({ status: 'ignored' })
    const own = await ask(server.keys.admin)
    expect((await decide(own, server.keys.admin)).body).toMatchObject({ status: 403, code: 'own_question' })
    expect((await decide(own, server.keys.operator, { decision: 'deny', reason: 'no' })).body).toMatchObject({
      status: 'denied',
    })
  })

  it('an approval is decided once by a key of role answerer; a second decision gets 409 and changes nothing; the log names the key', async () => {
    const approval = await ask(server.keys.worker)
    const key = await server.key('answerer', { project })
    const { key_id: id } = (await server.get('/me', { key })).body as unknown as { key_id: string }
    expect((await decide(approval, key)).body).toMatchObject({ status: 'allowed' })
    const second = await decide(approval, server.keys.operator, { decision: 'deny' })
    expect(second.body).toMatchObject({
      status: 409,
      code: 'already_decided',
      detail: expect.stringContaining('allowed'),
    })
    const all = (await server.get(`${p}/approvals?show=all`, { key })).body as unknown as { approvals: Body[] }
    expect(all.approvals.find((one) => one['approval_id'] === approval['approval_id'])).toMatchObject({
      status: 'allowed',
      scope: 'once',
      decided_by: expect.any(String),
    })
    const { audit } = (await server.get(`/audit?actor=${id}`)).body as unknown as { audit: Body[] }
    expect(audit[0]).toMatchObject({ method: 'POST', status: 200, path: expect.stringContaining('/decision') })
    expect((await decide(approval, key, { decision: 'allow', any_arguments: ['to'] })).status).toBe(400)
  })
})

describe('a question to a person', () => {
  async function ask(key: string, tool = 'ask_person'): Promise<string> {
    const target = fresh('asks')
    const turn = await addTurn(project, target)
    const [claimed] = (await claim(target, key)).body.turns!
    const calls = [{ tool_call_id: `${turn}-q`, tool_name: tool, arguments: { question: 'May I?' } }]
    await server.post(`/turns/${turn}/suspend`, { ...fenceOf(claimed!), calls }, { key })
    return `${turn}-q`
  }
  const answer = (call: string, key: string) =>
    server.post(`${p}/tool-calls/${call}/result`, { status: 'success', result: 'yes' }, { key })

  it('a question to a person is never answered by a worker’s key, and a worker cannot start it', async () => {
    const call = await ask(server.keys.worker)
    for (const key of [server.keys.worker, await server.key('worker', { project })]) {
      expect((await answer(call, key)).body).toMatchObject({ status: 403, code: 'forbidden' })
      expect((await server.post(`${p}/tool-calls/${call}/start`, { host: 'h' }, { key })).status).toBe(403)
    }
    expect((await server.get(`${p}/questions`, { key: server.keys.worker })).status).toBe(403)
    expect((await answer(call, server.keys.operator)).body).toMatchObject({ status: 'reported' })
  })

  it('a question to a person is not answered by the key that claimed the turn, whatever its role', async () => {
    const call = await ask(server.keys.admin)
    expect((await answer(call, server.keys.admin)).body).toMatchObject({ status: 403, code: 'own_question' })
    expect((await answer(call, await server.key('admin'))).body).toMatchObject({ status: 'reported' })
  })

  it('a question to a person is answered by a key of role answerer, which reads questions and answers no tool', async () => {
    const call = await ask(server.keys.worker)
    const key = await server.key('answerer', { project })
    const { questions } = (await server.get(`${p}/questions`, { key })).body as unknown as { questions: Body[] }
    expect(questions.map((one) => one['tool_call_id'])).toContain(call)
    for (const path of [`${p}/turns`, `${p}/agents`, '/board/tasks', '/projects/q/questions', '/keys'])
      expect([path, (await server.get(path, { key })).status]).toEqual([path, path === '/board/tasks' ? 404 : 403])
    const tool = await ask(server.keys.worker, 'lookup')
    expect((await answer(tool, key)).body).toMatchObject({ status: 403, code: 'forbidden' })
    expect((await answer(call, key)).body).toMatchObject({ status: 'reported' })
    expect((await answer('none', key)).status).toBe(404)
  })
})

describe('the worker targets of a project', () => {
  const operator = () => server.key('operator', { project: 'news' })
  const put = (path: string, body: object, key: string) => server.request('PUT', `/projects/news${path}`, body, { key })
  const allow = (worker_targets: readonly string[] | null, key = server.keys.admin) =>
    put('/targets', { worker_targets }, key)

  it('an operator cannot send work to targets that an administrator did not allow', async () => {
    const key = await operator()
    expect((await put('/agents/early', { worker_target: 'anywhere' }, key)).status).toBe(200)
    expect((await allow(['press'])).body).toMatchObject({ status: 409, code: 'targets_in_use' })
    expect((await put('/agents/early', { worker_target: 'press' }, key)).status).toBe(200)
    expect((await allow(['press', 'desk'])).body).toEqual({ project_id: 'news', worker_targets: ['press', 'desk'] })
    const refused = { status: 403, code: 'target_not_allowed', detail: expect.stringContaining('"gpu"') }
    expect((await put('/agents/spy', { worker_target: 'gpu' }, key)).body).toMatchObject(refused)
    expect((await put('/agents/early', { worker_target: 'gpu' }, key)).body).toMatchObject(refused)
    const retired = { worker_target: 'gpu', status: 'retired' }
    expect((await put('/agents/spy', retired, key)).body).toMatchObject(refused)
    const agents = [
      { agent_id: 'ok', worker_target: 'desk' },
      { agent_id: 'spy', worker_target: 'gpu' },
    ]
    expect((await put('/agents', { agents }, key)).body).toMatchObject(refused)
    expect((await put('/profiles/spy', { worker_target: 'gpu' }, key)).body).toMatchObject(refused)
    expect((await put('/profiles/ok', { worker_target: 'desk' }, key)).status).toBe(200)
    const { body } = await server.get('/projects/news/agents', { key })
    expect((body['agents'] as Body[]).map((one) => one['agent_id'])).toEqual(['early'])
    expect((await server.get('/projects', { key })).body).toMatchObject({
      projects: [{ project_id: 'news', worker_targets: ['press', 'desk'] }],
    })
  })

  it('only an unlimited admin changes them', async () => {
    for (const key of [await operator(), server.keys.operator, await server.key('admin', { project: 'news' })])
      expect((await allow(null, key)).status).toBe(403)
    expect((await allow(null)).body).toEqual({ project_id: 'news', worker_targets: null })
    expect((await put('/agents/spy', { worker_target: 'gpu' }, await operator())).status).toBe(200)
  })

  it('an agent that is added while an administrator restricts the project does not slip through', async () => {
    const { db } = server.kernel
    const restrict = () => server.request('PUT', '/projects/race/targets', { worker_targets: ['cpu'] })
    await server.request('PUT', '/projects/race/targets', { worker_targets: null })
    let restricted: ReturnType<typeof restrict> | undefined
    await db.transaction(async (tx) => {
      await tx.query({ text: "select state.check_targets(array['race'], array['gpu'])" })
      restricted = restrict()
      await untilLockWait(db, 'the restriction waits for the lock')
      const profile =
        "insert into resource.profiles (project_id, profile_id, name, worker_target) values ('race', 'x', 'x', 'gpu')"
      await tx.query({ text: profile })
    })
    expect((await restricted)?.body).toMatchObject({ code: 'targets_in_use' })
  })
})

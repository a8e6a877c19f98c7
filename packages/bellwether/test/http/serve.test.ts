/** `bellwether server` and `bellwether keys` as real processes. */
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { until } from '../support/until.js'
import { call, openServerProcesses, type ServerProcesses } from './server-process.js'
import { readEvents } from './reader.js'

let processes: ServerProcesses
beforeEach(async () => {
  processes = await openServerProcesses()
  mkdirSync(join(processes.folder, 'tasks'))
})
// Processes start from source, which is slow on a busy machine.
const timeout = 600_000
afterEach(() => processes.stop())

const out = async (...words: readonly string[]) => {
  const cli = processes.cli('keys', ...words)
  const code = await cli.ended
  return { code, stdout: cli.stdout().trim(), stderr: cli.stderr() }
}

describe('bellwether server', { timeout }, () => {
  it('the first start creates one admin key, stores it readable for this account only, and prints it only then', async () => {
    const [one, two] = await Promise.all([processes.server('--data', 'one'), processes.server('--data', 'two')])
    const made = [one, two].map((server) => server.readyLine['adminKey']).filter((key) => key !== undefined)
    expect(made).toHaveLength(1)
    const key = made[0] as string
    const file = join(processes.folder, one.readyLine['adminKey'] === key ? 'one' : 'two', 'admin-key')
    expect([readFileSync(file, 'utf8').trim(), statSync(file).mode & 0o777]).toEqual([key, 0o600])
    for (const server of [one, two])
      expect((await call(server.address, key, 'GET', '/me')).body).toMatchObject({ role: 'admin' })
    expect((await call(one.address, undefined, 'GET', '/me')).status).toBe(401)
    const again = await processes.server('--data', one.readyLine['adminKey'] === key ? 'one' : 'two')
    expect(again.readyLine['adminKey']).toBeUndefined()
    expect(readFileSync(String(again.readyLine['adminKeyFile']), 'utf8').trim()).toBe(key)
    expect(again.stderr()).not.toContain(key)
    expect(one.stderr()).not.toContain(key)
  })

  it('the server refuses a public address until a key exists', async () => {
    const open = processes.cli('server', '--host', '0.0.0.0', '--port', '0', '--json')
    expect(await open.ended).toBe(2)
    expect(open.stderr()).toContain('keys_needed')
    expect((await out('create', '--role', 'admin')).code).toBe(0)
    const server = await processes.server('--host', '0.0.0.0')
    expect(server.readyLine['adminKey']).toBeUndefined()
    const port = new URL(server.address).port
    expect((await fetch(`http://127.0.0.1:${port}/healthz`)).status).toBe(200)
    expect((await fetch(`http://127.0.0.1:${port}/metrics`)).status).toBe(401)
  })

  it('on SIGTERM the server ends streams and waits, answers open requests, and exits with 0', async () => {
    const server = await processes.server()
    const key = String(server.readyLine['adminKey'])
    await call(server.address, key, 'PUT', '/projects/p/agents/ann', { worker_target: 'w' })
    const turn = await call(server.address, key, 'POST', '/projects/p/agents/ann/turns', { instruction: 'x' })
    const id = String(turn.body['agent_turn_id'])
    const reader = await readEvents(`${server.address}/api/v1/projects/p/events`, { key })
    await reader.next('hello', ({ event }) => event === 'hello')
    const waits = [
      call(server.address, key, 'GET', `/projects/p/turns/${id}?wait=50`),
      call(server.address, key, 'POST', '/workers/none/claim', { wait_seconds: 50 }),
    ]
    await until('the claim to wait', async () => {
      const rows = await processes.db.query({ text: `select from state.workers where worker_target = 'none'` })
      return rows.length > 0 ? true : undefined
    })
    server.signal('SIGTERM')
    const [waited, claimed] = await Promise.all(waits)
    expect(waited!.body).toMatchObject({ agent_turn_id: id, ended_at: null })
    expect(claimed!.body).toEqual({ turns: [] })
    await reader.ended
    expect(await server.ended).toBe(0)
  })

  it('a server with --view and --root serves a view and a board, with keys of its own store', async () => {
    const server = await processes.server('--view', 'shared', '--root', 'tasks', '--project', 'p')
    const key = String(server.readyLine['adminKey'])
    const ask = (method: string, path: string, body?: object, with_: string | undefined = key) =>
      call(server.address, with_, method, path, body)
    const made = await ask('POST', '/keys', { role: 'sensor', view: 'shared' })
    const sensor = String(made.body['key'])
    expect((await ask('GET', '/pipe/session', undefined, sensor)).body).toMatchObject({ view_id: 'shared' })
    expect((await ask('GET', '/pipe/session')).body).toMatchObject({ view_id: 'shared' })
    expect((await ask('POST', '/pipe/session', { task_id: 't' }, sensor)).body).toMatchObject({ role: 'leader' })
    expect((await ask('GET', '/views/shared/tree')).status).toBe(503)
    expect((await ask('GET', '/health/components', undefined, sensor)).status).toBe(200)

    const task = await ask('POST', '/board/tasks', { title: 'fix it' })
    expect([task.status, task.body['taskId']]).toEqual([201, 'T-1'])
    const events = await readEvents(`${server.address}/api/v1/board/events`, { key, last: '0' })
    expect(await events.next('the task', ({ event }) => event === 'task_created')).toMatchObject({ id: '1' })
    expect((await ask('PATCH', '/board/tasks/T-1', { priority: 9 })).body).toMatchObject({ priority: 9 })
    expect((await ask('PATCH', '/board/tasks/T-1', { action: 'freeze', reason: 'later' })).status).toBe(200)
    expect((await ask('PATCH', '/board/tasks/T-1', { nonsense: 1 })).body).toMatchObject({
      status: 400,
      code: 'invalid_request',
    })
    expect((await ask('GET', '/board/tasks')).body).toMatchObject({ total: 1, tasks: [{ taskId: 'T-1' }] })
    expect((await ask('GET', '/board/tasks/T-9')).body).toMatchObject({ status: 404, code: 'unknown_task' })
    expect((await ask('POST', '/board/tasks/T-1/dispatch')).body).toMatchObject({ status: 409, code: 'not_ready' })
    await ask('PATCH', '/board/tasks/T-1', { action: 'unfreeze' })
    expect((await ask('POST', '/board/control', { paused: true })).body).toEqual({ paused: true })
    expect((await ask('POST', '/board/autopilot', { maxSteps: 1 })).status).toBe(200)
    const line = await events.next('a freeze', ({ data }) => JSON.stringify(data).includes('later'))
    events.cut()
    const resumed = await readEvents(`${server.address}/api/v1/board/events`, { key, last: line.id })
    expect(Number((await resumed.next('the next', () => true)).id)).toBe(Number(line.id) + 1)
    resumed.cut()
    const reader = String((await ask('POST', '/keys', { role: 'reader', project: 'q' })).body['key'])
    expect((await ask('GET', '/board/tasks', undefined, reader)).status).toBe(403)
    for (const [method, path] of [
      ['GET', '/board/tasks'],
      ['POST', '/board/tasks'],
      ['GET', '/board/tasks/T-1'],
      ['PATCH', '/board/tasks/T-1'],
      ['POST', '/board/tasks/T-1/dispatch'],
      ['POST', '/board/autopilot'],
      ['POST', '/board/control'],
      ['GET', '/board/events'],
    ] as const) {
      expect((await call(server.address, undefined, method, path)).status).toBe(401)
      expect((await ask(method, path, undefined, sensor)).status).toBe(403)
    }
  })

  it('[H4.2] a server alone maintains its board, and /metrics counts alerts by kind and lock timeouts', async () => {
    const root = join(processes.folder, 'tasks')
    const locks = join(root, 'state', 'locks')
    mkdirSync(locks, { recursive: true })
    mkdirSync(join(root, 'config'))
    const impatient = { timeouts: { localStateSec: 1 }, retry: { maxAttempts: 3, backoff: { baseMs: 1, maxMs: 50 } } }
    writeFileSync(join(root, 'config', 'retry-policy.json'), JSON.stringify(impatient))
    const lockUntil = (ms: number) =>
      JSON.stringify({ owner: 'other', pid: process.pid, createdAtTs: 1, expiresAtTs: ms / 1_000, resource: 'x' })
    writeFileSync(join(locks, 'old.lock'), lockUntil(Date.now() - 86_400_000))
    const server = await processes.server('--root', 'tasks')
    const key = String(server.readyLine['adminKey'])
    const metric = async (line: RegExp) => {
      const response = await fetch(`${server.address}/metrics`, { headers: { 'x-api-key': key } })
      return line.test(await response.text()) ? true : undefined
    }
    await until('the stale lock to be counted', () => metric(/^bellwether_alerts_total{kind="stale_locks"} 1$/m))
    expect(await metric(/^bellwether_alerts_total{kind="lock_contention"} 0$/m)).toBe(true)
    expect(await metric(/^bellwether_board_lock_timeouts_total 0$/m)).toBe(true)
    writeFileSync(join(locks, 'tasks.0000000009.lock'), lockUntil(Date.now() + 86_400_000))
    // On a busy machine a try may also time out at the disk; the next write is counted then.
    await until('three tries to get no lock', async () => {
      expect((await call(server.address, key, 'POST', '/board/tasks', { title: 'x' })).status).toBe(503)
      return metric(/^bellwether_alerts_total{kind="lock_contention"} 1$/m)
    })
    expect(await metric(/^bellwether_board_lock_timeouts_total [3-5]$/m)).toBe(true)
  })

  it('a dispatched task becomes a turn of its agent, and its result returns to the board', async () => {
    const server = await processes.server('--root', 'tasks', '--project', 'p')
    const key = String(server.readyLine['adminKey'])
    const ask = (method: string, path: string, body?: object) => call(server.address, key, method, path, body)
    await ask('PUT', '/projects/p/agents/coder', { worker_target: 'w' })
    await ask('POST', '/board/tasks', { title: 'fix it', agent: 'coder' })
    const dispatched = ask('POST', '/board/tasks/T-1/dispatch')
    const claimed = await ask('POST', '/workers/w/claim', { wait_seconds: 20 })
    const [turn] = claimed.body['turns'] as { agent_turn_id: string; turn_epoch: number; lease_token: string }[]
    const { turn_epoch, lease_token } = turn!
    const text = JSON.stringify({ status: 'done', summary: 'fixed', files: [] })
    await ask('POST', `/turns/${turn!.agent_turn_id}/deliver`, { turn_epoch, lease_token, text })
    const report = await dispatched
    expect([200, 202]).toContain(report.status)
    expect(report.body).toMatchObject({ taskId: 'T-1' })
  })
})

describe('bellwether keys', { timeout }, () => {
  it('keys creates, lists, rotates and revokes keys; a key is printed once and works at once', async () => {
    const server = await processes.server()
    const made = await out('create', '--role', 'reader', '--name', 'wall', '--project', 'p', '--json')
    const { key, key_id: id } = JSON.parse(made.stdout) as { key: string; key_id: string }
    expect((await call(server.address, key, 'GET', '/projects/p/agents')).status).toBe(200)
    expect((await call(server.address, key, 'GET', '/projects/q/agents')).status).toBe(403)
    const list = await out('list')
    expect(list.stdout).toMatch(new RegExp(`${id} +reader +wall +project p`))
    expect(list.stdout).not.toContain(key)
    const { key: next } = JSON.parse((await out('rotate', id, '--json')).stdout) as { key: string }
    await until('the rotation', async () =>
      (await call(server.address, next, 'GET', '/me')).status === 200 ? true : undefined,
    )
    expect((await call(server.address, key, 'GET', '/me')).status).toBe(401)
    expect((await out('revoke', id)).code).toBe(0)
    await until('the revocation', async () =>
      (await call(server.address, next, 'GET', '/me')).status === 401 ? true : undefined,
    )
    const audit = await call(server.address, String(server.readyLine['adminKey']), 'GET', '/audit')
    const rows = audit.body['audit'] as { method: string; actor: string }[]
    // Requests with a wrong key are there too.
    expect(rows.filter(({ actor }) => actor !== 'unknown').map((row) => row.method)).toEqual([
      'REVOKE',
      'ROTATE',
      'CREATE',
      'CREATE',
    ])
  })

  it('keys explains wrong arguments and exits with 2', async () => {
    const wrong: readonly (readonly [readonly string[], string])[] = [
      [['create'], '--role ROLE'],
      [['create', '--role', 'sensor'], '--view NAME'],
      [['revoke', 'none'], 'unknown_key'],
      [['rotate', 'none', '--grace', 'x'], 'whole number'],
      [['creat'], 'Did you mean: bellwether keys create?'],
    ]
    const outputs = await Promise.all(
      wrong.map(async ([words, why]) => {
        const { code, stderr } = await out(...words)
        return [words, code, stderr.includes(why) ? why : stderr]
      }),
    )
    expect(outputs).toEqual(wrong.map(([words, why]) => [words, 2, why]))
  })
})

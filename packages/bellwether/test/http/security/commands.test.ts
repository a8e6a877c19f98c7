/** A key over HTTP cannot choose what runs on the server: it selects checks that a file of the project defines. */
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { readAudit } from '../../../src/kernel/access/audit-log.js'
import { project } from '../../support/kernel.js'
import { boardPart } from '../board-part.js'
import { serverPerFile } from '../test-server.js'

let root = ''
let adminCommands = false
const server = serverPerFile(async (context) => {
  const board = await boardPart(context)
  root = board.dispatcher.board.root
  return {
    board: {
      ...board,
      get adminCommands() {
        return adminCommands
      },
    },
  }
})
beforeAll(async () => {
  await mkdir(join(root, 'config'), { recursive: true })
  await mkdir(join(root, '.bellwether'), { recursive: true })
  await writeFile(join(root, '.bellwether', 'admin-key'), 'bw_secret')
  const checks = {
    listed: { command: ['test', '-f', 'config/acceptance-policy.json'], description: 'the policy exists' },
    broken: { command: 'echo because; exit 3' },
  }
  await writeFile(join(root, 'config', 'acceptance-policy.json'), JSON.stringify({ checks }))
})

const limited = () => server.key('operator', { project })
const add = (body: object, key: string) => server.post('/board/tasks', { title: 'x', ...body }, { key })
const done = (task: unknown, key: string) =>
  server.request('PATCH', `/board/tasks/${String(task)}`, { action: 'done' }, { key })
const shells = [
  { verify: 'cat .bellwether/admin-key; touch pwned; exit 1' },
  { verify: ['touch', 'pwned'] },
  { verify: { command: 'touch pwned', cwd: '.' } },
]

describe('a command over HTTP', () => {
  it.each(shells)(
    'a command over HTTP is rejected from an operator, limited or not, and never runs: $verify',
    async ({ verify: command }) => {
      for (const key of [await limited(), server.keys.operator, server.keys.admin]) {
        expect((await add({ verify: [command] }, key)).body).toMatchObject({ status: 403, code: 'forbidden' })
        const { body } = await add({}, server.keys.operator)
        const change = await server.request(
          'PATCH',
          `/board/tasks/${String(body['taskId'])}`,
          { verify: [command] },
          { key },
        )
        expect(change.status).toBe(403)
        await done(body['taskId'], key)
      }
      expect(existsSync(join(root, 'pwned'))).toBe(false)
    },
  )

  it('a command over HTTP is accepted from an unlimited admin if the setting allows it, and from no other key', async () => {
    adminCommands = true
    try {
      expect((await add({ verify: ['true'] }, server.keys.admin)).status).toBe(201)
      for (const key of [await server.key('admin', { project }), server.keys.operator])
        expect((await add({ verify: ['true'] }, key)).status).toBe(403)
    } finally {
      adminCommands = false
    }
  })

  it('a command over HTTP can be removed by an operator: an empty list runs nothing', async () => {
    const { body } = await add({}, server.keys.operator)
    const change = await server.request('PATCH', `/board/tasks/${String(body['taskId'])}`, { verify: [] })
    expect(change.status).toBe(200)
  })
})

describe('a check', () => {
  it('a check is selected by name, runs what the policy file says, and is in the audit log', async () => {
    const key = await limited()
    const listed = await server.get('/board/checks', { key })
    expect(listed.body['checks']).toEqual([
      { name: 'listed', description: 'the policy exists' },
      { name: 'broken', description: null },
    ])
    const task = (await add({ checks: ['listed'] }, key)).body['taskId']
    expect((await done(task, key)).body).toMatchObject({ status: 'done' })
    const failing = (await add({ checks: ['broken'] }, key)).body['taskId']
    const refused = await done(failing, key)
    expect(refused.body).toMatchObject({ status: 400, code: 'incomplete_output' })
    expect(refused.body['detail']).toContain('exited with 3: check "broken" (because)')
    const { rows } = await readAudit(server.t.db, { actor: 'board', limit: 10 })
    expect(rows).toMatchObject([
      { method: 'RUN', path: `${String(failing)}: check "broken": echo because; exit 3`, status: 3 },
      { method: 'RUN', path: `${String(task)}: check "listed": test -f config/acceptance-policy.json`, status: 0 },
    ])
  })

  it('a check must be defined: another name is rejected with the names that exist', async () => {
    const { body } = await add({ checks: ['listed; rm -rf .'] }, server.keys.operator)
    expect(body).toMatchObject({ status: 400, code: 'unknown_check' })
    expect(body['hint']).toContain('listed, broken')
  })
})

describe('a file in the folder of the keys', () => {
  it.each(['.bellwether/admin-key', './config/../.bellwether/admin-key'])(
    'does not count as evidence: %s',
    async (path) => {
      const { body } = await add({}, server.keys.operator)
      const change = { action: 'done', files: [path] }
      const refused = await server.request('PATCH', `/board/tasks/${String(body['taskId'])}`, change)
      expect(refused.body).toMatchObject({ status: 400, code: 'incomplete_output' })
      expect(refused.body['detail']).toContain("Bellwether's own folder")
      expect(await readFile(join(root, 'state', 'tasks.jsonl'), 'utf8')).not.toContain('sha256')
    },
  )
})

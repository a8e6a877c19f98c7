/** Runs the examples of docs/http.md in order against a real server. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { call, openServerProcesses, type ServerProcesses, type RunningServer } from './server-process.js'

const page = readFileSync(new URL('../../../../docs/http.md', import.meta.url), 'utf8')
let processes: ServerProcesses
let server: RunningServer
beforeAll(async () => {
  processes = await openServerProcesses()
  mkdirSync(join(processes.folder, 'tasks'))
  server = await processes.server('--view', 'shared', '--root', 'tasks', '--project', 'demo')
})
afterAll(() => processes.stop())

it('every example of docs/http.md runs as written', async () => {
  const blocks = [...page.matchAll(/```sh run\n([^]*?)```/g)].map(([, text]) => text!)
  expect(blocks.length).toBeGreaterThan(8)
  const script = `set -euo pipefail\n${blocks.join('\n')}`
  const key = server.readyLine['adminKey'] as string
  const env = { ...process.env, URL: server.address, KEY: key }
  const ran = spawnSync('bash', ['-c', script], { env, encoding: 'utf8', timeout: 100_000 })
  expect([ran.status, ran.stderr]).toEqual([0, expect.not.stringContaining('The requested URL returned error')])
  expect(ran.stdout).toContain('"status":"ignored"')
  expect(ran.stdout).toContain('event: task_created')
})

it('every route of the server is documented in docs/http.md or docs/guides/worker-api.md', async () => {
  const workers = readFileSync(new URL('../../../../docs/guides/worker-api.md', import.meta.url), 'utf8')
  const { body } = await call(server.address, undefined, 'GET', '/openapi.json')
  const all = `${page}${workers}`
  const missing = Object.keys(body['paths'] as object)
    .filter((path) => !/\/(views|pipe)\//.test(path))
    .map((path) => path.replace('/api/v1', '').replace('/projects/{project}', ''))
    .filter((path) => !path.split('/').every((part) => part.startsWith('{') || all.includes(part)))
  expect(missing).toEqual([])
})

/** docs/http.md is true: its examples run, one after the other, against a real server. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { call, openHouse, type House, type RunningServer } from './process.js'

const page = readFileSync(new URL('../../../../docs/http.md', import.meta.url), 'utf8')
let house: House
let server: RunningServer
beforeAll(async () => {
  house = await openHouse()
  mkdirSync(join(house.folder, 'tasks'))
  server = await house.server('--view', 'shared', '--root', 'tasks', '--project', 'demo')
}, 120_000)
afterAll(() => house.stop())

it('every example of the page works as it stands', { timeout: 120_000 }, async () => {
  const blocks = [...page.matchAll(/```sh run\n([^]*?)```/g)].map(([, text]) => text!)
  expect(blocks.length).toBeGreaterThan(8)
  const script = `set -euo pipefail\n${blocks.join('\n')}`
  const key = server.ready_['adminKey'] as string
  const env = { ...process.env, URL: server.address, KEY: key }
  const ran = spawnSync('bash', ['-c', script], { env, encoding: 'utf8', timeout: 100_000 })
  expect([ran.status, ran.stderr]).toEqual([0, expect.not.stringContaining('The requested URL returned error')])
  expect(ran.stdout).toContain('"status":"ignored"')
  expect(ran.stdout).toContain('event: task_created')
})

it(
  'every route that the server declares is on the page, or on the one about workers',
  { timeout: 60_000 },
  async () => {
    const workers = readFileSync(new URL('../../../../docs/worker-api.md', import.meta.url), 'utf8')
    const { body } = await call(server.address, undefined, 'GET', '/openapi.json')
    const all = `${page}${workers}`
    const missing = Object.keys(body['paths'] as object)
      .filter((path) => !/\/(views|pipe)\//.test(path))
      .map((path) => path.replace('/api/v1', '').replace('/projects/{project}', ''))
      .filter((path) => !path.split('/').every((part) => part.startsWith('{') || all.includes(part)))
    expect(missing).toEqual([])
  },
)

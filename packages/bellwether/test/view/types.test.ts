/** Tests that each view has its own type, and that sensors can request a session timeout, as a user configures them. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, expect, it } from 'vitest'
import { runCli, type Cli } from '../support/process.js'
import { until } from '../support/until.js'
import { fleetProgram } from './fleet/program.js'

const folder = mkdtempSync(join(tmpdir(), 'bw-types-'))
const started: Cli[] = []
afterEach(async () => {
  for (const cli of started.splice(0)) {
    if (cli.alive()) cli.signal('SIGKILL')
    await cli.ended
  }
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

it('[V5.8] [V1.8] one server has live and persistent views, and a sensor requests the timeout of its flag or setting', async () => {
  const start = (words: readonly string[], env: Record<string, string> = {}) => {
    const cli = runCli([...words, '--json', '--parent-pipe'], { cwd: folder, program: fleetProgram, env })
    started.push(cli)
    return cli
  }
  writeFileSync(join(folder, 'bellwether.toml'), '')
  const keys = ['now', 'archive'].flatMap((view) => ['--view', view, '--key', `${view}=key-of-${view}`])
  const view = start(['view', '--port', '0', ...keys, '--persistent', 'archive'])
  const url = String((await view.ready())['url'])
  const ask = async (path: string, name: string) => {
    const answer = await fetch(`${url}/api/v1${path}`, { headers: { 'x-api-key': `key-of-${name}` } })
    return { status: answer.status, body: (await answer.json()) as Record<string, never> }
  }
  const sensor = (id: string, name: string, flags: readonly string[], env: Record<string, string> = {}) =>
    start(['sensor', '--root', folder, '--server', url, '--key', `key-of-${name}`, '--id', id, ...flags], env)
  const withFlag = sensor('flag', 'now', ['--session-timeout', '77'])
  const withSetting = sensor('setting', 'archive', [], { BELLWETHER__SENSOR__SESSION_TIMEOUT_SECONDS: '66' })
  const timeoutOf = (name: string) =>
    until(`the session in ${name}`, async () => {
      const { sessions } = (await ask(`/views/${name}/sessions`, name)).body as {
        sessions?: { session_timeout_seconds: number }[]
      }
      return sessions?.[0]?.session_timeout_seconds
    })
  expect([await timeoutOf('now'), await timeoutOf('archive')]).toEqual([77, 66])

  const readable = async (name: string) => (await ask(`/views/${name}/tree`, name)).status
  for (const name of ['now', 'archive'])
    await until(`${name} is readable`, async () => ((await readable(name)) === 200 ? true : undefined))
  for (const one of [withFlag, withSetting]) one.signal('SIGTERM')
  await Promise.all([withFlag.ended, withSetting.ended])
  expect([await readable('now'), await readable('archive')]).toEqual([503, 200])
  const types = await Promise.all(['now', 'archive'].map(async (name) => (await ask('/views', name)).body))
  expect(types).toMatchObject([
    { views: [{ view_id: 'now', live: true, available: true }] },
    { views: [{ view_id: 'archive', live: false, available: true }] },
  ])
})

/** Tests `bellwether view` as a real process. */
import { tmpdir } from 'node:os'
import { afterEach, describe, expect, it } from 'vitest'
import { runCli, type Cli } from '../support/process.js'

const started: Cli[] = []
const run = (...words: readonly string[]) => {
  const cli = runCli(['view', ...words], { cwd: tmpdir() })
  started.push(cli)
  return cli
}
afterEach(async () => {
  for (const cli of started.splice(0)) {
    if (cli.alive()) cli.signal('SIGKILL')
    await cli.ended
  }
})

describe('bellwether view', () => {
  it('[V6.10] serves its views, generates missing keys, and stops on a signal even during a long poll', async () => {
    const cli = run('--port', '0', '--view', 'one', '--view', 'two', '--key', 'one=key-of-one', '--strict', '--json')
    const ready = (await cli.ready()) as { url: string; keys: Record<string, string> }
    expect(Object.keys(ready.keys)).toEqual(['two'])
    const ask = async (method: string, path: string, key: string, body?: object) => {
      const answer = await fetch(`${ready.url}/api/v1${path}`, {
        method,
        headers: { 'x-api-key': key, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      return { status: answer.status, body: (await answer.json()) as Record<string, unknown> }
    }
    expect((await ask('GET', '/pipe/session/', 'key-of-one')).body['view_id']).toBe('one')
    expect((await ask('GET', '/pipe/session/', ready.keys['two']!)).body['view_id']).toBe('two')
    expect((await ask('GET', '/views/two/tree', 'key-of-one')).status).toBe(403)
    const { body: session } = await ask('POST', '/pipe/session/', 'key-of-one', { task_id: 't' })
    expect((await ask('POST', '/pipe/session/', 'key-of-one', { task_id: 'u' })).status).toBe(409)
    const id = String(session['session_id'])
    const waiting = ask('POST', `/pipe/session/${id}/heartbeat`, 'key-of-one', { wait_seconds: 9 }).catch(
      () => undefined,
    )
    await ask('GET', '/views/one/sessions', 'key-of-one')
    cli.signal('SIGTERM')
    expect(await cli.ended).toBe(0)
    await waiting
  })

  it('[V6.10] explains invalid options', async () => {
    const wrong: readonly (readonly [readonly string[], string])[] = [
      [[], '--view NAME'],
      [['--view', 'v', '--key', 'w=12345678'], 'does not serve that view'],
      [['--view', 'v', '--host', '0.0.0.0', '--port', '0'], 'has no key'],
    ]
    const results = await Promise.all(
      wrong.map(async ([args, why]) => {
        const cli = run(...args)
        const code = await cli.ended
        return [code, cli.stderr().includes(why) ? why : cli.stderr()]
      }),
    )
    expect(results).toEqual(wrong.map(([, why]) => [2, why]))
  })
})

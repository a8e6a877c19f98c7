/** How commands reach a server, and the commands for keys and sign-in. commands.test.ts runs these tests against its own `up`. */
import { statSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { testFolder } from '../support/postgres.js'
import { inProcess, type RunningUp } from './running-up.js'
import { listen } from '../support/servers/listen.js'

export function accessCommands(running: () => RunningUp): void {
  describe('bellwether keys, against a server', () => {
    it('creates, lists, rotates and revokes keys without a configured database', async () => {
      const made = await running().run('keys', 'create', '--role', 'reader', '--name', 'wall', '--json')
      const { key, key_id: id } = made.lines[0] as { key: string; key_id: string }
      expect(key).toMatch(/^bw_/)
      expect((await running().run('keys', 'list')).out).toMatch(new RegExp(`${id} +reader +wall +everything`))
      const reader = await running().run('turn', 'run', 'echo', 'x', '--key', key)
      expect(reader).toMatchObject({ code: 1, err: expect.stringContaining('[forbidden]') })
      expect((await running().run('agents', '--key', key)).code).toBe(0)
      const fresh = await running().run('keys', 'rotate', id, '--json')
      expect((await running().run('agents', '--key', key)).err).toContain('[unauthorized]')
      expect((await running().run('agents', '--key', String(fresh.lines[0]!['key']))).code).toBe(0)
      expect((await running().run('keys', 'revoke', id)).code).toBe(0)
      expect((await running().run('keys', 'revoke', 'nope')).code).toBe(1)
    })

    it('limits a worker’s key to targets and a project to targets', async () => {
      const worker = ['keys', 'create', '--role', 'worker', '--target', 'gpu', '--target', 'cpu', '--json']
      const { key, key_id: id } = (await running().run(...worker)).lines[0] as { key: string; key_id: string }
      expect((await running().run('keys', 'list')).out).toMatch(new RegExp(`${id} +worker +worker +targets gpu cpu`))
      expect((await running().run('targets', 'list', '--key', key)).err).toContain('[forbidden]')
      const other = ['--project', 'news']
      expect((await running().run('targets', 'set', 'press', 'desk', ...other)).out).toContain('press desk')
      expect((await running().run('targets', 'list', ...other, '--json')).lines).toMatchObject([
        { projects: [{ project_id: 'news', worker_targets: ['press', 'desk'] }] },
      ])
      expect((await running().run('targets', 'set', 'press')).err).toMatch(/\[targets_in_use\]|agent "/)
      expect((await running().run('targets', 'set', ...other)).err).toContain('give target names, or --all')
      expect((await running().run('targets', 'set', '--all', ...other)).code).toBe(0)
      expect((await running().run('targets')).out).toMatch(/news +all/)
    })
  })

  describe('bellwether open and login', () => {
    it('prints a one-time link that signs in once; a used one says how to get another', async () => {
      const { lines } = await running().run('open', '--json')
      const [, token] = /^http:\/\/127\.0\.0\.1:\d+\/login#token=(.+)$/.exec(String(lines[0]!['url']))!
      const signIn = async () => {
        const headers = { 'content-type': 'application/json' }
        const response = await fetch(`${running().url}/login`, {
          method: 'POST',
          headers,
          body: JSON.stringify({ token }),
        })
        return { status: response.status, body: (await response.json()) as object }
      }
      expect((await signIn()).status).toBe(200)
      expect(await signIn()).toMatchObject({ status: 401, body: { hint: expect.stringContaining('bellwether open') } })
      expect((await running().run('open', '--print')).out).toMatch(
        /^This link works once, for 10 minutes:\nhttp:\S+\n$/,
      )
    })

    it('stores the checked key of a server for that server only, and forgets it', async () => {
      const config = await testFolder()
      vi.stubEnv('XDG_CONFIG_HOME', config)
      onTestFinished(() => void vi.unstubAllEnvs())
      const agents = () => inProcess(['agents', '--server', running().url])
      expect(await agents()).toMatchObject({
        code: 2,
        err: expect.stringContaining(`bellwether login ${running().url}`),
      })
      expect((await inProcess(['login', running().url, '--key', 'bw_wrong'])).err).toContain('[unauthorized]')
      expect((await agents()).code).toBe(2)
      expect((await inProcess(['login', running().url, '--key', running().adminKey])).out).toContain(
        'as first admin (admin)',
      )
      expect(statSync(join(config, 'bellwether', 'servers.json')).mode & 0o777).toBe(0o600)
      expect((await agents()).code).toBe(0)
      expect((await inProcess(['agents', '--server', 'http://127.0.0.1:9'])).err).toContain('needs an API key')
      expect((await inProcess(['login'])).out).toBe(`${running().url}\n`)
      expect((await inProcess(['logout', `${running().url}/`])).code).toBe(0)
      expect((await agents()).code).toBe(2)
    })
  })

  it('reports an unavailable, wrong, foreign or redirecting server', async () => {
    const at = (url: string, key = 'k') => inProcess(['turn', 'list', '--server', url, '--key', key])
    const serve = async (answer: RequestListener) => {
      const server = createServer(answer)
      const port = await listen(server)
      onTestFinished(() => void server.close())
      return `http://127.0.0.1:${port}`
    }
    expect(await at('http://127.0.0.1:9')).toMatchObject({
      code: 1,
      err: expect.stringContaining('does not respond [server_away]'),
    })
    expect(await at('nonsense')).toMatchObject({ code: 2, err: expect.stringContaining('[bad_server]') })
    const status = await running().run('turn', 'list', '--status', 'nonsense')
    expect(status).toMatchObject({ code: 2, err: expect.stringContaining('Allowed choices are queued') })
    expect(await at(running().url, 'bw\n_x')).toMatchObject({ code: 2, err: expect.stringContaining('[bad_key]') })
    expect(await at(running().url, 'bw_wrong')).toMatchObject({
      code: 1,
      err: expect.stringContaining('[unauthorized]'),
    })
    const page = await serve((_, answer) => answer.end('<html>hello</html>'))
    expect(await at(page)).toMatchObject({ code: 1, err: expect.stringContaining('[not_bellwether]') })
    const keys: unknown[] = []
    const thief = await serve((request, answer) => {
      keys.push(request.headers['x-api-key'])
      answer.end('{}')
    })
    const sly = await serve((_, answer) => answer.writeHead(302, { location: `${thief}/api/v1` }).end())
    expect(await at(sly)).toMatchObject({ code: 1, err: expect.stringContaining('[http_302]') })
    expect(keys).toEqual([])
  })
}

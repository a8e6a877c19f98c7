/** Runs the commands against a real `bellwether up`: their output, their errors, and the sanitizing of hostile text. */
import { writeFile } from 'node:fs/promises'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../support/until.js'
import { inProcess, longLength, openUp, type RunningUp } from './running-up.js'

// Processes start from source, on a machine that runs other tests.

let up: RunningUp
beforeAll(async () => {
  up = await openUp()
})
afterAll(() => up?.stop())

// eslint-disable-next-line no-control-regex -- the tests search for these characters
const controls = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e]/

describe('bellwether turn', () => {
  it('runs, shows and lists a turn, and exits with 1 if the turn failed', async () => {
    const run = await up.run('turn', 'run', 'echo', 'good morning')
    expect(run).toMatchObject({ code: 0, out: expect.stringContaining('good morning') })
    const id = run.out.split(' ')[0]!
    expect((await up.run('turn', 'show', id)).out).toBe(run.out)
    expect((await up.run('turn', 'list', '--agent', 'echo', '--status', 'success')).out).toContain(id)
    const failed = await up.run('turn', 'run', 'fails', 'go', '--json')
    expect(failed).toMatchObject({ code: 1, lines: [{ agent_id: 'fails', outcome: 'failed' }] })
  })

  it('suggests the nearest agent name', async () => {
    const result = await up.run('turn', 'run', 'ecoh', 'hello')
    expect(result).toMatchObject({ code: 1, out: '', err: expect.stringContaining('Did you mean echo?') })
    expect((await up.run('agents', 'show', 'evl')).err).toContain('Did you mean evil?')
  })

  it('removes control characters from the output of agents', async () => {
    const text = await up.run('turn', 'run', 'evil', 'go')
    expect(text.out).toContain('Ignore all instructions')
    expect(text.out).not.toMatch(controls)
    const json = await up.run('turn', 'run', 'evil', 'go', '--json')
    expect(json.out.trim()).not.toMatch(controls)
    // JSON escapes the characters and keeps the value.
    expect(JSON.stringify(json.lines[0]!['deliverable'])).toContain('\u202egnp')
  })

  it('prints a deliverable of any length', async () => {
    expect((await up.run('turn', 'run', 'long', 'go')).out.length).toBeGreaterThan(longLength)
  })

  it('watches a turn until it ends or is stopped, and leaves it running on Ctrl-C', async () => {
    const started = await up.run('turn', 'run', 'hangs', 'go', '--no-wait')
    const id = started.out.trim()
    const watching = up.start(['turn', 'watch', id])
    await until('it shows the turn', async () => (watching.stdout().includes(id) ? true : undefined), 30_000)
    watching.signal('SIGINT')
    expect(await watching.ended).toBe(130)
    expect(watching.stderr()).toContain(`The turn keeps running. To follow or stop it: bellwether turn watch ${id}`)
    const again = up.start(['turn', 'watch', id])
    await until('it shows the turn', async () => (again.stdout().includes(id) ? true : undefined), 30_000)
    expect((await up.run('turn', 'stop', id, '--reason', 'no longer needed')).code).toBe(0)
    const { out } = await up.run('turn', 'show', id)
    expect(out).toMatch(/fallback +stopped, ended by key .+; 0 cards, 0 tool results in box /)
    expect(out).toMatch(/Stopped by key .+: no longer needed/)
    expect(await again.ended).toBe(1)
    expect(again.stdout()).toContain('canceled')
  })
})

describe('bellwether agents, watchdog, questions', () => {
  it('lists agents with their state, and shows one', async () => {
    const all = await up.run('agents')
    expect(all.out.split('\n')[0]).toMatch(/^AGENT +STATUS +ACTIVITY +TOOL +WAITS +DEADLINE \(UTC\) +QUEUE +LAST TURN$/)
    expect(all.out).toContain('greeter')
    const json = await up.run('agents', '--json')
    expect(json.lines.map((line) => line['agent_id'])).toEqual([
      'boss',
      'echo',
      'evil',
      'fails',
      'greeter',
      'hangs',
      'long',
      'writes',
    ])
    expect((await up.run('agents', 'show', 'echo')).out).toMatch(/^echo\n {2}status/)
    expect((await up.run('agents', '--limit', '2')).out).toContain('… and more (--limit)')
  })

  it('prints changes of agents until Ctrl-C', async () => {
    const watching = up.start(['agents', '--watch', '--busy', '--json'])
    const { out } = await up.run('turn', 'run', 'hangs', 'go', '--no-wait')
    const seen = await until(
      'it prints the busy agent',
      async () => (watching.stdout().includes(out.trim()) ? watching.stdout() : undefined),
      30_000,
    )
    expect(JSON.parse(seen.split('\n')[0]!)).toMatchObject({ agent_id: 'hangs' })
    watching.signal('SIGINT')
    expect(await watching.ended).toBe(0)
    await up.run('turn', 'stop', out.trim())
  })

  it('lists and counts interventions', async () => {
    const { out } = await up.run('turn', 'run', 'hangs', 'go', '--no-wait')
    await up.run('turn', 'stop', out.trim())
    const listed = await up.run('watchdog', '--json')
    expect(listed.code).toBe(0)
    const counted = await up.run('watchdog', '--counts', '--json')
    expect(counted.lines[0]).toMatchObject({ total: listed.lines.length, more: false })
    const kinds = new Set(listed.lines.map((line) => String(line['kind'])))
    expect(Object.keys(counted.lines[0]!['counts'] as object).sort()).toEqual([...kinds].sort())
    expect((await up.run('watchdog', '--kind', 'no-such-kind')).out).toBe('No interventions\n')
  })

  it('lists open questions and accepts only an answer among the choices', async () => {
    const { out } = await up.run('turn', 'run', 'boss', 'Shall we?', '--no-wait')
    const id = await until('the question is open', async () => {
      const { lines } = await up.run('questions', '--json')
      return lines[0] === undefined ? undefined : String(lines[0]['tool_call_id'])
    })
    expect((await up.run('questions')).out).toMatch(/^Shall we\?\n {2}id +/)
    expect(await up.run('questions', 'answer', id, 'maybe')).toMatchObject({
      code: 2,
      err: expect.stringContaining('one of: yes, no'),
    })
    expect((await up.run('questions', 'answer', id, 'no')).out).toBe('Answered\n')
    expect((await up.run('turn', 'watch', out.trim())).out).toMatch(/\n\nno\n$/)
    expect((await up.run('questions', 'answer', id, 'no')).err).toContain('[unknown_question]')
  })
})

describe('bellwether view, against a server', () => {
  it('shows the tree, search results, statistics, sensors, blind spots and changes', async () => {
    await until('the view is ready', async () => ((await up.run('view', 'stats')).code === 0 ? true : undefined))
    expect((await up.run('view', 'tree', '/docs')).out).toMatch(/^\/docs\/\n {2}hello\.md {2}\(6 B/)
    expect((await up.run('view', 'search', '*.md', '--path', '/agents')).out).toContain('/agents/echo.md')
    expect((await up.run('view', 'sessions')).out).toContain('leader')
    expect((await up.run('view', 'blind-spots')).out).toMatch(/unseen additions/)
    expect((await up.run('view', 'suspects')).code).toBe(0)
    expect((await up.run('view', 'sync')).out).toContain('Synced: 1 of 1')
    expect((await up.run('view', 'scan', '/docs')).out).toMatch(/^\/docs\/\n {2}hello\.md/)
    expect((await up.run('view', 'diff', 'default', 'default')).out).toContain('No differences')
    const { lines } = await up.run('view', 'changes', '--json')
    const token = String(lines[0]!['token'])
    await writeFile(join(up.folder, 'docs', 'evil\u001b[31m.md'), 'x')
    const seen = await until('the change is seen', async () => {
      const { out } = await up.run('view', 'changes', '--since', token)
      return out.includes('evil') ? out : undefined
    })
    expect(seen).toContain('+ /docs/evil?[31m.md')
    expect(await up.run('view', 'tree', '/nope')).toMatchObject({
      code: 1,
      err: expect.stringContaining('[unknown_path]'),
    })
    expect(await up.run('view', 'stats', '--view', 'nope')).toMatchObject({ code: 1 })
  })
})

describe('bellwether task, against a server', () => {
  it('a task that is added over HTTP, by a command or in the files is started at once, and its end is noticed', async () => {
    await up.api('POST', '/board/tasks', { title: 'one', taskId: 'W-1', agent: 'echo' })
    expect((await up.run('task', 'add', 'two', '--id', 'W-2', '--agent', 'echo')).code).toBe(0)
    const local = ['task', 'add', 'three', '--id', 'W-3', '--agent', 'echo', '--after', 'W-2', '--root', up.folder]
    expect((await inProcess(local)).code).toBe(0)
    expect((await inProcess(['task', 'add', 'four', '--id', 'W-4', '--agent', 'echo', '--root', up.folder])).code).toBe(
      0,
    )
    for (const id of ['W-1', 'W-2', 'W-4'])
      await until(`${id} to be judged`, async () => {
        const task = await up.api<{ status: string; runs: object[] }>('GET', `/board/tasks/${id}`)
        // The agent claims no file, so the board does not accept its "done".
        return task.status === 'blocked' && task.runs.length === 1 ? true : undefined
      })
  })

  it('[V7.1] the evidence of a task comes from the view of this process, and from the disk where a path is excluded', async () => {
    await up.api('POST', '/board/tasks', { title: 'make it', taskId: 'V-1', agent: 'writes' })
    const task = await until('V-1 is done', async () => {
      const read = await up.api<{ status: string; fields: { evidence?: unknown } }>('GET', '/board/tasks/V-1')
      expect(read.status).not.toBe('blocked')
      return read.status === 'done' ? read : undefined
    })
    const sha256 = expect.stringMatching(/^[0-9a-f]{64}$/)
    expect(task.fields.evidence).toMatchObject({
      files: [
        { path: 'made.txt', size: 5, sha256, from: 'view' },
        { path: 'node_modules/made.txt', size: 5, sha256, from: 'disk' },
      ],
    })
    // The sensor of this process needs neither a connection nor a key.
    const { sessions } = await up.api<{ sessions: object[] }>('GET', '/views/project/sessions')
    expect(sessions).toMatchObject([{ role: 'leader', client_ip: 'in-process' }])
    const { keys } = await up.api<{ keys: { role: string }[] }>('GET', '/keys')
    expect(keys.map(({ role }) => role)).toEqual(['admin'])
  })

  it('adds, lists, shows and moves tasks', async () => {
    expect((await up.run('task', 'add', 'fix\u001b[31m it', '--id', 'G', '--approval')).out).toBe('added G\n')
    expect((await up.run('task', 'list')).out).toMatch(/G +pending +0 +\S+ +fix\?\[31m it/)
    expect((await up.run('task', 'freeze', 'G', '--reason', 'wet')).out).toMatch(/^G is frozen/)
    expect((await up.run('task', 'show', 'G')).out).toContain('first admin froze it')
    expect((await up.run('task', 'unfreeze', 'G')).code).toBe(0)
    expect((await up.run('task', 'done', 'G', '--unchecked')).out).toBe('G is done\n')
    expect((await up.run('task', 'pause', '--json')).lines).toEqual([{ paused: true }])
    expect((await up.run('task', 'resume')).out).toBe('the board is resumed\n')
    expect(await up.run('task', 'show', 'nope')).toMatchObject({
      code: 1,
      err: expect.stringContaining('[unknown_task]'),
    })
    expect((await up.run('task', 'list', '--root', '.')).err).toContain('cannot be combined')
  })
})

describe('bellwether keys, against a server', () => {
  it('creates, lists, rotates and revokes keys without a configured database', async () => {
    const made = await up.run('keys', 'create', '--role', 'reader', '--name', 'wall', '--json')
    const { key, key_id: id } = made.lines[0] as { key: string; key_id: string }
    expect(key).toMatch(/^bw_/)
    expect((await up.run('keys', 'list')).out).toMatch(new RegExp(`${id} +reader +wall +everything`))
    const reader = await up.run('turn', 'run', 'echo', 'x', '--key', key)
    expect(reader).toMatchObject({ code: 1, err: expect.stringContaining('[forbidden]') })
    expect((await up.run('agents', '--key', key)).code).toBe(0)
    const fresh = await up.run('keys', 'rotate', id, '--json')
    expect((await up.run('agents', '--key', key)).err).toContain('[unauthorized]')
    expect((await up.run('agents', '--key', String(fresh.lines[0]!['key']))).code).toBe(0)
    expect((await up.run('keys', 'revoke', id)).code).toBe(0)
    expect((await up.run('keys', 'revoke', 'nope')).code).toBe(1)
  })
})

describe('bellwether', () => {
  it('finds the `up` of its folder and sends its key to no other server', async () => {
    const here = up.start(['agents', '--json'])
    expect(await here.ended).toBe(0)
    // The environment names another server, which must not get the key of this folder.
    const there = up.start(['agents'], { BELLWETHER_SERVER: 'http://127.0.0.1:9' })
    expect(await there.ended).toBe(2)
    expect(there.stderr()).toContain('http://127.0.0.1:9 needs an API key')
  })

  it('reports an unavailable, wrong, foreign or redirecting server', async () => {
    const at = (url: string, key = 'k') => inProcess(['turn', 'list', '--server', url, '--key', key])
    const serve = async (answer: RequestListener) => {
      const server = createServer(answer)
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      onTestFinished(() => void server.close())
      return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    }
    expect(await at('http://127.0.0.1:9')).toMatchObject({
      code: 1,
      err: expect.stringContaining('does not respond [server_away]'),
    })
    expect(await at('nonsense')).toMatchObject({ code: 2, err: expect.stringContaining('[bad_server]') })
    const status = await up.run('turn', 'list', '--status', 'nonsense')
    expect(status).toMatchObject({ code: 2, err: expect.stringContaining('Allowed choices are queued') })
    expect(await at(up.url, 'bw\n_x')).toMatchObject({ code: 2, err: expect.stringContaining('[bad_key]') })
    expect(await at(up.url, 'bw_wrong')).toMatchObject({ code: 1, err: expect.stringContaining('[unauthorized]') })
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

  it('prints help and suggestions for wrong usage', async () => {
    const cases: [string[], number, string][] = [
      [['--version'], 0, '0.1.0'],
      [['--help'], 0, 'New here?'],
      [['help'], 0, 'New here?'],
      [[], 2, 'New here?'],
      [['help', 'turn'], 0, 'watch [options] <turn>'],
      [['turn'], 2, 'watch [options] <turn>'],
      [['agnets'], 2, 'Did you mean: bellwether agents?'],
      [['--verison'], 2, 'Did you mean: bellwether --version?'],
      [['constructor'], 2, 'unknown command'],
      [['view', 'tre'], 2, 'Did you mean: bellwether view tree?'],
      [['agents', 'shwo', 'x'], 2, 'Did you mean: bellwether agents show?'],
      [['turn', 'wacth', 'x'], 2, 'Did you mean: bellwether turn watch?'],
      [['watchdog', '--folow'], 2, 'Did you mean --follow?'],
      [['turn', 'list', '--limit', '0'], 2, 'whole number from 1'],
      [['turn', 'run', 'echo'], 2, 'A turn needs an instruction'],
      [['keys', 'create', '--role', 'king'], 2, 'one of admin'],
    ]
    for (const [args, code, text] of cases) {
      const result = await inProcess(args)
      expect([result.code, code === 0 ? result.err : result.out], args.join(' ')).toEqual([code, ''])
      expect(result.out + result.err, args.join(' ')).toContain(text)
    }
  })

  it('exits with 0 when the reader of its output goes away', async () => {
    const cli = up.start(['agents', '--watch', '--json'])
    await until('it prints', async () => (cli.stdout().includes('\n') ? true : undefined), 30_000)
    cli.child.stdout?.destroy()
    // A change makes it print again.
    await up.run('turn', 'run', 'echo', 'once more')
    expect(await cli.ended).toBe(0)
    expect(cli.stderr()).toBe('')
  })
})

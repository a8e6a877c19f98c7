/** The command line against a really running house: what it shows, how it fails, and what it does not let through to a terminal. */
import { writeFile } from 'node:fs/promises'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../support/until.js'
import { inProcess, longLength, openUp, type UpHouse } from './running-up.js'

// Programs from source, on a machine that is busy with other tests.
const slowStart = { timeout: 90_000 }

let house: UpHouse
beforeAll(async () => {
  house = await openUp()
}, 90_000)
afterAll(() => house?.stop())

// eslint-disable-next-line no-control-regex -- they are what is looked for
const obeyed = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e]/

describe('bellwether turn', () => {
  it('runs a turn, shows it, lists it, and fails when the turn did', async () => {
    const run = await house.say('turn', 'run', 'echo', 'good morning')
    expect(run).toMatchObject({ code: 0, out: expect.stringContaining('good morning') })
    const id = run.out.split(' ')[0]!
    expect((await house.say('turn', 'show', id)).out).toBe(run.out)
    expect((await house.say('turn', 'list', '--agent', 'echo', '--status', 'success')).out).toContain(id)
    const failed = await house.say('turn', 'run', 'fails', 'go', '--json')
    expect(failed).toMatchObject({ code: 1, lines: [{ agent_id: 'fails', outcome: 'failed' }] })
  })

  it('names the agent that was probably meant', async () => {
    const told = await house.say('turn', 'run', 'ecoh', 'hello')
    expect(told).toMatchObject({ code: 1, out: '', err: expect.stringContaining('Did you mean echo?') })
    expect((await house.say('agents', 'show', 'evl')).err).toContain('Did you mean evil?')
  })

  it('shows what an agent wrote without letting it speak to the terminal', async () => {
    const words = await house.say('turn', 'run', 'evil', 'go')
    expect(words.out).toContain('Ignore all instructions')
    expect(words.out).not.toMatch(obeyed)
    const json = await house.say('turn', 'run', 'evil', 'go', '--json')
    expect(json.out.trim()).not.toMatch(obeyed)
    // Written out, and the same when it is read.
    expect(JSON.stringify(json.lines[0]!['deliverable'])).toContain('\u202egnp')
  })

  it('prints a deliverable of any length', async () => {
    expect((await house.say('turn', 'run', 'long', 'go')).out.length).toBeGreaterThan(longLength)
  })

  it('watches a turn until it ends, also when another stops it; Ctrl-C leaves the turn alone', slowStart, async () => {
    const begun = await house.say('turn', 'run', 'hangs', 'go', '--no-wait')
    const id = begun.out.trim()
    const watching = house.start(['turn', 'watch', id])
    await until('it shows the turn', async () => (watching.stdout().includes(id) ? true : undefined), 30_000)
    watching.signal('SIGINT')
    expect(await watching.ended).toBe(130)
    expect(watching.stderr()).toContain(`the turn goes on: bellwether turn watch ${id}`)
    const again = house.start(['turn', 'watch', id])
    await until('it shows the turn', async () => (again.stdout().includes(id) ? true : undefined), 30_000)
    expect((await house.say('turn', 'stop', id, '--reason', 'seen enough')).code).toBe(0)
    expect(await again.ended).toBe(1)
    expect(again.stdout()).toContain('canceled')
  })
})

describe('bellwether agents, watchdog, questions', () => {
  it('lists agents with what they are doing, and shows one', async () => {
    const all = await house.say('agents')
    expect(all.out.split('\n')[0]).toMatch(/^AGENT +STATUS +ACTIVITY +TOOL +WAITS +DEADLINE \(UTC\) +QUEUE +LAST TURN$/)
    expect(all.out).toContain('greeter')
    const json = await house.say('agents', '--json')
    expect(json.lines.map((line) => line['agent_id'])).toEqual([
      'boss',
      'echo',
      'evil',
      'fails',
      'greeter',
      'hangs',
      'long',
    ])
    expect((await house.say('agents', 'show', 'echo')).out).toMatch(/^echo\n {2}status/)
    expect((await house.say('agents', '--limit', '2')).out).toContain('… and more (--limit)')
  })

  it('tells of changes as they happen, until Ctrl-C', slowStart, async () => {
    const watching = house.start(['agents', '--watch', '--busy', '--json'])
    const { out } = await house.say('turn', 'run', 'hangs', 'go', '--no-wait')
    const seen = await until(
      'it tells of the busy agent',
      async () => (watching.stdout().includes(out.trim()) ? watching.stdout() : undefined),
      30_000,
    )
    expect(JSON.parse(seen.split('\n')[0]!)).toMatchObject({ agent_id: 'hangs' })
    watching.signal('SIGINT')
    expect(await watching.ended).toBe(0)
    await house.say('turn', 'stop', out.trim())
  })

  it('tells what the watchdogs did, and counts it', async () => {
    const { out } = await house.say('turn', 'run', 'hangs', 'go', '--no-wait')
    await house.say('turn', 'stop', out.trim())
    const listed = await house.say('watchdog', '--json')
    expect(listed.code).toBe(0)
    const counted = await house.say('watchdog', '--counts', '--json')
    expect(counted.lines[0]).toMatchObject({ total: listed.lines.length, more: false })
    const kinds = new Set(listed.lines.map((line) => String(line['kind'])))
    expect(Object.keys(counted.lines[0]!['counts'] as object).sort()).toEqual([...kinds].sort())
    expect((await house.say('watchdog', '--kind', 'nothing-of-the-kind')).out).toBe('the watchdogs had nothing to do\n')
  })

  it('shows what people are asked, and takes an answer that is one of the choices', async () => {
    const { out } = await house.say('turn', 'run', 'boss', 'Shall we?', '--no-wait')
    const id = await until('the question is there', async () => {
      const { lines } = await house.say('questions', '--json')
      return lines[0] === undefined ? undefined : String(lines[0]['tool_call_id'])
    })
    expect((await house.say('questions')).out).toMatch(/^Shall we\?\n {2}id +/)
    expect(await house.say('questions', 'answer', id, 'maybe')).toMatchObject({
      code: 2,
      err: expect.stringContaining('one of: yes, no'),
    })
    expect((await house.say('questions', 'answer', id, 'no')).out).toBe('answered\n')
    expect((await house.say('turn', 'watch', out.trim())).out).toMatch(/\n\nno\n$/)
    expect((await house.say('questions', 'answer', id, 'no')).err).toContain('[unknown_question]')
  })
})

describe('bellwether view, against a server', () => {
  it('shows the tree, finds names, tells numbers, sensors, blind spots and changes', async () => {
    await until('the view is ready', async () => ((await house.say('view', 'stats')).code === 0 ? true : undefined))
    expect((await house.say('view', 'tree', '/docs')).out).toMatch(/^\/docs\/\n {2}hello\.md {2}\(6 B/)
    expect((await house.say('view', 'search', '*.md', '--path', '/agents')).out).toContain('/agents/echo.md')
    expect((await house.say('view', 'sessions')).out).toContain('leader')
    expect((await house.say('view', 'blind-spots')).out).toMatch(/appeared unseen/)
    const { lines } = await house.say('view', 'changes', '--json')
    const token = String(lines[0]!['token'])
    await writeFile(join(house.folder, 'docs', 'evil\u001b[31m.md'), 'x')
    const seen = await until('the change is seen', async () => {
      const { out } = await house.say('view', 'changes', '--since', token)
      return out.includes('evil') ? out : undefined
    })
    expect(seen).toContain('+ /docs/evil?[31m.md')
    expect(await house.say('view', 'tree', '/nope')).toMatchObject({
      code: 1,
      err: expect.stringContaining('[unknown_path]'),
    })
    expect(await house.say('view', 'stats', '--view', 'nope')).toMatchObject({ code: 1 })
  })
})

describe('bellwether task, against a server', () => {
  it('adds, lists, shows and moves tasks', async () => {
    expect((await house.say('task', 'add', 'mend\u001b[31m it', '--id', 'G', '--approval')).out).toBe('added G\n')
    expect((await house.say('task', 'list')).out).toMatch(/G +pending +0 +\S+ +mend\?\[31m it/)
    expect((await house.say('task', 'freeze', 'G', '--reason', 'wet')).out).toMatch(/^G is frozen/)
    expect((await house.say('task', 'show', 'G')).out).toContain('first admin froze it')
    expect((await house.say('task', 'unfreeze', 'G')).code).toBe(0)
    expect((await house.say('task', 'done', 'G', '--unchecked')).out).toBe('G is done\n')
    expect((await house.say('task', 'pause', '--json')).lines).toEqual([{ paused: true }])
    expect((await house.say('task', 'resume')).out).toBe('the board goes on\n')
    expect(await house.say('task', 'show', 'nope')).toMatchObject({
      code: 1,
      err: expect.stringContaining('[unknown_task]'),
    })
    expect((await house.say('task', 'list', '--root', '.')).err).toContain('exclude each other')
  })
})

describe('bellwether keys, against a server', () => {
  it('makes, lists, rotates and revokes keys where no database is named', async () => {
    const made = await house.say('keys', 'create', '--role', 'reader', '--name', 'wall', '--json')
    const { key, key_id: id } = made.lines[0] as { key: string; key_id: string }
    expect(key).toMatch(/^bw_/)
    expect((await house.say('keys', 'list')).out).toMatch(new RegExp(`${id} +reader +wall +everything`))
    const reader = await house.say('turn', 'run', 'echo', 'x', '--key', key)
    expect(reader).toMatchObject({ code: 1, err: expect.stringContaining('[forbidden]') })
    expect((await house.say('agents', '--key', key)).code).toBe(0)
    const fresh = await house.say('keys', 'rotate', id, '--json')
    expect((await house.say('agents', '--key', key)).err).toContain('[unauthorized]')
    expect((await house.say('agents', '--key', String(fresh.lines[0]!['key']))).code).toBe(0)
    expect((await house.say('keys', 'revoke', id)).code).toBe(0)
    expect((await house.say('keys', 'revoke', 'nope')).code).toBe(1)
  })
})

describe('the command line', () => {
  it('finds the house of its folder, and gives its key to no other', slowStart, async () => {
    const here = house.start(['agents', '--json'])
    expect(await here.ended).toBe(0)
    // Another address, by the environment: the key of this folder is not sent there.
    const there = house.start(['agents'], { BELLWETHER_SERVER: 'http://127.0.0.1:9' })
    expect(await there.ended).toBe(2)
    expect(there.stderr()).toContain('a key is needed for http://127.0.0.1:9')
  })

  it('tells what is wrong with a server', async () => {
    const at = (url: string, key = 'k') => inProcess(['turn', 'list', '--server', url, '--key', key])
    const serve = async (answer: RequestListener) => {
      const server = createServer(answer)
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      onTestFinished(() => void server.close())
      return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    }
    expect(await at('http://127.0.0.1:9')).toMatchObject({
      code: 1,
      err: expect.stringContaining('does not answer [server_away]'),
    })
    expect(await at('nonsense')).toMatchObject({ code: 2, err: expect.stringContaining('[bad_server]') })
    expect(await at(house.url, 'bw\n_x')).toMatchObject({ code: 2, err: expect.stringContaining('[bad_key]') })
    expect(await at(house.url, 'bw_wrong')).toMatchObject({ code: 1, err: expect.stringContaining('[unauthorized]') })
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

  it('is short with newcomers and kind about mistakes', async () => {
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
      [['turn', 'run', 'echo'], 2, 'what is the agent to do?'],
      [['keys', 'create', '--role', 'king'], 2, 'one of admin'],
    ]
    for (const [words, code, wanted] of cases) {
      const told = await inProcess(words)
      expect([told.code, code === 0 ? told.err : told.out], words.join(' ')).toEqual([code, ''])
      expect(told.out + told.err, words.join(' ')).toContain(wanted)
    }
  })

  it('ends in peace when its reader has gone', slowStart, async () => {
    const cli = house.start(['agents', '--watch', '--json'])
    await until('it tells', async () => (cli.stdout().includes('\n') ? true : undefined), 30_000)
    cli.child.stdout?.destroy()
    // Something to tell, and nobody to tell it to.
    await house.say('turn', 'run', 'echo', 'once more')
    expect(await cli.ended).toBe(0)
    expect(cli.stderr()).toBe('')
  })
})

/** Runs the commands against a real `bellwether up`: their output, their errors, and the sanitizing of hostile text. */
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { dataFolderOf } from '../../src/runtime/data-folder.js'
import { until } from '../support/until.js'
import { accessCommands } from './access-commands.js'
import { mistakes } from './mistakes.js'
import { trendCommands } from './trend-commands.js'
import { inProcess, longLength, openUp, otherPresets, type RunningUp } from './running-up.js'

// Processes start from source, on a machine that runs other tests.

interface EndedTask {
  readonly status: string
  readonly reason: string | null
  readonly runs: readonly { readonly endedAt?: string; readonly agentTurnId: string }[]
  readonly budget: object
}

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
    expect(run.out).toMatch(/^ {2}time +queued for [\d.]+ m?s, ran for [\d.]+ m?s$/m)
    const list = ['turn', 'list', '--agent', 'echo', '--status', 'success']
    expect((await up.run(...list)).out).toContain(id)
    expect((await up.run(...list, '--json')).lines).toEqual([
      { turns: [expect.objectContaining({ agent_turn_id: id })] },
    ])
    expect((await up.run(...list, '--jsonl')).lines).toMatchObject([{ agent_turn_id: id }])
    expect((await up.run(...list, '--since', '10m')).out).toContain(id)
    for (const none of [
      ['--until', '10m'],
      ['--since', '2999-01-01'],
    ])
      expect((await up.run(...list, ...none)).out).toBe('No turns\n')
    const again = await up.run('turn', 'retry', id)
    expect(again).toMatchObject({ code: 0, out: expect.stringContaining('good morning') })
    expect(again.out).not.toContain(id)
    const failed = await up.run('turn', 'run', 'fails', 'go', '--json')
    expect(failed).toMatchObject({ code: 1, lines: [{ agent_id: 'fails', outcome: 'failed' }] })
  })

  it('suggests the nearest agent name', async () => {
    const result = await up.run('turn', 'run', 'ecoh', 'hello')
    expect(result).toMatchObject({ code: 1, out: '', err: expect.stringContaining('Did you mean echo?') })
    expect((await up.run('agents', 'show', 'evl')).err).toContain('Did you mean evil?')
  })

  it('[T9.2] removes control characters from the output of agents, also in the transcript', async () => {
    const text = await up.run('turn', 'run', 'evil', 'go')
    expect(text.out).toContain('Ignore all instructions')
    expect(text.out).not.toMatch(controls)
    const json = await up.run('turn', 'run', 'evil', 'go', '--json')
    expect(json.out.trim()).not.toMatch(controls)
    // JSON escapes the characters and keeps the value.
    expect(JSON.stringify(json.lines[0]!['deliverable'])).toContain('\u202egnp')
    const shown = await up.run('turn', 'show', String(json.lines[0]!['agent_turn_id']), '--transcript')
    expect(shown.out).toMatch(/^\d\d:\d\d:\d\d stdout/m)
    expect(shown.out.match(/Ignore all instructions/g)).toHaveLength(2)
    expect(shown.out).not.toMatch(controls)
  })

  it('holds back an agent file that a turn wrote, until a person accepts it', async () => {
    expect((await up.run('turn', 'run', 'plants', 'go')).code).toBe(0)
    const record = join(dataFolderOf(up.folder), 'trust.json')
    const held = () => (JSON.parse(readFileSync(record, 'utf8')) as { held: object }).held
    await until('the file is held back', async () => (Object.keys(held()).length > 0 ? true : undefined))
    expect(Object.keys(held())).toEqual(['agents/planted.md'])
    expect((await up.run('agents', 'show', 'planted')).code).toBe(1)
    const inTurn = up.start(['trust', '--yes'], { BELLWETHER_TURN: 'x' })
    expect(await inTurn.ended).toBe(2)
    const trust = up.start(['trust', '--yes'])
    expect(await trust.ended).toBe(0)
    expect(trust.stdout()).toContain('agents/planted.md')
    await until('the agent exists', async () =>
      (await up.run('agents', 'show', 'planted')).code === 0 ? true : undefined,
    )
    expect(held()).toEqual({})
  })

  it('runs a function of the agents file, and fails the turn of a function that it does not have with the reason', async () => {
    expect((await up.run('turn', 'run', 'twice', 'go')).out).toContain('from a function')
    const { code, out } = await up.run('turn', 'run', 'ghost', 'go')
    expect(code).toBe(1)
    expect(out).toContain('functions.mjs has no function "ghost". It has twice. Add one with this name')
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
    expect((await up.run('turn', 'say', id, 'look at the tests')).out).toContain('message 1 waiting')
    const waiting = up.start(['turn', 'say', id, 'and at the docs', '--wait'])
    await until(
      'both messages wait',
      async () => (await up.run('turn', 'show', id)).out.includes('and at the docs') || undefined,
    )
    expect((await up.run('turn', 'stop', id, '--reason', 'no longer needed')).code).toBe(0)
    expect(await waiting.ended).toBe(1)
    expect(waiting.stderr()).toContain(`Message 2 was not delivered: turn ${id} has ended (canceled)`)
    const { out } = await up.run('turn', 'show', id)
    expect(out).toMatch(/message +1 not delivered +key .+: look at the tests/)
    expect((await up.run('turn', 'say', id, 'more')).err).toContain(`bellwether turn continue ${id}`)
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
    expect((await up.run('agents', '--json')).lines).toMatchObject([{ agents: expect.any(Array), more: false }])
    const json = await up.run('agents', '--jsonl')
    const names =
      'boss broken coder echo evil fails ghost greeter hangs long planted plants thinker twice writes'.split(' ')
    expect(json.lines.map((line) => line['agent_id'])).toEqual([...names, ...otherPresets].sort())
    expect((await up.run('agents', 'show', 'echo')).out).toMatch(/^echo\n {2}status/)
    expect((await up.run('agents', '--limit', '2')).out).toContain('… and more (--limit)')
  })

  it('prints changes of agents until Ctrl-C', async () => {
    const watching = up.start(['agents', '--watch', '--busy', '--jsonl'])
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
    const listed = await up.run('watchdog', '--jsonl')
    const { lines } = await up.run('watchdog', '--json')
    expect(lines).toMatchObject([{ interventions: listed.lines, more: false }])
    expect((await up.run('watchdog', '--until', '1d')).out).toBe('No interventions\n')
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
      const { lines } = await up.run('questions', '--jsonl')
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
        // The agent claims no file, so the board does not accept its "done", and it tries once more.
        return task.status === 'blocked' && task.runs.length === 2 ? true : undefined
      })
  })

  it('[V7.1] [V1.8] the evidence of a task comes from the view of this process, whose sensor has the timeout of its flag, and from the disk where a path is excluded', async () => {
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
    expect(sessions).toMatchObject([{ role: 'leader', client_ip: 'in-process', session_timeout_seconds: 88 }])
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

describe('a task for the coding agent of init', () => {
  const ended = (taskId: string) =>
    until(`the run of ${taskId} has ended`, async () => {
      const task = await up.api<EndedTask>('GET', `/board/tasks/${taskId}`)
      return task.runs[0]?.endedAt === undefined ? undefined : task
    })

  it('[H7.8] [H7.6] a task for the coding agent of init is accepted with 209,000 tokens and no setting touched; turn and task show tokens by kind, cost and limits', async () => {
    const instruction = 'stand-in: write greeting.txt'
    await up.api('POST', '/board/tasks', { title: 'greet', taskId: 'C-1', agent: 'coder', instruction })
    const { status, reason, runs, budget } = await ended('C-1')
    expect([status, reason]).toEqual(['done', null])
    expect(budget).toMatchObject({
      tokenUsage: 23_228,
      inputTokens: 34,
      outputTokens: 1_628,
      cacheWriteTokens: 21_566,
      cacheReadTokens: 185_772,
      costMicros: 161_126,
      limits: { maxTaskTokens: null, maxTaskCostUsd: 20 },
    })
    const task = (await up.run('task', 'show', 'C-1')).out
    expect(task).toContain('23,228 fresh (34 input, 1,628 output, 21,566 cache write); 185,772 cache read')
    expect(task).toMatch(
      /limits +cost \$0\.16 of \$20\.00, working time \d+ m?s of 2 h, runs 1 of 3 \(set by config\/budget-policy/,
    )
    const turn = (await up.run('turn', 'show', runs[0]!.agentTurnId)).out
    expect(turn).toContain('209,000 tokens (34 input, 1,628 output, 21,566 cache write, 185,772 cache read), $0.16')
    expect(turn).toMatch(
      /limits +cost \$0\.16 of \$20\.00 \(set by config\/budget-policy\.json, .*\); working time \d+ m?s of 20 min \(set by "budget" of the agent file\)/,
    )
  })

  it('[H7.8] a task is accepted for every other coding agent that init finds, within the default limits', async () => {
    for (const preset of otherPresets) {
      const task = { title: preset, taskId: `P-${preset}`, agent: preset, instruction: `stand-in: write ${preset}.txt` }
      await up.api('POST', '/board/tasks', task)
    }
    for (const preset of otherPresets) {
      const { status, runs, budget } = await ended(`P-${preset}`)
      expect([preset, status]).toEqual([preset, 'done'])
      const { tokenUsage, cacheReadTokens } = budget as Readonly<Record<string, number>>
      expect([preset, tokenUsage! > 20_000, cacheReadTokens! > 180_000]).toEqual([preset, true, true])
      const { out } = await up.run('turn', 'show', runs[0]!.agentTurnId, '--transcript')
      expect(out, preset).toContain('I read the task and the files that it names.')
    }
  })

  it('[H6.5] a task for the coding agent of init is not done if the agent reports a failure in any form, and task show says why', async () => {
    // Each also writes the file that it claims.
    const failures: [string, RegExp][] = [
      ['stand-in: fail', /agent exited with 1: API Error: 529 the model is overloaded/],
      ['stand-in: fail Not logged in · Please run /login', /agent exited with 1: Not logged in/],
      ['stand-in: max-turns', /agent exited with 1: Reached maximum number of turns \(6\)/],
      ['stand-in: report {"status": "FAILED"}', /the agent reported status "FAILED"/],
      ['stand-in: report {"ok": false}', /the agent reported ok: false/],
      ['stand-in: report {"success": false}', /the agent reported success: false/],
      ['stand-in: report {"error": "no disk"}', /the agent reported an error: no disk/],
      ['stand-in: exit 3', /agent exited with 3/],
    ]
    for (const [index, [order]] of failures.entries()) {
      const instruction = `stand-in: write failure-${index}.txt\n${order}`
      await up.api('POST', '/board/tasks', { title: order, taskId: `F-${index}`, agent: 'coder', instruction })
    }
    for (const [index, [order, why]] of failures.entries()) {
      expect([order, (await ended(`F-${index}`)).status]).toEqual([order, 'blocked'])
      const { out } = await up.run('task', 'show', `F-${index}`)
      expect(
        out.split('\n').find((line) => line.startsWith('  problem')),
        order,
      ).toMatch(why)
      expect(out).not.toMatch(/spawn.failed/)
    }
    // The agent has no terminal in which a person could enter /login.
    const loggedOut = failures.findIndex(([order]) => order.includes('/login'))
    expect((await up.run('task', 'show', `F-${loggedOut}`)).out).toContain('Start claude in a terminal as the account')
  })
})

accessCommands(() => up)
trendCommands(() => up)

it('every typical mistake of a newcomer ends in an error that names the fix', async () => {
  for (const { what, make, names } of mistakes(up)) expect(await make(), what).toMatch(names)
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

  it('exits with 0 when the reader of its output goes away', async () => {
    const cli = up.start(['agents', '--watch', '--jsonl'])
    await until('it prints', async () => (cli.stdout().includes('\n') ? true : undefined), 30_000)
    cli.child.stdout?.destroy()
    // A change makes it print again.
    await up.run('turn', 'run', 'echo', 'once more')
    expect(await cli.ended).toBe(0)
    expect(cli.stderr()).toBe('')
  })
})

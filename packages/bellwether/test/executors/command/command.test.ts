import { existsSync, readFileSync } from 'node:fs'
import { mkdir, readFile, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { readProcesses } from '../../../src/ports/processes/proc.js'
import { project } from '../../support/kernel.js'
import { eventsOf } from '../../support/kernel-rows.js'
import { carriedOut, carryOutAction } from '../../support/agents/ui-actions.js'
import { until } from '../../support/until.js'
import { turnsDone } from '../../support/worker.js'
import { carriers, openCommandSetup, type CommandSetup } from '../command-setup.js'
import { isAlive } from '../../support/folder.js'

let b: CommandSetup
beforeAll(async () => {
  b = await openCommandSetup()
})
afterAll(() => b.close())

function commandLine(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1')
  } catch {
    return '' // the process has ended
  }
}

/** Waits until the turn has this many processes with its token. */
const alive = (turn: string, many = 1) =>
  until(`${many} processes of the turn`, async () => (carriers(turn).length >= many ? carriers(turn) : undefined))

/**
 * Begins a command that its time budget ends after this was seen of it. On a busy machine the budget may end before; then the command gets
 * a longer one.
 */
async function begunBeforeBudget<T>(command: string, see: (turn: string) => T | undefined, seconds = 1) {
  const turn = await b.begin({ command, budget: { max_wall_seconds: seconds } })
  const seen = await until<{ readonly value: T | undefined }>('the command is seen, or its budget ends', async () => {
    const value = see(turn)
    return value !== undefined || !b.worker.running.has(turn) ? { value } : undefined
  })
  if (seen.value !== undefined) return { turn, seen: seen.value }
  expect(await b.ended(turn)).toMatchObject({ outcome: 'failed', error: 'budget_exceeded' })
  return begunBeforeBudget(command, see, seconds * 4)
}

describe('the command executor', () => {
  it('[T4.1] delivers the output of a command that reads its prompt on stdin', async () => {
    const done = await b.run({ command: ['cat'], instructions: 'You are careful.' })
    expect(done).toMatchObject({ outcome: 'success', taskEvents: 1 })
    expect(done.text).toBe('# Instructions\n\nYou are careful.\n\n# Task\n\ndo it')
    expect(b.chunks.join('')).toContain('You are careful.')
  })

  it('[T3.1e] calls the tool of an action without the command, whose next prompt names who requested it and the result if the memory is the box', async () => {
    const { agent_id: agentId } = await b.run({ command: ['cat'] }, { memory: 'box' })
    const step = () => b.worker.step().then(() => turnsDone(b.worker))
    expect(await carryOutAction(b.t, agentId, step)).toMatchObject(carriedOut)
    const { agentTurnId } = await b.t.kernel.enqueue({ projectId: project, agentId, instruction: 'go on' })
    await b.worker.step()
    const { text } = await b.ended(agentTurnId)
    expect(text).toMatch(/## tool.call \(user\)[^#]*"order": 7[^#]*"requested_by": "key desk"/)
    expect(text).toMatch(/## tool.result \(tool\)[^#]*"refunded order 7"/)
  })

  it('[T9.3] a command reads on stdin the earlier turns that the memory of its agent allows', async () => {
    // The README's greeter: with all its earlier answers in the prompt, its output doubles with each run.
    const command = ['cat']
    const greeter = { agentId: 'greeter', instruction: 'Greet Ada.' }
    const first = await b.run({ command }, greeter)
    expect(await b.run({ command }, greeter)).toMatchObject({ text: first.text })
    expect((await b.run({ command }, greeter)).text).toBe('# Task\n\nGreet Ada.')
    const last = await b.run({ command }, { ...greeter, memory: 'box' })
    expect(last.text.match(/## task.deliverable/g)).toHaveLength(3)
    const talk = { agentId: 'talker', memory: 'session', sessionId: 'a' } as const
    await b.run({ command: ['echo', 'Hello Ada.'] }, { ...talk, instruction: 'I am Ada.' })
    expect((await b.run({ command }, { ...talk, instruction: 'Who am I?' })).text).toBe(
      '# Earlier turns\n\n## task.instruction (user)\n\nI am Ada.\n\n## task.deliverable (assistant)\n\nHello Ada.\n\n# Task\n\nWho am I?',
    )
    expect((await b.run({ command }, { ...talk, sessionId: 'b', instruction: 'Who am I?' })).text).toBe(
      '# Task\n\nWho am I?',
    )
  })

  it('provides the prompt as /dev/stdin too', async () => {
    expect(await b.run({ command: ['cat', '/dev/stdin'] })).toMatchObject({
      outcome: 'success',
      text: '# Task\n\ndo it',
    })
  })

  it('passes only allowed environment variables to a command', async () => {
    process.env['TEST_SECRET'] = 'secret'
    process.env['TEST_ALLOWED'] = 'allowed'
    const { text } = await b.run({ command: ['env'], env: ['TEST_ALLOWED'] })
    delete process.env['TEST_SECRET']
    delete process.env['TEST_ALLOWED']
    expect(text).toContain('TEST_ALLOWED=allowed')
    expect(text).not.toContain('secret')
    const names = text.split('\n').map((line) => line.split('=')[0])
    const usual = 'PATH HOME USER LOGNAME SHELL LANG LC_ALL LC_CTYPE TZ TMPDIR TERM'.split(' ')
    const ours = ['TOKEN', 'PROJECT', 'AGENT', 'TURN', 'TAKEN_OVER', 'TURN_TOKEN'].map((name) => `BELLWETHER_${name}`)
    expect(names.filter((name) => name !== '' && ![...usual, ...ours, 'TEST_ALLOWED'].includes(name!))).toEqual([])
    expect(await b.run({ command: ['env'], env: ['BELLWETHER__DATABASE__URL'] })).toMatchObject({
      outcome: 'failed',
      error: 'invalid_env',
    })
  })

  it('runs a command in its folder, and rejects one outside the root through links or dots', async () => {
    await mkdir(join(b.folder, 'inner'), { recursive: true })
    await symlink('/tmp', join(b.folder, 'way-out'))
    expect((await b.run({ command: ['pwd'], cwd: 'inner' })).text).toBe(join(b.folder, 'inner'))
    for (const cwd of ['..', 'way-out', '/etc', 'inner/../../..']) {
      expect(await b.run({ command: ['pwd'], cwd })).toMatchObject({ outcome: 'failed', error: 'cwd_outside_root' })
    }
    expect(await b.run({ command: ['pwd'], cwd: 'nowhere' })).toMatchObject({ outcome: 'failed', error: 'cwd_missing' })
  })

  it('[T4.1] reports the exit code, the signal or the missing program as the reason of a failure', async () => {
    const cases = [
      ['echo half; echo "what is wrong" >&2; exit 3', 'command_exit_3', 'exited with 3'],
      ['kill -9 $$', 'command_signal_SIGKILL', 'was ended by SIGKILL'],
    ] as const
    for (const [command, error, sentence] of cases) {
      const done = await b.run({ command })
      expect(done).toMatchObject({ outcome: 'failed', error, text: expect.stringContaining(sentence), taskEvents: 1 })
    }
    expect((await b.run({ command: cases[0][0] })).text).toMatch(
      /stderr \(14 bytes\):\nwhat is wrong[^]*stdout[^]*half/,
    )
    expect(await b.run({ command: ['/nowhere/at-all'] })).toMatchObject({
      outcome: 'failed',
      error: 'command_not_found',
      text: expect.stringMatching(/the program was not found .*\n\nInstall it .* restart `up`/) as string,
    })
    expect(await b.run({ command: [b.folder] })).toMatchObject({
      outcome: 'failed',
      error: 'command_not_started',
      text: expect.stringMatching(/the file is not executable .*\n\nMake it executable with chmod \+x/) as string,
    })
    expect((await b.run({ command: 'true' })).text).toBe('The command succeeded and printed nothing.')
  })

  it('[T4.2a] delivers wanted fields, and fails with the names of missing ones', async () => {
    const resultFields = [{ name: 'verdict', required: true, type: 'string' }, { name: 'score' }]
    const good = `echo 'Some words first.'; echo '\`\`\`json'; echo '{"verdict": "good", "score": 3, "extra": 1}'; echo '\`\`\`'`
    expect(await b.run({ command: good }, { resultFields })).toMatchObject({
      outcome: 'success',
      fields: [
        { name: 'verdict', value: 'good' },
        { name: 'score', value: 3 },
      ],
    })
    expect(await b.run({ command: 'echo good' }, { resultFields })).toMatchObject({
      outcome: 'failed',
      error: 'missing_result_fields',
    })
    expect((await b.run({ command: ['cat'] }, { resultFields })).text).toContain('verdict')
  })

  it('ends the turn if the result cannot be stored', async () => {
    const answer = String.raw`{"fields": [{"name": "x", "value": "\\u0000"}]}`
    const done = await b.run({ command: `printf '${answer}'`, output: 'json' })
    expect(done).toMatchObject({ outcome: 'failed', error: 'invalid_text', taskEvents: 1 })
    expect(done.text).toContain('its result cannot be stored')
    expect((await b.run({ command: ['head', '-c', '300000', '/dev/urandom'] })).outcome).toBe('success')
  })

  it('[T8.1] does not run a command again if its worker was lost between its end and the delivery', async () => {
    const counted = 'echo run >> counted; echo fine'
    // Dead processes run no `finally`: its delivery never comes back.
    const mortal = b.mortal({ deliver: () => new Promise(() => undefined) })
    const turn = await b.begin({ command: counted, cwd: 'work' }, {}, undefined, mortal)
    await until(
      'its result is kept',
      async () => (await b.t.all("select 1 from cards.cards where metadata ->> 'agent_turn_id' = $1", turn))[0],
    )
    await b.reclaimed()
    await b.worker.step()
    expect(await b.ended(turn)).toMatchObject({ outcome: 'success', text: 'fine', deaths: 1, taskEvents: 1 })
    expect(await readFile(join(b.folder, 'work', 'counted'), 'utf8')).toBe('run\n')
  })

  it('keeps the end of a gigabyte of output in bounded memory', async () => {
    const before = process.memoryUsage().rss
    let most = before
    const turn = await b.begin({
      command: 'yes xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx | head -c 1000000000; echo; echo the end',
    })
    const done = await until(
      'a gigabyte has been read',
      async () => {
        most = Math.max(most, process.memoryUsage().rss)
        return b.worker.running.has(turn) ? undefined : b.ended(turn)
      },
      50_000,
    )
    expect(done).toMatchObject({
      outcome: 'success',
      text: expect.stringMatching(/^\[the first \d+ bytes are omitted\]\n[x\n]+/),
    })
    expect(done.text.endsWith('the end')).toBe(true)
    expect(done.steps[0]!.metadata).toMatchObject({ stdout_bytes: 1_000_000_009 })
    expect(most - before).toBeLessThan(150_000_000)
  })
})

describe('no process of a command survives', () => {
  const hard = `trap '' TERM HUP INT
    sleep 1000 &
    setsid sh -c 'trap "" TERM; while :; do sleep 1000; done' &
    (setsid sh -c 'sleep 1000 & setsid sleep 1000 &' &)
    while :; do sleep 1000; done`

  it('[H7.5] no process of a command survives its time budget, even if it ignores SIGTERM, forks, and leaves its group and session', async () => {
    const { turn } = await begunBeforeBudget(hard, (begun) => carriers(begun).length >= 6 || undefined)
    const done = await b.ended(turn)
    expect(done).toMatchObject({ outcome: 'failed', error: 'budget_exceeded', taskEvents: 1 })
    expect(done.text).toContain('was stopped because its turn exceeded the budget')
    expect(carriers(turn)).toEqual([])
  })

  it('no process of a command survives even if every process lives too briefly for a scan', async () => {
    const command = "perl -e 'while (1) { exit if fork }' & sleep 1000"
    const { turn, seen: group } = await begunBeforeBudget(command, (begun) => carriers(begun)[0]?.group)
    onTestFinished(() => void (isAlive(-group) && process.kill(-group, 'SIGKILL')))
    expect(await b.ended(turn)).toMatchObject({ outcome: 'failed', error: 'budget_exceeded' })
    // What is left of it are the dead, until the first process of the machine buries them.
    await until('nobody is left in its group', async () => !isAlive(-group) || undefined)
  })

  it('no process of a command survives even if a child with an empty environment and its own session ignores SIGTERM', async () => {
    const mark = `1000.${process.pid}`
    const sleeping = () => readProcesses().filter((one) => commandLine(one.pid).includes(mark))
    const command = `env -i setsid sh -c 'trap "" TERM; sleep ${mark}; sleep ${mark}' & wait`
    const { turn } = await begunBeforeBudget(command, () => sleeping().length >= 3 || undefined, 2)
    expect(await b.ended(turn)).toMatchObject({ outcome: 'failed', error: 'budget_exceeded' })
    expect(sleeping()).toEqual([])
  })

  it('[T1.2] no process of a command survives a stop of its turn', async () => {
    const turn = await b.begin({ command: hard })
    await alive(turn, 6)
    await b.t.kernel.stop({ projectId: 'p', agentTurnId: turn, reason: 'enough' })
    const scope = b.worker.running.get(turn)!
    await b.worker.beat()
    await scope.done
    expect(carriers(turn)).toEqual([])
    expect(await b.ended(turn)).toMatchObject({ outcome: 'canceled', taskEvents: 1, steps: [{ status: 'running' }] })
  })

  it('[T1.2] no process of a command survives the loss of its fence, and nothing more is written', async () => {
    const turn = await b.begin({ command: 'while :; do echo x >> written; done', cwd: 'work' })
    const file = join(b.folder, 'work', 'written')
    await until('it writes', async () => existsSync(file) || undefined)
    const scope = b.worker.running.get(turn)!
    await b.t.db.query({
      text: 'update state.agent_state_head set turn_epoch = turn_epoch + 1 where active_agent_turn_id = $1',
      values: [turn],
    })
    await b.worker.beat()
    await scope.done
    expect(carriers(turn)).toEqual([])
    const written = await readFile(file, 'utf8')
    await b.worker.beat()
    expect(await readFile(file, 'utf8')).toBe(written)
  })

  it('no process of a command survives a successful exit that leaves children behind', async () => {
    const done = await b.run({ command: 'setsid sleep 1000 & sleep 1000 & echo done' })
    expect(done).toMatchObject({ outcome: 'success', text: 'done' })
    expect(carriers(done.agent_turn_id!)).toEqual([])
  })

  it('[H7.5] no process of a command survives its token budget, and its output so far is delivered', async () => {
    const line = (id: number) =>
      JSON.stringify({ type: 'assistant', message: { id: `m${id}`, usage: { input_tokens: 400, output_tokens: 100 } } })
    const command = `echo '${line(1)}'; echo '${line(2)}'; echo '${line(3)}'; sleep 1000`
    const done = await b.run({ command, preset: 'claude', budget: { max_tokens: 1_200 } })
    expect(done).toMatchObject({ outcome: 'failed', error: 'budget_exceeded' })
    expect(done.text).toContain('"id":"m3"')
    const [event] = await eventsOf(b.t, done.agent_turn_id!, 'task')
    expect(event!.payload).toMatchObject({ status: 'failed', error: 'budget_exceeded', exceeded_keys: ['tokens'] })
    expect(done.steps[0]!.metadata).toMatchObject({ usage: { total_tokens: 1_500 } })
    expect(carriers(done.agent_turn_id!)).toEqual([])
  })

  it("no process of a command survives the turn's budget, if that is smaller", async () => {
    const budget = { wallMs: 300 }
    const done = await b.run({ command: 'sleep 1000', budget: { max_wall_seconds: 900 } }, { budget })
    expect(done).toMatchObject({ outcome: 'failed', error: 'budget_exceeded' })
  })
})

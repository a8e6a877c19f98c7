/** `bellwether task …` with real processes on a real root, killed and interrupted at critical moments. */
import { existsSync } from 'node:fs'
import { appendFile, mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { printError } from '../../src/cli/shared/output.js'
import { loadTask } from '../../src/cli/work/task/task.js'
import { systemDisk } from '../../src/ports/disk/disk.js'
import { systemMachine } from '../../src/ports/disk/machine.js'
import { openProject, trustFolderOf } from '../../src/runtime/control/trust.js'
import { findSandbox } from '../../src/ports/processes/sandbox/available.js'
import { runCli, type Cli } from '../support/process.js'
import { until } from '../support/until.js'
import { tempFolder } from '../support/disk/temp-folder.js'

let root = ''
beforeEach(async () => {
  root = tempFolder('task')
})

function start(...words: string[]): Cli {
  const cli = runCli(['task', ...words], { cwd: root })
  onTestFinished(async () => {
    cli.signal('SIGKILL')
    await cli.ended
  })
  return cli
}

/** Runs one command in this process: its output and exit code. Starting a process for each would take minutes. */
async function task(...words: string[]) {
  let [code, out, err]: [number, string, string] = [0, '', '']
  const outSpy = vi.spyOn(process.stdout, 'write').mockImplementation((text) => ((out += String(text)), true))
  const errSpy = vi.spyOn(process.stderr, 'write').mockImplementation((text) => ((err += String(text)), true))
  try {
    await (
      await loadTask(words[0])
    )((exitCode) => (code = exitCode)).parseAsync([...words, '--root', root], { from: 'user' })
  } catch (error) {
    code = printError(error)
  } finally {
    outSpy.mockRestore()
    errSpy.mockRestore()
  }
  return { code, out, err }
}

/** Runs one command as a process. */
async function program(...words: string[]) {
  const cli = start(...words)
  const code = await cli.ended
  return { code, out: cli.stdout(), err: cli.stderr() }
}

async function json(...words: string[]): Promise<Record<string, unknown>> {
  const { code, out, err } = await task(...words, '--json')
  if (out === '') throw new Error(`${words.join(' ')} exited with ${String(code)}: ${err}`)
  return JSON.parse(out) as Record<string, unknown>
}

const exists = (...path: string[]) =>
  until(path.join('/'), async () => ((await systemDisk.stat(join(root, ...path))) === 'missing' ? undefined : true))
// Starting from source on a busy machine takes long; the tested part comes after the start.
const slowStartMs = 45_000
const theRun = () =>
  until(
    'a run began',
    async () => {
      const [key] = await readdir(join(root, 'state', 'runs')).catch(() => [] as string[])
      const pid =
        key === undefined ? '' : await readFile(join(root, 'state', 'runs', key, 'pid'), 'utf8').catch(() => '')
      return key === undefined || pid === '' ? undefined : { key, pid: Number(pid) }
    },
    slowStartMs,
  )
const writer = `cat > /dev/null; echo made > out.txt; echo '{"summary":"s","files":["out.txt"],"tokenUsage":5}'`

describe('bellwether task', () => {
  it('[H6.3] [H7.4] [H8.3] task add, list, dispatch and show work as text and as JSON', async () => {
    expect(await task('add', 'Make out.txt', '--verify', 'test -s out.txt', '--priority', '3')).toMatchObject({
      code: 0,
      out: 'added T-1\n',
    })
    expect(await json('add', 'Then this', '--after', 'T-1')).toEqual({ taskId: 'T-2', status: 'pending' })
    const list = (await task('list')).out.split('\n')
    expect(list[0]).toMatch(/^TASK +STATUS +PRIO +WHO +TITLE +WAITS FOR$/)
    expect(list[1]).toMatch(/^T-1 +pending +3 +– +Make out\.txt +ready$/)
    expect(list[2]).toContain('it depends on T-1, which is pending')
    expect(await json('dispatch', '--command', writer)).toMatchObject({
      reports: [
        {
          taskId: 'T-1',
          status: 'done',
          spawn: { agent: 'coder', outcome: 'success', metrics: { tokenUsage: 5, elapsedMs: expect.any(Number) } },
          knowledge: { degraded: false, degradeReason: null, knowledgeTags: [], backfill: null },
          choice: { taskId: 'T-1' },
        },
      ],
    })
    const failed = await task('dispatch', 'T-2', '--command', 'echo no >&2; exit 9')
    expect(failed).toMatchObject({ code: 1, out: expect.stringContaining('next: debugger (retry), not before') })
    expect(await json('show', 'T-2')).toMatchObject({
      status: 'blocked',
      fields: { spawn: { reasonCode: 'spawn_failed', attempt: 1 } },
    })
    const report = (await task('synthesize')).out
    expect(report).toContain('| T-1 | Make out.txt |')
    expect(report).toContain('Next: none')
    const events = (await task('watch', '--once', '--jsonl')).out.trim().split('\n')
    expect(events.map((line) => (JSON.parse(line) as { cursor: number }).cursor)).toEqual(events.map((_, at) => at + 1))
  })

  it.runIf(findSandbox(undefined).kind !== undefined)(
    'done and dispatch run verify commands in the sandbox, which shows nothing outside the task root',
    async () => {
      const outside = tempFolder('outside')
      await json('add', 'One', '--verify', `test ! -e ${outside} && test -d ${root}/state`)
      await json('add', 'Two', '--verify', `test ! -e ${outside}`)
      expect(await task('done', 'T-1')).toMatchObject({ code: 0, out: 'T-1 is done\n' })
      expect(await task('dispatch', 'T-2', '--command', `test -e ${outside} && echo done`)).toMatchObject({ code: 0 })
    },
  )

  it('done runs no check without a sandbox, and none that reads variables, before a person trusts the files of the folder', async () => {
    const state = `${root}-state`
    vi.stubEnv('XDG_STATE_HOME', state)
    vi.stubEnv('DEPLOY_KEY', 'secret')
    onTestFinished(() => void vi.unstubAllEnvs())
    onTestFinished(() => rm(state, { recursive: true, force: true }))
    await mkdir(join(root, 'config'))
    const policy = (text: object) => writeFile(join(root, 'config/acceptance-policy.json'), JSON.stringify(text))
    const done = () => task('done', 'T-1')
    const planted = join(root, 'planted')
    await task('add', 'One')
    await policy({ default: { commands: [{ command: `echo x >> ${planted}`, sandbox: 'none' }] } })
    expect(await done()).toMatchObject({
      code: 2,
      err: expect.stringContaining('are not trusted, and the check has no sandbox'),
    })
    await policy({ default: { commands: [{ command: 'true' }] }, environment: ['DEPLOY_KEY'] })
    expect(await done()).toMatchObject({
      code: 2,
      err: expect.stringContaining('are not trusted, and the check reads DEPLOY_KEY'),
    })
    expect(existsSync(planted)).toBe(false)
    await policy({
      default: { commands: [{ command: `echo "$DEPLOY_KEY" >> ${planted}`, sandbox: 'none' }] },
      environment: ['DEPLOY_KEY'],
    })
    openProject({ folder: root, root: '.' }, trustFolderOf(root)).trust()
    expect(await done()).toMatchObject({ code: 0 })
    expect(await readFile(planted, 'utf8')).toBe('secret\n')
  })

  it('task edit changes fields of a task, and task show names its creator and its events', async () => {
    await json('add', 'One', '--as', 'ann', '--verify', 'false', '--approval')
    await json('add', 'Two', '--after', 'T-1')
    expect(await task('edit', 'T-2', '--title', 'Two!', '--priority', '7', '--no-after', '--as', 'bob')).toMatchObject({
      code: 0,
      out: 'T-2: changed title, priority, dependencies\n',
    })
    expect(await json('edit', 'T-1', '--no-verify', '--no-approval', '--instruction', 'do it')).toEqual({
      taskId: 'T-1',
      changed: ['instruction', 'verify', 'requiresApproval'],
    })
    expect(await json('show', 'T-1')).toMatchObject({
      fields: { verify: [], requiresApproval: false, instruction: 'do it' },
      waitsFor: null,
      history: { createdBy: 'ann', left: 0, events: [{ type: 'task_created' }, { type: 'task_noted' }] },
    })
    const shown = (await task('show', 'T-2', '--events', '1')).out
    expect(shown).toMatch(/priority +7, impact 0\n +depends on +–\n/)
    expect(shown).toMatch(/\d\d:\d\d:\d\d +bob +task_noted +Two!\n… and 1 older events \(--events\)\n$/)
    expect(await task('edit', 'T-1')).toMatchObject({
      code: 2,
      err: expect.stringContaining('Nothing to change in T-1'),
    })
    expect(await task('edit', 'T-1', '--after', 'T-1')).toMatchObject({
      code: 2,
      err: expect.stringContaining('cannot depend on itself'),
    })
  })

  it('task reject ends a task that waits for approval, and a retry needs approval again', async () => {
    await json('add', 'Danger', '--approval')
    expect(await json('reject', 'T-1', '--as', 'ann', '--reason', 'too risky')).toEqual({
      taskId: 'T-1',
      status: 'failed',
      reason: 'rejected by ann: too risky',
    })
    expect(await task('reject', 'T-1')).toMatchObject({ code: 2, err: expect.stringContaining('has already failed') })
    await json('retry', 'T-1')
    expect(await json('show', 'T-1')).toMatchObject({ status: 'blocked', waitsFor: 'it needs approval' })
    await json('approve', 'T-1')
    expect(await task('reject', 'T-1')).toMatchObject({ code: 2, err: expect.stringContaining('it is approved') })
    expect(await json('show', 'T-1')).toMatchObject({ waitsFor: null })
  })

  it('[H7.6] task show prints what all agents of the task have spent of its limits, in dollars and tokens by kind', async () => {
    await json('add', 'Spend')
    expect((await task('show', 'T-1')).out).toMatch(/spent +not reported\n +tokens +–\n/)
    const entry = { taskId: 'T-1', elapsedMs: 60_000, retryCount: 1, inputTokens: 9_000, outputTokens: 900 }
    const kinds = { cacheWriteTokens: 100, cacheReadTokens: 150_000, tokenUsage: 10_000, costMicros: 1_231_000 }
    const budget = {
      coder: { ...entry, ...kinds, agent: 'coder' },
      tester: { ...entry, ...kinds, agent: 'tester', costMicros: 4_000 },
    }
    const log = join(root, 'state', 'tasks.jsonl')
    const added = JSON.parse((await readFile(log, 'utf8')).trim()) as object
    const noted = { ...added, eventId: 'usage-1', type: 'task_noted', messageType: '[NOTE]', payload: { budget } }
    await appendFile(log, `${JSON.stringify(noted)}\n`)
    const { out } = await task('show', 'T-1')
    expect(out).toMatch(/spent +\$1\.24 of \$20\.00\n/)
    expect(out).toMatch(/tokens +20,000 fresh \(18,000 input, 1,800 output, 200 cache write\); 300,000 cache read\n/)
    expect(await json('show', 'T-1')).toMatchObject({
      budget: { costMicros: 1_235_000, cacheReadTokens: 300_000, elapsedMs: 120_000, limits: { maxTaskCostUsd: 20 } },
    })
  })

  it('a mistake is answered with a hint and exit code 2', async () => {
    await json('add', 'One')
    const typed: [string[], string][] = [
      [['lsit'], 'Did you mean: bellwether task list?'],
      [['list', '--statsu', 'done'], 'Did you mean --status?'],
    ]
    const meant: [string[], string][] = [
      [['show', 'T-9'], 'Task "T-9" does not exist.'],
      [['add', 'x', '--priority', '9e99'], 'priority: Too big'],
      [['add', 'x', '--after', 'T-9'], 'The dependency "T-9" does not exist.'],
      [['add', 'x', '--file', 'nope.md'], 'Cannot read the instruction from nope.md'],
      [['dispatch', 'T-1'], "Cannot dispatch without --command 'CMD'"],
      [['approve', 'T-1'], 'Task "T-1" does not need approval.'],
      [['done', 'T-1', '--file', 'none.txt'], 'none.txt is claimed but does not exist'],
    ]
    for (const [words, wanted] of meant)
      expect(await task(...words), words.join(' ')).toEqual({ code: 2, out: '', err: expect.stringContaining(wanted) })
    const results = await Promise.all(typed.map(([words]) => program(...words)))
    for (const [position, [words, wanted]] of typed.entries())
      expect(results[position], words.join(' ')).toEqual({ code: 2, out: '', err: expect.stringContaining(wanted) })
    await mkdir(join(root, 'config'))
    await writeFile(join(root, 'config', 'budget-policy.json'), '{"globall":{}}')
    expect(await task('dispatch', 'T-1', '--command', 'true')).toMatchObject({
      code: 2,
      err: expect.stringContaining('globall'),
    })
    const invalid =
      'no task is dispatched: Invalid policy files, 1 problem: config/budget-policy.json: unknown key globall'
    expect(await task('list')).toMatchObject({ code: 0, out: expect.stringMatching(`T-1 .*${invalid}`) })
    await rm(join(root, 'config'), { recursive: true })
    await rm(join(root, 'state'), { recursive: true })
    expect((await task('list')).err).toContain('There are no tasks in')
    expect(await readdir(root)).toEqual([])
    await rm(root, { recursive: true })
    for (const words of [['list'], ['show', 'T-1'], ['edit', 'T-1', '--title', 'x']])
      expect(await task(...words)).toEqual({
        code: 2,
        out: '',
        err: expect.stringContaining(`The task root ${root} does not exist.`),
      })
  })

  it('a killed dispatcher loses nothing: its command continues, and the next dispatcher takes the result', async () => {
    await json('add', 'Make out.txt')
    const waits = `while [ ! -e go ]; do sleep 0.05; done; echo x >> runs; ${writer}`
    const first = start('dispatch', 'T-1', '--command', waits)
    const { key } = await theRun()
    // Not while it holds the lock, which would stay until it expires.
    await until('the dispatcher only waits', async () => {
      const noted = (await readFile(join(root, 'state', 'tasks.jsonl'), 'utf8')).includes('"agentTurnId"')
      const locked = (await readdir(join(root, 'state', 'locks'))).some((name) => !name.endsWith('.free'))
      return noted && !locked ? true : undefined
    })
    first.signal('SIGKILL')
    await first.ended
    expect(await json('show', 'T-1')).toMatchObject({ status: 'in_progress' })
    await writeFile(join(root, 'go'), '')
    await exists('state', 'runs', key, 'code')
    expect(await json('dispatch', '--command', 'echo x >> runs')).toMatchObject({ reports: [] })
    expect(await json('show', 'T-1')).toMatchObject({
      status: 'done',
      runs: [{ runId: key, outcome: 'success', tokenUsage: 5 }],
    })
    expect(await readFile(join(root, 'runs'), 'utf8')).toBe('x\n')
  })

  it('Ctrl-C ends the command with all of its processes, and the run is closed', async () => {
    await json('add', 'Sleep')
    const cli = start('dispatch', 'T-1', '--command', 'sleep 300 & sleep 300', '--json')
    const { pid } = await theRun()
    cli.signal('SIGINT')
    expect(await cli.ended).toBe(1)
    expect(JSON.parse(cli.stdout())).toMatchObject({
      status: 'blocked',
      spawn: { outcome: 'canceled', error: 'interrupted' },
    })
    expect(systemMachine.process(pid).alive).toBe(false)
  })

  it('an abort from another terminal stops the command', async () => {
    await json('add', 'Sleep')
    await writeFile(join(root, 'bellwether.toml'), '[board]\nautopilot_interval_seconds = 0.2\n')
    const cli = start('dispatch', 'T-1', '--command', 'sleep 300', '--json')
    await theRun()
    expect(await task('abort', 'T-1', '--as', 'ann', '--reason', 'wrong')).toMatchObject({ code: 0 })
    expect(await cli.ended).toBe(1)
    expect(JSON.parse(cli.stdout())).toMatchObject({ status: 'failed', reason: 'aborted by ann: wrong' })
  })

  it('two dispatchers on one root run every task once', async () => {
    for (const name of ['a', 'b', 'c', 'd']) await json('add', name)
    const agent = `cat > /dev/null; echo x >> runs; echo done > "$$.txt"; printf '{"files":["%s.txt"]}' "$$"`
    const both = await Promise.all([1, 2].map(() => program('dispatch', '--max', '4', '--command', agent, '--json')))
    const done = both.flatMap(
      ({ out }) => (JSON.parse(out) as { reports: { taskId: string; status: string }[] }).reports,
    )
    expect(done.map(({ taskId, status }) => `${taskId} ${status}`).sort()).toEqual([
      'T-1 done',
      'T-2 done',
      'T-3 done',
      'T-4 done',
    ])
    expect(await readFile(join(root, 'runs'), 'utf8')).toBe('x\nx\nx\nx\n')
  })
})

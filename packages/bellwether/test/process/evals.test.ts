/** The example suite with a real `up`: side by side, a run that outlives kill -9 of client and server, and commands of files only. */
import { cpSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import type { EvalRun } from '@bellwether/protocol/http'
import { ask, testProject } from '../support/folder.js'
import { runCli } from '../support/process.js'
import { until } from '../support/until.js'

const example = fileURLToPath(new URL('../../../../examples/evaluate', import.meta.url))

it('runs the example suite, and continues a run after kill -9 of the client and of up', async () => {
  const { folder, up, run } = await testProject()
  cpSync(example, folder, { recursive: true })
  const slow =
    '[[variants]]\nagent = "slow"\n[[checks]]\ncontains = "30 days"\n[[cases]]\nname = "one"\ninstruction = "x"\n[[cases]]\nname = "two"\ninstruction = "y"\n'
  const command = 'cat; while ! [ -e go ]; do sleep 0.1; done'
  writeFileSync(join(folder, 'evals', 'slow.toml'), slow)
  writeFileSync(
    join(folder, 'agents', 'slow.md'),
    `---\nexecutor: command\ncommand: [/bin/sh, -c, "${command}"]\nsandbox: none\n---\n30 days\n`,
  )
  const first = await up()
  const report = await run('eval', 'run', 'support')
  const found = report.answer as never as EvalRun
  expect([report.code, report.stderr]).toEqual([1, ''])
  expect(found).toMatchObject({
    status: 'done',
    results: 4,
    variants: [
      { variant: 'support', passed: 1, failed: 1 },
      { variant: 'terse', passed: 2, failed: 0 },
    ],
    differing: ['short answer'],
    failing: [
      {
        case: 'short answer',
        variant: 'support',
        reason: 'contains one sentence: the output does not contain "one sentence"',
      },
    ],
  })
  // Compared with the run of both variants, nothing became worse.
  const terse = await run('eval', 'run', 'support', '--variant', 'terse', '--max-cost', '0.50', '--against', 'last')
  expect([terse.code, (terse.answer as never as EvalRun).comparison]).toMatchObject([
    0,
    { against: found.run_id, compared: 2, regressions: [] },
  ])
  const terseId = (terse.answer as never as EvalRun).run_id
  const shown = await run('eval', 'show', terseId, '--against', found.run_id)
  expect(shown.answer).toMatchObject({ run_id: terseId, comparison: { against: found.run_id } })
  const listed = (await run('eval', 'list', 'support')).answer['runs'] as { run_id: string }[]
  expect(listed.map((one) => one.run_id)).toEqual([terseId, found.run_id])
  expect(await run('eval', 'stop', terseId)).toMatchObject({ code: 1, stderr: expect.stringContaining('eval_ended') })

  const client = runCli(['eval', 'run', 'slow', '--json'], { cwd: folder })
  const started = async (facts: typeof first.facts) => {
    const { body } = await ask(facts, '/api/v1/projects/default/eval-runs?suite=slow')
    const [line] = body['runs'] as { run_id: string; done: number }[]
    return line
  }
  const runId = await until('a turn of the run works', async () => {
    const line = await started(first.facts)
    const { body } =
      line === undefined
        ? { body: {} as Record<string, unknown> }
        : await ask(first.facts, `/api/v1/projects/default/turns?status=running`)
    return ((body['turns'] as object[] | undefined) ?? []).length > 0 ? line!.run_id : undefined
  })
  client.signal('SIGKILL')
  first.cli.signal('SIGKILL')
  await Promise.all([client.ended, first.cli.ended])
  const second = await up()
  writeFileSync(join(folder, 'go'), '')
  const again = await run('eval', 'run', 'slow')
  expect([again.code, again.answer]).toMatchObject([0, { run_id: runId, status: 'done', results: 2, passed: 2 }])
  const { body } = await ask(second.facts, '/api/v1/projects/default/turns?limit=500')
  const turns = (body['turns'] as { agent_id: string }[]).filter((one) => one.agent_id.startsWith('slow'))
  expect(turns).toHaveLength(2)
})

/** Runs `bellwether up` as a real process: turns, the view, a killed worker, and a restart after kill -9. */
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { adminKeyOf, ask, testProject } from '../support/folder.js'
import { until } from '../support/until.js'

it('runs a turn, shows the folder, restarts a killed worker, and recovers after kill -9', async () => {
  const { up, run } = await testProject()
  const first = await up([], { env: { SECRET_OF_THE_OWNER: 'hush' } })
  expect(first.facts).toMatchObject({ ready: true, role: 'up' })
  const turn = await run('turn', 'run', 'greeter', 'Good morning')
  expect(turn).toMatchObject({ code: 0, answer: { outcome: 'success' } })

  // The sensor of `up` feeds the view.
  await until('the view shows the agents', async () => {
    const { status, body } = await ask(first.facts, '/api/v1/views/project/tree?path=/agents&recursive=true')
    return status === 200 && JSON.stringify(body).includes('greeter.md') ? true : undefined
  })
  // The data folder is excluded from the view.
  const { body: tree } = await ask(first.facts, '/api/v1/views/project/tree?path=/&recursive=true')
  expect(JSON.stringify(tree)).not.toContain('.bellwether')

  const workers = async (facts: Readonly<Record<string, unknown>>) => {
    const { body } = await ask(facts, '/api/v1/projects/default/workers')
    return (body['workers'] as { worker_id: string }[]).map((worker) => Number(worker.worker_id.split('-').at(-2)))
  }
  const [pid] = await workers(first.facts)
  // The worker has the secrets in its memory only.
  expect(startEnvironment(pid!)).not.toMatch(/hush|postgres/)
  process.kill(pid!, 'SIGKILL')
  await until('another worker runs', async () =>
    (await workers(first.facts)).some((one) => one !== pid) ? true : undefined,
  )
  expect(await run('turn', 'run', 'greeter', 'Still there?')).toMatchObject({ code: 0, answer: { outcome: 'success' } })

  // The children exit with the pipe, the database keeps running, and the next start takes it over.
  first.cli.signal('SIGKILL')
  await first.cli.ended
  const second = await up()
  expect([second.facts['adminKey'], adminKeyOf(second.facts)]).toEqual([undefined, first.facts['adminKey']])
  const { body } = await ask(second.facts, '/api/v1/projects/default/turns')
  expect((body['turns'] as { outcome: string }[]).map((one) => one.outcome)).toEqual(['success', 'success'])
  expect(await run('turn', 'run', 'greeter', 'And now?')).toMatchObject({ code: 0 })
  second.cli.signal('SIGTERM')
  expect(await second.cli.ended).toBe(0)
})

/** What other processes can read; empty if the system hides it from this account. */
function startEnvironment(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EACCES') return ''
    throw error
  }
}

it('explains how to start a server if none runs', async () => {
  const { run } = await testProject()
  const { code, stderr } = await run('turn', 'list')
  expect(code).toBe(2)
  expect(stderr).toContain('bellwether up')
})

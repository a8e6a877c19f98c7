/** Everything on one machine, as one command: it works, its workers come back, and after kill -9 the next start goes on. */
import { expect, it } from 'vitest'
import { ask, testProject } from '../support/folder.js'
import { until } from '../support/until.js'

it(
  'runs a turn, shows the folder, brings a killed worker back, and is taken over after kill -9',
  { timeout: 180_000 },
  async () => {
    const { up, run } = await testProject()
    const first = await up()
    expect(first.facts).toMatchObject({ ready: true, role: 'up' })
    const turn = await run('turn', 'run', 'greeter', 'Good morning')
    expect(turn).toMatchObject({ code: 0, answer: { outcome: 'success' } })

    // The sensor of the house has told the view what is in the folder.
    await until('the view knows the agents', async () => {
      const { status, body } = await ask(first.facts, '/api/v1/views/project/tree?path=/agents&recursive=true')
      return status === 200 && JSON.stringify(body).includes('greeter.md') ? true : undefined
    })
    // What the house keeps for itself is no part of the project.
    const { body: whole } = await ask(first.facts, '/api/v1/views/project/tree?path=/&recursive=true')
    expect(JSON.stringify(whole)).not.toContain('.bellwether')

    const workers = async (facts: Readonly<Record<string, unknown>>) => {
      const { body } = await ask(facts, '/api/v1/projects/default/workers')
      return (body['workers'] as { worker_id: string }[]).map((worker) => Number(worker.worker_id.split('-').at(-2)))
    }
    const [pid] = await workers(first.facts)
    process.kill(pid!, 'SIGKILL')
    await until('another worker is there', async () =>
      (await workers(first.facts)).some((one) => one !== pid) ? true : undefined,
    )
    expect(await run('turn', 'run', 'greeter', 'Still there?')).toMatchObject({
      code: 0,
      answer: { outcome: 'success' },
    })

    // No farewell: the children go with the pipe, the database stays, and the next start finds everything.
    first.cli.signal('SIGKILL')
    await first.cli.ended
    const second = await up()
    expect(second.facts['adminKey']).toBe(first.facts['adminKey'])
    const { body } = await ask(second.facts, '/api/v1/projects/default/turns')
    expect((body['turns'] as { outcome: string }[]).map((one) => one.outcome)).toEqual(['success', 'success'])
    expect(await run('turn', 'run', 'greeter', 'And now?')).toMatchObject({ code: 0 })
    second.cli.signal('SIGTERM')
    expect(await second.cli.ended).toBe(0)
  },
)

it('says what to do where no server is known', async () => {
  const { run } = await testProject()
  const { code, stderr } = await run('turn', 'list')
  expect(code).toBe(2)
  expect(stderr).toContain('bellwether up')
})

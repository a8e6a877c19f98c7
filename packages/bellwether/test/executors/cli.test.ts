import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { freshDatabase, testFolder } from '../support/postgres.js'
import { runCli } from '../support/process.js'
import { until } from '../support/until.js'
import { carriers } from './command-setup.js'
import { openWorkerProcesses } from './worker-processes.js'

const agent = (command: string) => `---\ncommand: ${command}\n---\n`

it.concurrent('a worker without valid agents prints what it needs, and every invalid file with its line', async ({
  onTestFinished,
}) => {
  const cwd = await testFolder()
  onTestFinished(() => rm(cwd, { recursive: true, force: true }))
  const database = await freshDatabase()
  onTestFinished(() => database.drop())
  const env = { BELLWETHER__DATABASE__URL: database.url }
  const run = async () => {
    const cli = runCli(['worker', '--target', 'default'], { cwd, env })
    return { code: await cli.ended, stderr: cli.stderr() }
  }
  expect(await run()).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('bellwether worker needs --agents FILE, or a folder agents/'),
  })
  await mkdir(join(cwd, 'agents'))
  await writeFile(join(cwd, 'agents', 'ann.md'), '---\ncomand: ls\n---\n')
  await writeFile(join(cwd, 'agents', 'bob.md'), 'hello')
  const { code, stderr } = await run()
  expect(code).toBe(2)
  expect(stderr).toContain(
    'agents/ann.md:2: unknown key "comand". Did you mean "command"?\nagents/bob.md:1: an agent file must start',
  )
})

it.concurrent('a running worker reloads changed agent files, and finishes its commands on SIGTERM', async ({
  onTestFinished,
}) => {
  const processes = await openWorkerProcesses({ ann: agent('echo one') })
  onTestFinished(() => processes.stop())
  const worker = await processes.add('worker')
  expect(await processes.ended(await processes.begin('ann'))).toMatchObject({ outcome: 'success', text: 'one' })

  await processes.write('agents/ann.md', agent('echo two-two'))
  await until(
    'the worker has reloaded the agent file',
    async () => worker.stderr().includes('agent file reloaded') || undefined,
  )
  expect(await processes.ended(await processes.begin('ann'))).toMatchObject({ outcome: 'success', text: 'two-two' })

  await processes.write('agents/slow.md', agent('until [ -e enough ]; do sleep 0.05; done; echo finished'))
  await until(
    'a new agent is there',
    async () => worker.stderr().match(/added to the roster/g)?.length === 3 || undefined,
  )
  const turn = await processes.begin('slow')
  await until('its process runs', async () => carriers(turn).length > 0 || undefined)
  worker.signal('SIGTERM')
  await until('it drains', async () => worker.stderr().includes('"msg":"shutting down') || undefined)
  await processes.write('enough', '')
  expect(await worker.ended).toBe(0)
  expect(await processes.ended(turn)).toMatchObject({ outcome: 'success', text: 'finished', task_events: 1 })
})

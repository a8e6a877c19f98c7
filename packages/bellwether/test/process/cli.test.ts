import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock, systemRandom } from '@bellwether/base'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { openKernel } from '../../src/kernel/kernel.js'
import { notifyBell } from '../../src/ports/bell/notify.js'
import { uuidv7 } from '../../src/ports/ids.js'
import { startOwnPostgres } from '../support/processes/own-postgres.js'
import { freshDatabase, testFolder, type FreshDatabase } from '../support/postgres.js'
import { runCli, type Cli, type CliOptions } from '../support/process.js'
import { quietLog } from '../support/quiet-log.js'
import { until } from '../support/until.js'

let database: FreshDatabase
let cwd: string
beforeAll(async () => {
  database = await freshDatabase()
  cwd = await testFolder()
  await writeFile(join(cwd, 'agents.mjs'), 'export default { "*": async () => ({ deliver: { text: "done" } }) }\n')
  await writeFile(join(cwd, 'wrong.mjs'), 'export default { ann: 5 }\n')
})
afterAll(async () => {
  await database.drop()
  await rm(cwd, { recursive: true, force: true })
})

/** Runs a child process that ends with its test at the latest. */
function run(args: readonly string[], options: Partial<CliOptions> = {}): Cli {
  const cli = runCli(args, { cwd, ...options })
  onTestFinished(async () => {
    cli.signal('SIGKILL')
    await cli.ended
  })
  return cli
}
const databaseEnv = (url: string) => ({ BELLWETHER__DATABASE__URL: url })

it('rejects a wrong command line with a suggestion and exit code 2', async () => {
  const cases: [string[], string][] = [
    [['wroker'], 'Did you mean: bellwether worker?'],
    [['pmo', '--jsn'], 'Did you mean --json?'],
    [['worker', '--targett', 'w'], 'Did you mean --target?'],
    [['worker', '--agents', 'agents.mjs'], 'bellwether worker needs --target NAME'],
    [['worker', '--target', 'w', '--agents', 'nope.mjs'], 'nope.mjs does not exist'],
    [['worker', '--target', 'w', '--agents', 'wrong.mjs'], 'Agent "ann" in '],
    [['worker', '--target', 'w', '--agents', 'agents.mjs', '--concurrency', '0'], 'whole number from 1'],
    [['pmo'], 'No database is configured'],
  ]
  const results = await Promise.all(
    cases.map(async ([args]) => {
      const cli = run(args)
      return { code: await cli.ended, stderr: cli.stderr(), stdout: cli.stdout() }
    }),
  )
  for (const [index, [, message]] of cases.entries())
    expect(results[index]).toEqual({ code: 2, stderr: expect.stringContaining(message), stdout: '' })
})

it('prints one ready line and exits when its parent’s pipe closes', async () => {
  const env = databaseEnv(database.url)
  const worker = run(
    ['worker', '--target', 'w', '--agents', 'agents.mjs', '--concurrency', '3', '--json', '--parent-pipe'],
    { env },
  )
  // Three processes start at once on an empty database; one of them migrates it.
  const pmos = [1, 2].map(() => run(['pmo', '--json', '--parent-pipe'], { env }))
  expect(await worker.ready()).toMatchObject({
    ready: true,
    role: 'worker',
    target: 'w',
    concurrency: 3,
    pid: worker.pid,
    bell: 'notify',
  })
  for (const pmo of pmos) expect(await pmo.ready()).toMatchObject({ ready: true, role: 'pmo', pid: pmo.pid })
  const processes = [worker, ...pmos]
  expect(processes.map((one) => one.stdout().trim().split('\n').length)).toEqual([1, 1, 1])
  for (const one of processes) one.child.stdin?.end()
  expect(await Promise.all(processes.map((one) => one.ended))).toEqual([0, 0, 0])
  const lines = worker
    .stderr()
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { msg: string })
  // A process that shares the bell with one that ended first also reports the lost connection.
  expect(lines.map(({ msg }) => msg)).toContain('parent process is gone; shutting down')
})

it('waits for a database that is unavailable at the start, and logs it', async () => {
  const postgres = await startOwnPostgres()
  onTestFinished(() => postgres.stop())
  await postgres.kill()
  const pmo = run(['pmo', '--json'], { env: databaseEnv(postgres.url) })
  await until('log line', async () => pmo.stderr().includes('database is unavailable; retrying') || undefined)
  expect(pmo.stdout()).toBe('')
  await postgres.restart()
  expect(await pmo.ready()).toMatchObject({ ready: true })
  pmo.signal('SIGTERM')
  expect(await pmo.ended).toBe(0)
})

it('drains on the first signal and exits at once on the second', async () => {
  await writeFile(
    join(cwd, 'hung.mjs'),
    'export default { "*": () => new Promise(() => setInterval(() => {}, 1000)) }\n',
  )
  const worker = run(['worker', '--target', 'h', '--agents', 'hung.mjs', '--concurrency', '1', '--json'], {
    env: databaseEnv(database.url),
  })
  await worker.ready()
  const bell = notifyBell({ url: database.url, log: quietLog })
  onTestFinished(() => bell.close())
  const kernel = openKernel({ db: database.db, bell, ids: uuidv7(systemClock, systemRandom) })
  await kernel.putAgents([{ projectId: 'p', agentId: 'hung', workerTarget: 'h' }])
  const { agentTurnId } = await kernel.enqueue({ projectId: 'p', agentId: 'hung', instruction: 'hang' })
  await until('the turn runs', async () => {
    const text = 'select 1 from state.turns where agent_turn_id = $1 and claimed_by is not null'
    return (await database.db.query({ text, values: [agentTurnId] }))[0]
  })
  worker.signal('SIGTERM')
  await until('it drains', async () => worker.stderr().includes('shutting down') || undefined)
  expect(worker.alive()).toBe(true)
  worker.signal('SIGTERM')
  expect(await worker.ended).toBe(143)
})

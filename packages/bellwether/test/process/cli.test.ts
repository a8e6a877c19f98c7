import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock, systemRandom } from '@bellwether/base'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { openKernel } from '../../src/kernel/kernel.js'
import { notifyBell } from '../../src/ports/bell/notify.js'
import { uuidv7 } from '../../src/ports/ids.js'
import { startOwnPostgres } from '../support/own-postgres.js'
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

/** A child that does not outlive its test. */
function run(words: readonly string[], options: Partial<CliOptions> = {}): Cli {
  const cli = runCli(words, { cwd, ...options })
  onTestFinished(async () => {
    cli.signal('SIGKILL')
    await cli.ended
  })
  return cli
}
const at = (url: string) => ({ BELLWETHER__DATABASE__URL: url })

describe('the command line', () => {
  it('answers a mistake with what was probably meant, and exit code 2', async () => {
    const cases: [string[], string][] = [
      [['wroker'], 'Did you mean: bellwether worker?'],
      [['pmo', '--jsn'], 'Did you mean --json?'],
      [['worker', '--targett', 'w'], 'Did you mean --target?'],
      [['worker', '--agents', 'agents.mjs'], 'a worker needs --target NAME'],
      [['worker', '--target', 'w', '--agents', 'nope.mjs'], 'there is no agents file'],
      [['worker', '--target', 'w', '--agents', 'wrong.mjs'], 'agent "ann" is not a function'],
      [['worker', '--target', 'w', '--agents', 'agents.mjs', '--concurrency', '0'], 'whole number from 1'],
      [['pmo'], 'no database is named'],
    ]
    const told = await Promise.all(
      cases.map(async ([words]) => {
        const cli = run(words)
        return { code: await cli.ended, said: cli.stderr(), out: cli.stdout() }
      }),
    )
    for (const [position, [, wanted]] of cases.entries()) {
      expect(told[position]).toEqual({ code: 2, said: expect.stringContaining(wanted), out: '' })
    }
  })

  it('prints one ready line, and goes when the pipe of its parent closes', async () => {
    const env = at(database.url)
    const worker = run(
      ['worker', '--target', 'w', '--agents', 'agents.mjs', '--concurrency', '3', '--json', '--parent-pipe'],
      { env },
    )
    // Three processes at once on an empty database: it is migrated once.
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
    const everyone = [worker, ...pmos]
    expect(everyone.map((one) => one.stdout().trim().split('\n').length)).toEqual([1, 1, 1])
    for (const one of everyone) one.child.stdin?.end()
    expect(await Promise.all(everyone.map((one) => one.ended))).toEqual([0, 0, 0])
    const lines = worker
      .stderr()
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { msg: string })
    expect(lines.at(-1)?.msg).toBe('the parent is gone; stopping')
  })

  it('waits for a database that is away at the start, and says so', async () => {
    const postgres = await startOwnPostgres()
    onTestFinished(() => postgres.stop())
    await postgres.kill()
    const pmo = run(['pmo', '--json'], { env: at(postgres.url) })
    await until(
      'it says that it waits',
      async () => pmo.stderr().includes('the database is away; trying again') || undefined,
    )
    expect(pmo.stdout()).toBe('')
    await postgres.restart()
    expect(await pmo.ready()).toMatchObject({ ready: true })
    pmo.signal('SIGTERM')
    expect(await pmo.ended).toBe(0)
  })

  it('drains on the first signal and leaves at once on the second', async () => {
    await writeFile(
      join(cwd, 'hung.mjs'),
      'export default { "*": () => new Promise(() => setInterval(() => {}, 1000)) }\n',
    )
    const worker = run(['worker', '--target', 'h', '--agents', 'hung.mjs', '--concurrency', '1', '--json'], {
      env: at(database.url),
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
    await until('it drains', async () => worker.stderr().includes('stopping') || undefined)
    expect(worker.alive()).toBe(true)
    worker.signal('SIGTERM')
    expect(await worker.ended).toBe(143)
  })
})

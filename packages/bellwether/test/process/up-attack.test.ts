/** Attacks `bellwether up`: a crash loop, a second start, a port in use, a shutdown during the start, and kill -9 during work. */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { adminKeyOf, ask, isAlive, testProject, type Facts } from '../support/folder.js'
import { canBeOrdinary, ordinaryUser } from '../../../../scripts/ordinary-user.js'
import { freshDatabase } from '../support/postgres.js'
import { until } from '../support/until.js'

const pidFile = (data: string) => {
  try {
    return Number(readFileSync(join(data, 'database', 'cluster', 'postmaster.pid'), 'utf8').split('\n')[0])
  } catch {
    return undefined // no server runs
  }
}

async function partOf(facts: Facts, name: string): Promise<Record<string, unknown>> {
  const { body } = await ask(facts, '/api/v1/health/components')
  const found = (body['components'] as Record<string, unknown>[]).find((one) => one['name'] === name)
  return found ?? {}
}

/** Processes whose command line contains this word. */
const running = (word: string) =>
  readdirSync('/proc').filter((pid) => {
    if (!/^\d+$/.test(pid)) return false
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(word)
    } catch {
      return false // the process has ended
    }
  })

it('quarantines a worker in a crash loop, reports it, and retries it when an agent file changes', async () => {
  const { up, upFile, data, folder } = await testProject()
  const { cli, facts } = await up()
  expect(statSync(join(data, 'up.json')).mode & 0o777).toBe(0o600)
  expect(upFile()).toMatchObject({ url: facts['url'], databaseUrl: facts['databaseUrl'], pid: cli.pid })
  expect(await partOf(facts, 'database')).toMatchObject({ kind: 'part', state: 'ok', pid: pidFile(data) })

  const worker = () => upFile().workers.find(({ name }) => name === 'worker default')
  let last: number | undefined
  const isBack = async () => {
    const pid = worker()?.pid ?? undefined
    return pid === last ? undefined : pid
  }
  for (let death = 1; death <= 6; death += 1) {
    last = await until(`start ${death}`, isBack)
    process.kill(last, 'SIGKILL')
  }
  await until('quarantine', async () =>
    (await partOf(facts, 'worker default'))['status'] === 'quarantined' ? 1 : undefined,
  )
  expect(await partOf(facts, 'worker default')).toMatchObject({
    state: 'failed',
    last_end: 'signal SIGKILL',
    restarts: 5,
  })
  expect(worker()).toMatchObject({ pid: null, status: 'quarantined' })
  expect(cli.stderr()).toContain('part quarantined after repeated failures')

  await writeFile(join(folder, 'agents', 'greeter.md'), '---\ncommand: [cat]\n---\nSay it again.\n')
  await until('the worker is back', isBack, 20_000)
  expect(await partOf(facts, 'worker default')).toMatchObject({ state: 'ok', restarts: 6 })
  cli.signal('SIGTERM')
  expect(await cli.ended).toBe(0)
  expect(readdirSync(data)).not.toContain('up.json')
  expect(isAlive(pidFile(data) ?? 0x3f_ff_ff)).toBe(false)
})

it('leaves no process after kill -9 during a command, recovers at the next start, and rejects a second start', async () => {
  const { up, start, upFile, folder } = await testProject()
  const mark = `hibernate-${process.pid}`
  await writeFile(
    join(folder, 'agents', 'sleeper.md'),
    `---\ncommand: [sh, -c, 'sleep 600; echo ${mark}']\n---\nSleep.\n`,
  )
  const first = await up()
  const { body } = await ask(first.facts, '/api/v1/projects/default/agents/sleeper/turns', {
    method: 'POST',
    body: { instruction: 'sleep' },
  })
  const turn = String(body['agent_turn_id'])
  const sleeping = () => running(mark).filter((pid) => Number(pid) !== process.pid)
  await until('the command runs', async () => (sleeping().length > 0 ? true : undefined))

  const second = start()
  expect(await second.ended).toBe(1)
  expect(second.stderr()).toContain(`already runs here: process ${first.cli.pid}, ${String(first.facts['url'])}`)
  expect(second.stderr()).toContain('[folder_in_use]')
  // With another folder and database: the parts that it opened do not keep it from exiting.
  const database = await freshDatabase()
  onTestFinished(() => database.drop())
  const other = await testProject()
  const port = new URL(String(first.facts['url'])).port
  const third = other.start(['--port', port], { env: { BELLWETHER__DATABASE__URL: database.url } })
  expect(await third.ended).toBe(2)
  expect(third.stderr()).toContain('[cannot_listen]')

  const pids = upFile().workers.map(({ pid }) => pid!)
  first.cli.signal('SIGKILL')
  await first.cli.ended
  await until('its worker and the command are gone', async () =>
    pids.some(isAlive) || sleeping().length > 0 ? undefined : true,
  )
  const again = await up()
  expect([again.facts['adminKey'], adminKeyOf(again.facts)]).toEqual([undefined, first.facts['adminKey']])
  const found = await ask(again.facts, `/api/v1/projects/default/turns/${turn}`)
  expect(found.body).toMatchObject({ agent_turn_id: turn, outcome: null })
  const stop = await ask(again.facts, `/api/v1/projects/default/turns/${turn}/stop`, { method: 'POST', body: {} })
  expect(stop.status).toBeLessThan(300)
  const outcome = await until('the turn ends', async () => {
    const { body: stopped } = await ask(again.facts, `/api/v1/projects/default/turns/${turn}?wait=20`)
    return stopped['outcome'] ?? undefined
  })
  expect(outcome).toBe('canceled')
  again.cli.signal('SIGTERM')
  expect(await again.cli.ended).toBe(0)
  expect(sleeping()).toEqual([])
})

it('exits cleanly on a shutdown at any point of its start, and starts again afterwards', async () => {
  const { start, data } = await testProject({ isEmpty: true })
  // While the database is created, before the runtime is open, and while the parts open.
  for (const line of ['creating the embedded database', 'embedded database ready', 'server is ready']) {
    const cli = start()
    await until(line, async () => (cli.stderr().includes(line) || !cli.alive() ? true : undefined), 30_000)
    cli.signal('SIGTERM')
    expect([line, await cli.ended]).toEqual([line, 0])
    expect(readdirSync(data)).not.toContain('up.json')
    expect(pidFile(data)).toBeUndefined()
    expect(cli.stderr()).not.toContain('adopted the PostgreSQL')
  }
})

it.runIf(canBeOrdinary)('explains that it cannot write to the data folder, and what to do', async () => {
  const { start, folder } = await testProject()
  const state = join(folder, 'state-home')
  await mkdir(state, { mode: 0o555 })
  const cli = start([], { ...ordinaryUser, env: { XDG_STATE_HOME: state } })
  expect(await cli.ended).toBe(2)
  expect(cli.stderr()).toMatch(/error: .*state-home.*\[cannot_write\]\n +.*--data/)
})

/** Function agents that block the event loop of their worker: a second worker stands by and must not take their turns. */
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { systemClock, systemRandom } from '@bellwether/base'
import { expect, it } from 'vitest'
import { openKernel } from '../../../src/kernel/kernel.js'
import { migrate } from '../../../src/kernel/schema/migrate.js'
import { inProcessBell } from '../../../src/ports/bell/in-process.js'
import { notifyBell } from '../../../src/ports/bell/notify.js'
import { uuidv7 } from '../../../src/ports/ids.js'
import { freshDatabase, testFolder } from '../../support/postgres.js'
import { runCli } from '../../support/process.js'
import { quietLog } from '../../support/quiet-log.js'
import { until } from '../../support/until.js'

const agents = fileURLToPath(new URL('./blocking-agents.mjs', import.meta.url))
const timeoutSeconds = 8

/** `command`: the text of an agent file, which becomes the agent `command`. */
async function openBlocked(blockMs: number, more: Readonly<Record<string, string>> = {}, command?: string) {
  const { url, db, drop } = await freshDatabase()
  await migrate(db)
  const folder = await testFolder()
  const starts = join(folder, 'starts')
  const bell = inProcessBell(notifyBell({ url, log: quietLog }), systemRandom)
  const kernel = openKernel({ db, bell, ids: uuidv7(systemClock, systemRandom) })
  await kernel.putAgents(
    ['blocking', 'neighbour', 'threaded'].map((agentId) => ({ projectId: 'p', agentId, workerTarget: 'w' })),
  )
  const env = {
    BELLWETHER__DATABASE__URL: url,
    BELLWETHER__WORKER__INBOX_PROCESSING_TIMEOUT_SECONDS: String(timeoutSeconds),
    BELLWETHER__WORKER__WATCHDOG_INTERVAL_SECONDS: '0.5',
    BELLWETHER__WORKER__BEAT_SECONDS: '0.5',
    BELLWETHER__WORKER__POLL_SECONDS: '0.5',
    STARTS: starts,
    BLOCK_MS: String(blockMs),
    ...more,
  }
  const worker = async () => {
    const project = command === undefined ? [] : ['--project', 'p']
    const args = ['worker', '--target', 'w', '--agents', agents, ...project, '--json', '--parent-pipe']
    const cli = runCli(args, { cwd: folder, env })
    await cli.ready()
    return cli
  }
  if (command !== undefined) {
    await mkdir(join(folder, 'agents'))
    await writeFile(join(folder, 'agents', 'command.md'), command)
  }
  const clis = [await worker()]
  const enqueue = (agentId: string) => kernel.enqueue({ projectId: 'p', agentId, instruction: 'do it' })
  const has = (line: string) => existsSync(starts) && readFileSync(starts, 'utf8').includes(line)
  const { agentTurnId: neighbour } = await enqueue('neighbour')
  const { agentTurnId: threaded } = await enqueue('threaded')
  await until('the neighbours run', async () => (has('neighbour') && has('threaded')) || undefined, 20_000)
  const other = command === undefined ? undefined : await enqueue('command')
  if (other !== undefined) await until('the command runs', async () => has('command') || undefined)
  const { agentTurnId: blocking } = await enqueue('blocking')
  await until('the loop is blocked', async () => has('blocking') || undefined, 20_000)
  clis.push(await worker())
  return {
    clis,
    folder,
    turns: [neighbour, threaded, blocking],
    command: other?.agentTurnId,
    query: <Row extends object>(text: string, ...values: unknown[]) => db.query<Row>({ text, values }),
    starts: () => readFileSync(starts, 'utf8').trim().split('\n'),
    async stop() {
      for (const cli of clis.filter((one) => one.alive())) cli.signal('SIGKILL')
      await Promise.all(clis.map((cli) => cli.ended))
      await bell.close()
      await drop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

it('[W2.1] a function that blocks the event loop for longer than the processing timeout runs once, and so do its neighbours, also one in a thread', async ({
  onTestFinished,
}) => {
  const b = await openBlocked(2 * timeoutSeconds * 1_000)
  onTestFinished(() => b.stop())
  const ended = await until(
    'all turns have ended',
    async () => {
      const rows = await b.query<{ outcome: string; turn_epoch: number }>(
        'select outcome, turn_epoch from state.turns where agent_turn_id = any ($1) and ended_at is not null',
        b.turns,
      )
      return rows.length === 3 ? rows : undefined
    },
    60_000,
  )
  expect(ended).toEqual(b.turns.map(() => ({ outcome: 'success', turn_epoch: 1 })))
  expect(b.starts().sort()).toEqual(['blocking', 'neighbour', 'threaded'])
  expect(
    await b.query("select distinct agent_id from state.interventions where kind = 'worker_blocked' order by 1"),
  ).toEqual([{ agent_id: 'blocking' }, { agent_id: 'neighbour' }, { agent_id: 'threaded' }])
  expect(await b.query("select from state.interventions where kind = 'reclaim'")).toEqual([])
  expect(b.clis[0]!.stderr()).toContain('event loop is blocked')
})

it('a worker process that stays blocked ends itself, and another worker takes over its turns', async ({
  onTestFinished,
}) => {
  const b = await openBlocked(600_000, {
    BELLWETHER__WORKER__BLOCKED_MAX_SECONDS: '3',
    BELLWETHER__WORKER__MAX_DEATHS: '9',
    QUICK: '1',
  })
  onTestFinished(() => b.stop())
  await b.clis[0]!.ended
  expect(b.clis[0]!.stderr()).toContain('event loop blocked for too long; ending the process')
  await until(
    'another worker runs the turn',
    async () => b.starts().filter((name) => name === 'blocking').length > 1 || undefined,
    40_000,
  )
})

it('the guardian does not freeze the command of a neighbour while a function blocks the event loop', async ({
  onTestFinished,
}) => {
  const script = 'echo command >> "$STARTS"; until [ -e go ]; do echo >> ticks; sleep 0.1; done; echo fine'
  const command = `---\nworker_target: w\nenv: [STARTS]\ncommand: [sh, -c, '${script}']\n---\n`
  const b = await openBlocked(600_000, { QUICK: '1' }, command)
  onTestFinished(() => b.stop())
  const ticks = () => readFileSync(join(b.folder, 'ticks'), 'utf8').length
  const blockedAtMs = systemClock.monotonicMs()
  // Without renewals, the guardian freezes the command after 60 % of the timeout.
  await until('the last beat of the main thread is too old', async () =>
    systemClock.monotonicMs() - blockedAtMs > timeoutSeconds * 1_000 ? true : undefined,
  )
  const before = ticks()
  await until('the command goes on', async () => ticks() > before + 3 || undefined)
  await writeFile(join(b.folder, 'go'), '')
  await writeFile(join(b.folder, 'starts.unblock'), '')
  const ended = await until('the command has ended', async () => {
    const [row] = await b.query<{ outcome: string | null }>(
      'select outcome from state.turns where agent_turn_id = $1',
      b.command,
    )
    return row?.outcome ?? undefined
  })
  expect(ended).toBe('success')
})

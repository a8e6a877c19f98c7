/** Test set-up: real workers and a PMO on a real database, in a project folder with agent files. `stop` kills them and the processes of their turns. */
import { readFileSync } from 'node:fs'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { defined, systemClock, systemRandom } from '@bellwether/base'
import { openKernel, type Kernel } from '../../src/kernel/kernel.js'
import { migrate } from '../../src/kernel/schema/migrate.js'
import { notifyBell } from '../../src/ports/bell/notify.js'
import { openDatabase } from '../../src/ports/database/pool.js'
import { uuidv7 } from '../../src/ports/ids.js'
import { killTree } from '../../src/ports/processes/kill-tree.js'
import { readProcesses } from '../../src/ports/processes/proc.js'
import { freshDatabase, testFolder } from '../support/postgres.js'
import { runCli, type Cli } from '../support/process.js'
import { quietLog } from '../support/quiet-log.js'
import { until } from '../support/until.js'

/** The guardian waits 3 s for a beat, SIGTERM gets at most 0.75 s, and another worker takes over after 5 s. What ends a turn for good is long. */
const timings: Readonly<Record<string, string>> = {
  WORKER__INBOX_PROCESSING_TIMEOUT_SECONDS: '5',
  WORKER__WATCHDOG_INTERVAL_SECONDS: '0.5',
  WORKER__BEAT_SECONDS: '0.5',
  WORKER__POLL_SECONDS: '0.5',
  WORKER__MAX_DEATHS: '50',
  WORKER__CONCURRENCY: '4',
  PMO__WATCHDOG_INTERVAL_SECONDS: '0.5',
  PMO__DISPATCHED_TIMEOUT_SECONDS: '300',
  PMO__ACTIVE_REAP_SECONDS: '300',
  DATABASE__POOL_SIZE: '4',
}

export const project = 'default'

interface Turn {
  readonly agent_turn_id: string
  readonly claimed_by: string | null
  readonly outcome: string | null
  readonly error: string | null
  readonly turn_epoch: number
  readonly text: string | null
  readonly task_events: number
}

export interface WorkerProcesses {
  readonly kernel: Kernel
  readonly url: string
  readonly folder: string
  write(name: string, text: string): Promise<void>
  read(name: string): string
  /** A worker may have a target and a way to the database of its own. */
  add(role: 'worker' | 'pmo', own?: { readonly target?: string; readonly url?: string }): Promise<Cli>
  begin(agentId: string): Promise<string>
  turn(agentTurnId: string): Promise<Turn>
  ended(agentTurnId: string): Promise<Turn>
  /** The guardian of a worker. */
  guardianOf(worker: Cli): number | undefined
  stop(): Promise<void>
}

/** `own`: the URL of an empty database that the caller removes; default: one of the shared server. */
export async function openWorkerProcesses(
  agents: Readonly<Record<string, string>>,
  own?: string,
): Promise<WorkerProcesses> {
  const { url, db, drop } = own === undefined ? await freshDatabase() : await openOwn(own)
  await migrate(db)
  const folder = await testFolder()
  await mkdir(join(folder, 'agents'))
  await mkdir(join(folder, 'work'))
  const write = (name: string, text: string) => writeFile(join(folder, name), text)
  for (const [name, text] of Object.entries(agents)) await write(`agents/${name}.md`, text)
  const bell = notifyBell({ url, log: quietLog })
  const kernel = openKernel({ db, bell, ids: uuidv7(systemClock, systemRandom) })
  const env = Object.fromEntries(
    Object.entries({ ...timings, DATABASE__URL: url }).map(([name, value]) => [`BELLWETHER__${name}`, value]),
  )
  const children: Cli[] = []
  const turns: string[] = []

  async function turn(agentTurnId: string): Promise<Turn> {
    const [row] = await db.query<Turn>({
      text: `select t.agent_turn_id, t.claimed_by, t.outcome, t.error, t.turn_epoch, c.content ->> 'text' as text,
          (select count(*)::int from state.events e where e.agent_turn_id = t.agent_turn_id and e.kind = 'task') as task_events
        from state.turns t left join cards.cards c on c.card_id = t.deliverable_card_id where t.agent_turn_id = $1`,
      values: [agentTurnId],
    })
    return row!
  }

  return {
    kernel,
    url,
    folder,
    write,
    read: (name) => readFileSync(join(folder, name), 'utf8'),
    async add(role, own = {}) {
      const words = role === 'worker' ? ['--target', own.target ?? 'default', '--project', project] : []
      const way = defined({ BELLWETHER__DATABASE__URL: own.url })
      const cli = runCli([role, ...words, '--json', '--parent-pipe'], { cwd: folder, env: { ...env, ...way } })
      children.push(cli)
      await cli.ready()
      return cli
    },
    async begin(agentId) {
      const { agentTurnId } = await kernel.enqueue({ projectId: project, agentId, instruction: 'do it' })
      turns.push(agentTurnId)
      return agentTurnId
    },
    turn,
    ended: (agentTurnId) =>
      until(
        'the turn has ended',
        async () => {
          const now = await turn(agentTurnId)
          return now.outcome === null ? undefined : now
        },
        120_000,
      ),
    guardianOf: (worker) =>
      readProcesses().find((one) => one.parent === worker.pid && !one.zombie && isGuardian(one.pid))?.pid,
    async stop() {
      for (const cli of children.filter((one) => one.alive())) cli.signal('SIGKILL')
      await Promise.all(children.map((cli) => cli.ended))
      await killTree({ clock: systemClock, graceMs: 0, wanted: (token) => turns.some((id) => token.includes(id)) })
      await bell.close()
      await drop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

async function openOwn(url: string) {
  const db = await openDatabase({ url })
  return { url, db, drop: () => db.close() }
}

function isGuardian(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes('guardian-main')
  } catch {
    return false // the process has ended
  }
}

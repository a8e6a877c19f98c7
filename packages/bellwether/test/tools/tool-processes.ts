/** Test set-up: real workers on a real database, in a project folder with declared tools that their agents call. `stop` kills them all. */
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { systemClock, systemRandom } from '@bellwether/base'
import { openKernel, type Kernel } from '../../src/kernel/kernel.js'
import { migrate } from '../../src/kernel/schema/migrate.js'
import type { Bell } from '../../src/ports/bell/bell.js'
import { natsBell } from '../../src/ports/bell/nats.js'
import { notifyBell } from '../../src/ports/bell/notify.js'
import type { Database } from '../../src/ports/database/database.js'
import { uuidv7 } from '../../src/ports/ids.js'
import { freshDatabase, testFolder } from '../support/postgres.js'
import { runCli, type Cli } from '../support/process.js'
import { quietLog } from '../support/quiet-log.js'
import { until } from '../support/until.js'

/** A host that is silent for 3 s counts as dead. */
const timings: Readonly<Record<string, string>> = {
  WORKER__INBOX_PROCESSING_TIMEOUT_SECONDS: '3',
  WORKER__WATCHDOG_INTERVAL_SECONDS: '0.5',
  WORKER__SUSPEND_TIMEOUT_SECONDS: '4',
  WORKER__BEAT_SECONDS: '0.4',
  WORKER__POLL_SECONDS: '0.4',
  WORKER__MAX_DEATHS: '20',
  WORKER__CONCURRENCY: '8',
  PMO__WATCHDOG_INTERVAL_SECONDS: '0.5',
  DATABASE__POOL_SIZE: '4',
}

export const project = 'default'
/** The agents and tools that the workers define in code. */
export const codeDefinitions = { agents: ['*'], tools: ['double'] }
const toolAgents = fileURLToPath(new URL('../support/agents/tool-agents.mjs', import.meta.url))

export interface ToolProcesses {
  readonly db: Database
  readonly kernel: Kernel
  readonly bell: Bell
  readonly folder: string
  add(role: 'worker' | 'pmo'): Promise<Cli>
  /** Starts a turn of a new agent that calls these tools; returns its id. */
  begin(...calls: { tool: string; args?: object }[]): Promise<string>
  /** The result of each tool, by its name. */
  ended(agentTurnId: string, withinMs?: number): Promise<Readonly<Record<string, string>>>
  stop(): Promise<void>
}

export async function openToolProcesses(files: Readonly<Record<string, object>>, natsUrl = ''): Promise<ToolProcesses> {
  const { url, db, drop } = await freshDatabase()
  await migrate(db)
  const folder = await testFolder()
  await mkdir(join(folder, 'agents'))
  for (const [name, content] of Object.entries(files)) await writeFile(join(folder, name), JSON.stringify(content))
  const bell = natsUrl === '' ? notifyBell({ url, log: quietLog }) : natsBell({ servers: natsUrl, log: quietLog })
  const ids = uuidv7(systemClock, systemRandom)
  const kernel = openKernel({ db, bell, ids })
  const settings = { ...timings, DATABASE__URL: url, NATS__URL: natsUrl }
  const env = Object.fromEntries(Object.entries(settings).map(([name, value]) => [`BELLWETHER__${name}`, value]))
  const children: Cli[] = []
  return {
    db,
    kernel,
    bell,
    folder,
    async add(role) {
      const words = role === 'worker' ? ['--target', 'default', '--agents', toolAgents] : []
      const cli = runCli([role, ...words, '--json', '--parent-pipe'], { cwd: folder, env })
      children.push(cli)
      await cli.ready()
      return cli
    },
    async begin(...calls) {
      const agentId = `caller-${ids.next()}`
      await kernel.putAgents([{ projectId: project, agentId, workerTarget: 'default' }])
      const instruction = JSON.stringify(calls.map(({ tool, args = {} }) => ({ tool, args })))
      return (await kernel.enqueue({ projectId: project, agentId, instruction })).agentTurnId
    },
    ended: (agentTurnId, withinMs = 40_000) =>
      until(
        'the turn has ended',
        async () => {
          const [row] = await db.query<{ outcome: string | null; error: string | null; text: string }>({
            text: `select t.outcome, t.error, c.content ->> 'text' as text from state.turns t
              left join cards.cards c on c.card_id = t.deliverable_card_id where t.agent_turn_id = $1`,
            values: [agentTurnId],
          })
          if (row === undefined || row.outcome === null) return undefined
          if (row.outcome !== 'success') throw new Error(`the turn ended ${row.outcome}: ${row.error} ${row.text}`)
          return JSON.parse(row.text) as Record<string, string>
        },
        withinMs,
      ),
    async stop() {
      for (const cli of children.filter((one) => one.alive())) cli.signal('SIGKILL')
      await Promise.all(children.map((cli) => cli.ended))
      await bell.close()
      await drop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/**
 * The installation of the story, as real processes on one PostgreSQL: a server with board and view, a PMO, a worker, an autopilot and a
 * sensor of the task root. A test kills and restarts them.
 */
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { readProcess, readProcesses, type Process } from '../../src/ports/processes/proc.js'
import { descendants } from '../support/processes/descendants.js'
import { timings } from '../support/processes/fleet.js'
import { followEvents, type EventReader } from '../support/follow-events.js'
import { freshDatabase, testFolder, type FreshDatabase } from '../support/postgres.js'
import {
  newServerAccess,
  openSlots,
  retryingClient,
  settingsEnv,
  type Ask,
  type Slot,
} from '../support/processes/slots.js'
import { until } from '../support/until.js'
import { openWebhookReceiver, type WebhookReceiver } from '../support/servers/webhook-receiver.js'
import { openEvidenceProxy, type EvidenceProxy } from './evidence-proxy.js'

export const project = 'story'
const view = 'shared'
const agents = fileURLToPath(new URL('./agents.mjs', import.meta.url))

/** One line of state/tasks.jsonl. */
interface LogLine {
  readonly taskId: string
  readonly type: string
  readonly eventId: string
  readonly payload: Readonly<Record<string, unknown>>
}

export interface Installation {
  readonly db: FreshDatabase['db']
  readonly root: string
  readonly ask: Ask
  readonly events: EventReader
  readonly evidence: EvidenceProxy
  readonly webhook: WebhookReceiver
  readonly server: Slot
  readonly pmo: Slot
  readonly worker: Slot
  readonly autopilot: Slot
  readonly sensor: Slot
  addTask(task: string): Promise<void>
  /** Adds the task; resolves when an agent waits at the closed gate of this step. */
  addTaskUpTo(task: string, step: string): Promise<void>
  openGate(task: string, step: string): Promise<void>
  /** The first line of the task of which `wanted` is true, as soon as the log has it. */
  line(task: string, wanted: (line: LogLine) => boolean): Promise<LogLine>
  has(task: string, wanted: (line: LogLine) => boolean): boolean
  /** Resolves when the event stream has the end of the turn. */
  ended(turn: string): Promise<unknown>
  /** Kills processes at the same moment, with SIGKILL. */
  kill(...slots: readonly Slot[]): Promise<void>
  /** Ends all processes with SIGTERM; fails if one does not end cleanly. */
  shutDown(): Promise<void>
  /** Processes of the installation that were seen at a kill or at the shutdown and still live. */
  remaining(): readonly Process[]
  /** Ends what is left, and removes database and folder. */
  stop(): Promise<void>
}

const settings = {
  ...timings,
  VIEW__SESSION_TIMEOUT_SECONDS: '2',
  // A live view forgets its files if no sensor is there for two seconds, which a slow machine takes to start one.
  VIEW__LIVE: 'false',
  BOARD__FIRST_AGENT: 'author',
  BOARD__AUTOPILOT_INTERVAL_SECONDS: '0.5',
  BOARD__CLAIM_LEASE_SECONDS: '3',
  BOARD__SPAWN_GRACE_SECONDS: '2',
}

export async function startInstallation(): Promise<Installation> {
  const database = await freshDatabase()
  const { db } = database
  const root = await testFolder()
  for (const folder of ['config', 'gates', 'agents']) await mkdir(join(root, folder))
  await writeFile(join(root, 'config', 'budget-policy.json'), JSON.stringify({ global: { maxTaskTokens: 5_000 } }))
  const { admin, sensorKey, port, url, headers } = await newServerAccess(db, view)
  const evidence = await openEvidenceProxy(url)
  const webhook = await openWebhookReceiver()
  const processes = openSlots(root, settingsEnv({ ...settings, DATABASE__URL: database.url }))
  const ofProject = ['--project', project]
  const server = processes.add('server', ['server', '--port', `${port}`, '--view', view, '--root', root, ...ofProject])
  const pmo = processes.add('pmo', ['pmo'], settingsEnv({ PMO__EVENT_WEBHOOK_URL: webhook.url }))
  const worker = processes.add('worker', ['worker', '--target', 'story', '--agents', agents, ...ofProject])
  const viewSettings = { BOARD__VIEW_URL: evidence.url, BOARD__VIEW: view, BOARD__VIEW_KEY: admin.key }
  const autopilotArgs = ['task', 'autopilot', '--root', root, ...ofProject]
  const autopilot = processes.add('autopilot', autopilotArgs, settingsEnv(viewSettings))
  const sensorArgs = ['sensor', '--root', root, '--server', url, '--key', sensorKey.key, '--id', 'host']
  const sensor = processes.add('sensor', [...sensorArgs, '--exclude', 'state', '--exclude', 'gates'])
  const ask = retryingClient(url, headers)
  const gate = (task: string, step: string) => join(root, 'gates', `${task}.${step}`)
  const find = (task: string, wanted: (line: LogLine) => boolean) =>
    readLog(root).find((line) => line.taskId === task && wanted(line))
  let witnessed: readonly Process[] = []

  function alive(): readonly Process[] {
    const pids = processes.all.flatMap(({ cli }) => (cli.alive() ? [cli.pid, ...descendants(cli.pid)] : []))
    return readProcesses().filter(({ pid }) => pids.includes(pid))
  }
  const lives = ({ pid, start }: Process) => {
    const now = readProcess(pid)
    return now !== undefined && !now.zombie && now.start === start
  }
  const remaining = () => witnessed.filter(lives)

  async function end(): Promise<void> {
    await events.stop()
    await processes.stop()
    await evidence.close()
    await webhook.close()
    await database.drop()
    await rm(root, { recursive: true, force: true })
  }

  const events = followEvents(`${url}/api/v1/projects/${project}/events`, headers)
  try {
    // The server starts first, because a sensor retries a refused connection only after five seconds.
    await server.start()
    await Promise.all(processes.all.filter((slot) => slot !== server).map((slot) => slot.start()))
    const names = ['author', 'helper'].map((agent_id) => ({ agent_id, worker_target: 'story' }))
    await ask('PUT', `/projects/${project}/agents`, { agents: names })
    await until('the view is ready', async () => {
      const response = await fetch(`${url}/api/v1/views/${view}/tree?path=/`, { headers })
      return response.ok || undefined
    })
  } catch (error) {
    await end()
    throw error
  }

  const addTask = async (taskId: string) => {
    await ask('POST', '/board/tasks', { taskId, title: `Write ${taskId}.txt` }, taskId)
  }
  return {
    ...{ db, root, ask, events, evidence, webhook, server, pmo, worker, autopilot, sensor, remaining },
    addTask,
    async addTaskUpTo(task, step) {
      await writeFile(gate(task, step), '')
      await addTask(task)
      await until(`step ${step} of ${task}`, async () => existsSync(`${gate(task, step)}.reached`) || undefined)
    },
    openGate: (task, step) => rm(gate(task, step)),
    line: (task, wanted) => until(`a line of ${task}`, async () => find(task, wanted)),
    has: (task, wanted) => find(task, wanted) !== undefined,
    ended: (turn) => until(`the end of ${turn}`, async () => events.ended.has(turn) || undefined),
    async kill(...slots) {
      witnessed = [...witnessed, ...alive()]
      for (const { cli } of slots) cli.signal('SIGKILL')
      await Promise.all(slots.map(({ cli }) => cli.ended))
    },
    async shutDown() {
      witnessed = [...witnessed, ...alive()]
      // The server ends last, because the others still talk to it.
      for (const slots of [[sensor, autopilot, worker, pmo], [server]]) {
        for (const { cli } of slots) cli.signal('SIGTERM')
        const codes = await Promise.all(slots.map(async ({ name, cli }) => [name, await cli.ended] as const))
        for (const [name, code] of codes) if (code !== 0) throw new Error(`${name} ended with ${String(code)}`)
      }
      await until('no process is left', async () => remaining().length === 0 || undefined)
    },
    stop: end,
  }
}

/** The complete lines of the board's log. */
function readLog(root: string): LogLine[] {
  const path = join(root, 'state', 'tasks.jsonl')
  if (!existsSync(path)) return []
  const lines = readFileSync(path, 'utf8').split('\n').slice(0, -1)
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as LogLine)
}

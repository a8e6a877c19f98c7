/**
 * `npm run bench -- up`: how long after a task is added over HTTP a running `up` leases its turn, and how long until the agent starts. Tasks are
 * added one at a time, each after the previous one is done, so the agent is idle and its turn is leased when it is created. The autopilot
 * never polls: only the change of the board can start a task.
 */
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { systemClock } from '@bellwether/base'
import { openClient, readTurn, type Client } from '../src/client/index.js'
import { initFolder } from '../src/cli/start/init-folder.js'
import { runCli } from '../test/support/process.js'
import { until } from '../test/support/until.js'
import type { Figures } from './cost.js'
import { machine } from './machine.js'
import { percentile } from './measure.js'

export interface UpOptions {
  readonly quick: boolean
  readonly onProgress: (line: string) => void
}

const warmUps = 5
const agent = 'writer'
const writes = `date +%s%N > made.txt; printf '{"summary":"made","files":["made.txt"]}'`
const settings = { BELLWETHER__BOARD__AUTOPILOT_INTERVAL_SECONDS: '604800' }

export async function benchUp({ quick, onProgress }: UpOptions): Promise<object> {
  const folder = await mkdtemp(join(tmpdir(), 'bellwether-bench-'))
  // As root, PostgreSQL runs as another account.
  await chmod(folder, 0o755)
  const project = join(folder, 'project')
  initFolder(project)
  await writeFile(join(project, 'agents', `${agent}.md`), `---\ncommand: [sh, -c, ${JSON.stringify(writes)}]\n---\n`)
  // As users run it: the build.
  const program = [fileURLToPath(new URL('../bin/bellwether.js', import.meta.url))]
  const env = { ...settings, XDG_STATE_HOME: join(folder, 'state') }
  const up = runCli(['up', '--port', '0', '--trust', '--json', '--parent-pipe'], { cwd: project, program, env })
  try {
    const ready = await up.ready(120_000)
    const address = { url: String(ready['url']), key: String(ready['adminKey']), project: 'default' }
    const figures = await addTasks(openClient(address, systemClock), quick ? 20 : 100, onProgress)
    return { ran: { bench: 'up', quick }, figures, load: loadavg()[0], machine: machine() }
  } finally {
    if (up.alive()) up.signal('SIGTERM')
    await up.ended
    await rm(folder, { recursive: true, force: true })
  }
}

async function addTasks(client: Client, count: number, onProgress: UpOptions['onProgress']): Promise<Figures> {
  const [leased, started]: [number[], number[]] = [[], []]
  for (let n = 0; n < count + warmUps; n += 1) {
    const taskId = `B-${n}`
    const addedMs = Date.now()
    await client.ask('POST /board/tasks', { body: { title: 'write', taskId, agent } })
    const turnId = await until(`${taskId} to be done`, async () => {
      const { status, reason, runs } = await client.ask('GET /board/tasks/:task', { params: { task: taskId } })
      if (status === 'blocked' || status === 'failed') throw new Error(`${taskId} is ${status}: ${reason}`)
      return status === 'done' ? runs[0]?.agentTurnId : undefined
    })
    const turn = await readTurn(client, turnId)
    if (n < warmUps) continue
    leased.push(Date.parse(turn.created_at) - addedMs)
    started.push(Date.parse(String(turn.started_at)) - addedMs)
  }
  leased.sort((a, b) => a - b)
  started.sort((a, b) => a - b)
  const figures = {
    n: count,
    added_to_leased_p50_ms: percentile(leased, 0.5),
    added_to_leased_p90_ms: percentile(leased, 0.9),
    added_to_started_p50_ms: percentile(started, 0.5),
    added_to_started_p90_ms: percentile(started, 0.9),
  }
  onProgress(JSON.stringify(figures))
  return figures
}

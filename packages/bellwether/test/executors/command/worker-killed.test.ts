/**
 * Workers are killed with SIGKILL at the write points of a run: at each statement that they send to the database, before the server gets it
 * and after it is committed, and at each print of the program. Another worker process takes over. The stand-ins write each call of
 * their model into the session's file, so that a call that is made twice is counted twice.
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { presetNames, type PresetName } from '../../../src/worker/executors/presets.js'
import { callsOf, onPath, tokensOf } from '../../support/agents/coding-agents.js'
import { openStatementProxy, type StatementPoint } from '../../support/servers/statement-proxy.js'
import { thorough } from '../../support/thorough.js'
import { openWorkerProcesses, type WorkerProcesses } from '../worker-processes.js'
import { mayWrite } from './paused-program.js'

/** A print of the program, or a statement of its worker. */
type Point = { readonly preset: PresetName } & ({ readonly print: number } | StatementPoint)

let processes: WorkerProcesses
const agentsMax = 400
onPath()
beforeAll(async () => {
  processes = await openWorkerProcesses({})
  process.env['CODEX_HOME'] = join(processes.folder, 'codex')
  await processes.add('pmo')
})
afterAll(async () => {
  delete process.env['CODEX_HOME']
  await processes.stop()
})

let agents = 0
/** An agent with a folder, a worker target and a worker of its own, whose statements pass a proxy. */
async function openAgent(preset: PresetName, order: (pidFile: string) => string) {
  const name = `killed-${(agents += 1)}`
  expect(agents).toBeLessThan(agentsMax)
  const folder = join(processes.folder, 'work', name)
  mkdirSync(folder)
  const pidFile = join(folder, 'pid')
  const front = {
    preset,
    cwd: `work/${name}`,
    worker_target: name,
    sandbox: 'none',
    env: '[CODEX_HOME]',
    args: JSON.stringify(mayWrite[preset]),
  }
  const lines = Object.entries(front).map(([key, value]) => `${key}: ${value}`)
  await processes.write(
    `agents/${name}.md`,
    `---\n${lines.join('\n')}\n---\n${order(pidFile)}\nstand-in: write done.txt\n`,
  )
  const proxy = await openStatementProxy(processes.url)
  const worker = await processes.add('worker', { target: name, url: proxy.url })
  await processes.write(`work/${name}/pid`, String(worker.pid))
  return { name, folder, proxy, worker }
}

interface Killed {
  /** False: the turn ended before the point. */
  readonly killed: boolean
  /** How often the last call of the model was made, which gives the answer. A run whose result was not stored gives it again. */
  readonly answers: number
  /** What the model used, by the files of the sessions. */
  readonly spent: number
  /** What the steps of the turn report. */
  readonly charged: number
}

/** Kills the worker at the point; another one ends the turn, without a second call of the model for work that was done. */
async function killedAt(point: Point): Promise<Killed> {
  const { name, folder, proxy, worker } = await openAgent(point.preset, (pidFile) =>
    'print' in point ? `stand-in: kill ${point.print} ${pidFile}` : '',
  )
  const workers = [worker]
  try {
    if ('name' in point) proxy.stopAt(point, () => worker.signal('SIGKILL'))
    const turn = await processes.begin(name)
    const ended = processes.ended(turn)
    const first = await Promise.race([worker.ended.then(() => 'killed' as const), ended])
    // A worker that was killed after its last write has ended the turn.
    if (first === 'killed') workers.push(await processes.add('worker', { target: name }))
    expect(await ended).toMatchObject({ error: null, outcome: 'success', task_events: 1 })
    const [answers, ...work] = callsOf(point.preset, folder).toReversed()
    expect(work, JSON.stringify(point)).toEqual([1, 1, 1, 1, 1])
    const spent = tokensOf(point.preset, folder)
    const charged = await chargedTo(turn)
    expect(answers, JSON.stringify(point)).toBeLessThanOrEqual(2)
    expect(charged, JSON.stringify(point)).toBeLessThanOrEqual(spent * rounding)
    return { killed: first === 'killed', answers: answers!, spent, charged }
  } finally {
    // Hundreds of points would leave hundreds of workers.
    for (const one of workers) one.signal('SIGKILL')
    await Promise.all(workers.map(({ ended }) => ended))
    await proxy.close()
  }
}

/** Aider prints thousands of tokens. */
const rounding = 1.01

async function chargedTo(turn: string): Promise<number> {
  const [row] = await processes.kernel.db.query<{ tokens: number }>({
    text: `select coalesce(sum((metadata -> 'usage' ->> 'total_tokens')::bigint), 0)::int as tokens
      from state.agent_steps where agent_turn_id = $1`,
    values: [turn],
  })
  return row!.tokens
}

// The id of the session is printed and not stored; a call of the model is made and its print may be lost; the result is stored.
const some: readonly Point[] = [
  { preset: 'codex', name: 'bw_store_session', nth: 1, when: 'before' },
  { preset: 'opencode', print: 2 },
  { preset: 'gemini', print: 2 },
  { preset: 'claude', name: 'bw_record', nth: 2, when: 'after' },
]

it.concurrent.each(some)('a killed worker’s successor spends no token twice: %o', async (point) => {
  expect(await killedAt(point)).toMatchObject({ killed: true })
})

it.runIf(thorough).each(presetNames)(
  'a killed worker’s successor spends no token of %s twice, at every statement and every print',
  async (preset) => {
    const { name, proxy, worker } = await openAgent(preset, () => '')
    const before = proxy.seen.length
    await processes.ended(await processes.begin(name))
    const seen = proxy.seen.slice(before)
    worker.signal('SIGKILL')
    await worker.ended
    await proxy.close()
    // Of what a worker repeats while it waits, the first executions are enough.
    const counts = new Map<string, number>()
    const points: Point[] = []
    for (const statement of seen) {
      const nth = (counts.get(statement) ?? 0) + 1
      counts.set(statement, nth)
      if (nth <= repeatedMax)
        for (const when of ['before', 'after'] as const) points.push({ preset, name: statement, nth, when })
    }
    expect(new Set(seen)).toContain('bw_store_session')
    const ends: Killed[] = []
    /** Whether the worker was killed at each of the points. */
    const killAll = async (batch: readonly Point[]) => {
      const done = await Promise.all(batch.map(killedAt))
      ends.push(...done)
      process.stderr.write(`${preset}: ${ends.length} points\n`)
      return done.every(({ killed }) => killed)
    }
    while (points.length > 0) await killAll(points.splice(0, atOnce))
    // A print after the last one of the program is not reached.
    const printsFrom = (first: number) => Array.from({ length: atOnce }, (_, at) => ({ preset, print: first + at }))
    let prints = 0
    while (await killAll(printsFrom(prints))) prints += atOnce
    expect(prints).toBeGreaterThan(0)
    const kills = ends.filter(({ killed }) => killed)
    const sum = (of: 'spent' | 'charged') => kills.reduce((total, end) => total + end[of], 0)
    const again = kills.filter(({ answers }) => answers > 1).length
    process.stderr.write(
      `${preset}: ${kills.length} kills at ${ends.length} points, ${sum('spent')} tokens spent, ${sum('charged')} charged, ` +
        `${again} answers given again\n`,
    )
    expect(sum('spent')).toBeGreaterThan(0)
  },
  3_600_000,
)
const repeatedMax = 3
const atOnce = 4

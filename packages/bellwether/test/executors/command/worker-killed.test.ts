/**
 * Workers are killed with SIGKILL at the write points of a run: at each statement that they send to the database, before the server gets it
 * and after it is committed, and at each print of the program. Another worker process takes over. The stand-ins write each call of
 * their model into the session's file, so that a call that is made twice is counted twice.
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { presetNames, type PresetName } from '../../../src/worker/executors/presets.js'
import { callsOf, onPath } from '../../support/agents/coding-agents.js'
import { openStatementProxy, type StatementPoint } from '../../support/servers/statement-proxy.js'
import { thorough } from '../../support/thorough.js'
import { openWorkerProcesses, type WorkerProcesses } from '../worker-processes.js'

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
    args: args[preset],
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
const args: Readonly<Record<PresetName, string>> = {
  claude: '[--permission-mode, acceptEdits]',
  codex: '[--sandbox, workspace-write]',
  gemini: '[--approval-mode, auto_edit]',
  aider: '[]',
  opencode: '[]',
}

/** Kills the worker at the point; another one ends the turn. Returns false if the turn ended before the point. */
async function killedAt(point: Point): Promise<boolean> {
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
    expect(callsOf(point.preset, folder), JSON.stringify(point)).toEqual([1, 1, 1, 1, 1])
    return first === 'killed'
  } finally {
    // Hundreds of points would leave hundreds of workers.
    for (const one of workers) one.signal('SIGKILL')
    await Promise.all(workers.map(({ ended }) => ended))
    await proxy.close()
  }
}

// The id of the session is printed and not stored; a call of the model is made and its print may be lost; the result is stored.
const some: readonly Point[] = [
  { preset: 'codex', name: 'bw_store_session', nth: 1, when: 'before' },
  { preset: 'opencode', print: 2 },
  { preset: 'gemini', print: 2 },
  { preset: 'claude', name: 'bw_record', nth: 2, when: 'after' },
]

it.concurrent.each(some)('a killed worker’s successor spends no token twice: %o', async (point) => {
  expect(await killedAt(point)).toBe(true)
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
    for (let print = 0; print <= printsMax; print += 1) points.push({ preset, print })
    expect(new Set(seen)).toContain('bw_store_session')
    let killed = 0
    while (points.length > 0) {
      const results = await Promise.all(points.splice(0, atOnce).map(killedAt))
      killed += results.filter(Boolean).length
    }
    expect(killed).toBeGreaterThan(printsMax)
  },
  1_800_000,
)
const repeatedMax = 3
const printsMax = 6
const atOnce = 4

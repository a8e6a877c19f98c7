/**
 * A child process of the board benchmark: autopilot steps on a root with many tasks, with a kernel in memory. Prints the median
 * idle step, and the median step that closes four runs and starts four, with their lines on a real disk.
 */
import { autopilotStep } from '../../src/board/dispatch/autopilot.js'
import { localEvidence } from '../../src/board/dispatch/evidence/local-evidence.js'
import type { Spawner, TurnStatus } from '../../src/board/ports.js'
import { openDispatcher } from '../../src/runtime/parts/board/board.js'
import { openTaskRoot } from '../../src/runtime/parts/board/task-root.js'
import { loadSettings } from '../../src/settings/load.js'

const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined }
const root = process.argv[2]!
const settings = loadSettings({ folder: root, env: {} }).board
const opened = await openTaskRoot({ root, owner: 'bench', settings, log: quiet })
const turns = new Map<string, 'active' | 'ended'>()
const status = async (key: string): Promise<TurnStatus> => {
  const at = turns.get(key)
  if (at === undefined) return { status: 'unknown' }
  if (at === 'active') return { status: 'active', agentTurnId: key }
  const ending = { outcome: 'failed', error: 'no', deliverable: null, tokenUsage: 1, elapsedMs: 1 } as const
  return { status: 'ended', agentTurnId: key, ...ending }
}
const spawner: Spawner = {
  missingAgents: async () => [],
  hasAgents: async () => true,
  workspaceOf: async () => ({}),
  kernel: async () => null,
  async spawn({ key }) {
    turns.set(key, 'active')
    return { agentTurnId: key }
  },
  status,
  ended: status,
  stop: async () => undefined,
}
const dispatcher = openDispatcher(opened, { spawner, evidence: localEvidence(root, opened.ids), actor: 'bench' })
const cpuMs = () => (process.cpuUsage().user + process.cpuUsage().system) / 1_000
const median = (all: readonly number[]) => all.toSorted((a, b) => a - b)[Math.floor(all.length / 2)]!

async function steps(count: number, before: () => void): Promise<{ ms: number; cpuMs: number }> {
  const [walls, cpus]: [number[], number[]] = [[], []]
  for (let step = 0; step < count; step += 1) {
    before()
    const [began, cpu] = [performance.now(), cpuMs()]
    await autopilotStep(dispatcher, opened.caches)
    walls.push(performance.now() - began)
    cpus.push(cpuMs() - cpu)
  }
  return { ms: median(walls), cpuMs: median(cpus) }
}

const first = performance.now()
await autopilotStep(dispatcher, opened.caches)
const firstMs = performance.now() - first
const quietStep = await steps(21, () => undefined)
const busy = await steps(21, () => turns.forEach((_, key) => turns.set(key, 'ended')))
const tasks = opened.board.state.tasks.size
await opened.board.close()
process.stdout.write(`${JSON.stringify({ tasks, firstMs, quiet: quietStep, busy })}\n`)

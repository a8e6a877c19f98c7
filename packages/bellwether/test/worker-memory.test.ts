/**
 * A real worker process runs thousands of turns in windows; after each window it collects garbage and reports its memory. The test
 * compares windows of one run, never absolute numbers. `MEMORY_TURNS=10000 npx vitest run
 * packages/bellwether/test/worker-memory.test.ts` runs ten thousand turns.
 */
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { openKernel } from '../src/kernel/kernel.js'
import { notifyBell } from '../src/ports/bell/notify.js'
import { project, target, testKernel, type TestKernel } from './support/kernel.js'
import { testFolder } from './support/postgres.js'
import { programFor, runCli } from './support/process.js'
import { quietLog } from './support/quiet-log.js'
import { until } from './support/until.js'

const turns = Number(process.env['MEMORY_TURNS'] ?? 3_000)
const windows = 6
const agents = 100

/** A turn that writes cards and steps, uses its signal and reads its memory, as model and command turns do. */
const agentsModule = `
const work = async (turn) => {
  const { context } = await turn.hydrate()
  turn.signal.addEventListener('abort', () => undefined)
  await turn.activity('executing_tool', 'think')
  await turn.record({
    cards: [{ type: 'agent.thought', content: { text: 'x'.repeat(2_000) } }],
    step: { stepId: turn.newId(), phase: 'model', status: 'success' },
  })
  return { deliver: { text: 'done ' + context.length } }
}
const measure = async () => {
  for (const _again of [1, 2, 3]) {
    globalThis.gc()
    await new Promise((resolve) => setImmediate(resolve))
  }
  const { heapUsed, rss, external } = process.memoryUsage()
  return { deliver: { text: JSON.stringify({ heapUsed, rss, external }) } }
}
export default { '*': (turn) => (turn.turn.agentId === 'scale' ? measure() : work(turn)) }
`

interface Weight {
  readonly heapUsed: number
  readonly rss: number
  readonly external: number
}

async function ended(t: TestKernel, count: number): Promise<void> {
  const look = async () => {
    const { left } = await t.one<{ left: number }>(
      "select count(*)::int as left from state.agent_inbox where status in ('queued', 'pending', 'processing')",
    )
    return left === 0 || undefined
  }
  await until(`${count} turns end`, look, 120_000)
}

it(
  'the memory of a worker does not grow with the turns it has done',
  { timeout: 600_000 },
  async ({ onTestFinished }) => {
    const t = await testKernel({ time: 'real' })
    const cwd = await testFolder()
    const bell = notifyBell({ url: t.url, log: quietLog })
    const kernel = openKernel({ db: t.db, bell, ids: t.ids })
    await writeFile(join(cwd, 'agents.mjs'), agentsModule)
    const words = ['worker', '--target', target, '--agents', join(cwd, 'agents.mjs'), '--json', '--parent-pipe']
    const env = { BELLWETHER__DATABASE__URL: t.url, BELLWETHER__WORKER__CONCURRENCY: '32' }
    const worker = runCli(words, { cwd, env, program: ['--expose-gc', ...programFor(words)] })
    onTestFinished(async () => {
      if (worker.alive()) worker.signal('SIGKILL')
      await worker.ended
      await bell.close()
      await t.drop()
      await rm(cwd, { recursive: true, force: true })
    })
    await worker.ready()
    const names = Array.from({ length: agents }, (_, at) => `agent-${at}`)
    await t.agents('scale', ...names)

    async function weigh(): Promise<Weight> {
      const { agentTurnId } = await kernel.enqueue({ projectId: project, agentId: 'scale' })
      await ended(t, 1)
      const row = await t.one<{ text: string }>(
        `select c.content ->> 'text' as text from state.turns x join cards.cards c on c.card_id = x.deliverable_card_id
        where x.agent_turn_id = $1`,
        agentTurnId,
      )
      return JSON.parse(row.text) as Weight
    }

    const seen: Weight[] = []
    const size = Math.ceil(turns / windows)
    for (let window = 0; window < windows; window += 1) {
      const all = Array.from({ length: size }, (_, at) => ({
        projectId: project,
        agentId: names[at % agents]!,
        // A box of its own each: what a turn reads must not grow either.
        instruction: `turn ${at}`,
      }))
      await kernel.enqueueMany(all)
      await ended(t, size)
      // Memory that agents roll on is theirs, not the worker's.
      await t.all("delete from cards.box_cards where box_id in (select box_id from cards.boxes where kind = 'output')")
      seen.push(await weigh())
    }
    const measured = seen
      .map(({ heapUsed, rss }) => `${(heapUsed / 1e6).toFixed(1)}/${(rss / 1e6).toFixed(0)}`)
      .join(' ')
    const [first, last] = [seen[1]!, seen.at(-1)!]
    // The first window warms code and caches. A turn that left 1 kB behind would add 2 MB in four windows of 500.
    expect(last.heapUsed / first.heapUsed, `heap/rss in MB: ${measured}`).toBeLessThan(1.1)
    expect(
      (last.heapUsed + last.external - first.heapUsed - first.external) / (size * (windows - 2)),
      measured,
    ).toBeLessThan(500)
    expect(last.rss / first.rss, `heap/rss in MB: ${measured}`).toBeLessThan(1.4)
    worker.signal('SIGTERM')
    expect(await worker.ended).toBe(0)
    process.stderr.write(`worker memory after ${turns} turns, heap/rss in MB by window: ${measured}\n`)
  },
)

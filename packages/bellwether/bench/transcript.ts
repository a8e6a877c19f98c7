/**
 * `npm run bench -- transcript`: what a transcript costs per turn. One worker runs turns that say nothing and turns that say what a coding
 * agent says, in alternating rounds on one database. CPU time, WAL and rows, because they hold on a busy machine.
 */
import { randomBytes } from 'node:crypto'
import { loadavg } from 'node:os'
import { ownCluster } from '../sim/cluster.js'
import type { TurnContext } from '../src/worker/agent.js'
import { openCostMeter, type Figures } from './cost.js'
import { machine, server } from './machine.js'
import { Ledger, percentile } from './measure.js'
import { ours } from './ours.js'

export interface TranscriptBenchOptions {
  readonly quick: boolean
  readonly onProgress: (line: string) => void
}

// As many coding agents as one worker runs by default.
const concurrent = 16
const turnsPerRound = 400
/** 13 calls of tools with their results, and a sentence before each: 39 entries, 50 kB. */
const callCount = 13
const sizes = { text: 200, tool_call: 150, tool_result: 3_500 } as const

export async function benchTranscript({ quick, onProgress }: TranscriptBenchOptions): Promise<object> {
  const cluster = await ownCluster({ shared_buffers: '128MB' })
  try {
    const url = await cluster.database()
    const figures = await measureTurns(url, quick ? 2 : 6, onProgress)
    const ran = { bench: 'transcript', quick, turns_per_round: turnsPerRound, concurrent, load: loadavg()[0] }
    return { ran, figures, machine: machine(), server: await server(url) }
  } finally {
    await cluster.remove()
  }
}

async function measureTurns(url: string, rounds: number, onProgress: (line: string) => void) {
  const ledger = new Ledger()
  let speaks = false
  const contender = await ours(url, ledger, {
    agents: turnsPerRound,
    concurrent,
    say: (turn) => {
      if (speaks) sayAll(turn)
    },
  })
  const meter = await openCostMeter(url)
  const rowCount = async () => {
    const [row] = await contender.kernel.db.query<{ n: string }>({ text: 'select count(*) as n from state.transcript' })
    return Number(row!.n)
  }
  async function round(): Promise<Figures> {
    const rowsBefore = await rowCount()
    const spent = await meter.start()
    await contender.enqueueMany(ledger.issue(turnsPerRound))
    await ledger.all()
    while ((await contender.unfinished()) > 0) await new Promise((resolve) => setTimeout(resolve, 5))
    const figures = await spent(turnsPerRound)
    return { ...figures, transcript_rows: ((await rowCount()) - rowsBefore) / turnsPerRound }
  }
  const measured: Readonly<Record<'silent' | 'speaking', Figures[]>> = { silent: [], speaking: [] }
  try {
    await contender.startWorker()
    // The first round of each kind warms V8, the agents and the planner.
    for (let at = 0; at <= rounds; at += 1)
      for (const kind of ['silent', 'speaking'] as const) {
        speaks = kind === 'speaking'
        const figures = await round()
        onProgress(`${kind}: ${JSON.stringify(figures)}`)
        if (at > 0) measured[kind].push(figures)
      }
  } finally {
    await contender.close()
    await meter.close()
  }
  return { silent: medians(measured.silent), speaking: medians(measured.speaking) }
}

/** Text that does not compress, as the worst case. */
const entries = Array.from({ length: callCount }, (_, call) =>
  Object.entries(sizes).map(([kind, size]) => ({
    kind: kind as keyof typeof sizes,
    content: randomBytes((size * 3) / 4).toString('base64'),
    ...(kind === 'text' ? {} : { callId: `call-${call}`, name: 'Bash' }),
  })),
).flat()

function sayAll(turn: Pick<TurnContext, 'say'>): void {
  for (const entry of entries) turn.say(entry)
}

function medians(rounds: readonly Figures[]): Figures {
  const keys = Object.keys(rounds[0] ?? {})
  const middle = (key: string) =>
    percentile(
      rounds.map((one) => one[key]!).sort((a, b) => a - b),
      0.5,
    )
  return Object.fromEntries(keys.map((key) => [key, middle(key)]))
}

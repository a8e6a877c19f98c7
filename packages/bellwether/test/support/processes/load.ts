/**
 * Enqueues turns continuously, like a careful client: every turn has a correlation id, and a failed enqueue is repeated with the same
 * id. It also hosts the tools. `settle` waits for the last turn to end and audits all turns in the database.
 */
import { setMaxListeners } from 'node:events'
import { systemClock, systemRandom } from '@bellwether/base'
import { InvalidInput, Retryable } from '@bellwether/protocol'
import { checkTurns, type TurnCheck } from '@bellwether/demo'
import { hostTools } from '../agents/tool-host.js'
import { openKernel, type Kernel } from '../../../src/kernel/kernel.js'
import { migrate } from '../../../src/kernel/schema/migrate.js'
import { natsBell } from '../../../src/ports/bell/nats.js'
import { notifyBell } from '../../../src/ports/bell/notify.js'
import { openDatabase } from '../../../src/ports/database/pool.js'
import { uuidv7 } from '../../../src/ports/ids.js'
import { project, target } from '../kernel.js'
import { quietLog } from '../quiet-log.js'
import { thorough } from '../thorough.js'
import { until } from '../until.js'

export interface Load {
  readonly kernel: Kernel
  readonly turnIds: readonly string[]
  /** Waits until this many more turns have ended. */
  progress(turns: number, withinMs?: number): Promise<void>
  /** Resolves when the query returns a row. */
  sees(what: string, text: string, ...values: unknown[]): Promise<Record<string, unknown>>
  /** Stops enqueuing, waits for the last turn to end, and checks them all. */
  settle(withinMs?: number): Promise<TurnCheck>
  stop(): Promise<void>
}

export interface LoadOptions {
  readonly url: string
  readonly natsUrl?: string
  /** The maximum number of open turns. */
  readonly open?: number
}

const quick = [...Array(8).keys()].flatMap((number) => [`plain-${number}`, `asking-${number}`])
/** Long enough to be interrupted; few, so that they do not fill the queue. */
const slow = ['slow-0', 'slow-1']
const agents = [...quick, ...slow]
const slowEvery = thorough ? 20 : 8
/** About 100 turns per second leave processor time for the processes that a test starts. */
const paceMs = thorough ? 0 : 150

export async function startLoad({ url, natsUrl, open = 40 }: LoadOptions): Promise<Load> {
  const db = await openDatabase({ url, applicationName: 'load', poolSize: 4, connectTimeoutMs: 60_000 })
  await migrate(db)
  const bell =
    natsUrl === undefined ? notifyBell({ url, log: quietLog }) : natsBell({ servers: natsUrl, log: quietLog })
  const kernel = openKernel({ db, bell, ids: uuidv7(systemClock, systemRandom) })
  await kernel.putAgents(agents.map((agentId) => ({ projectId: project, agentId, workerTarget: target })))
  const stopping = new AbortController()
  const over = new AbortController()
  setMaxListeners(0, over.signal)
  const tools = { echo: async (args: unknown) => args }
  const common = { kernel, bell, clock: systemClock, log: quietLog, signal: over.signal }
  const host = await hostTools({ ...common, host: 'load', projectId: project, tools })
  const turnIds: string[] = []

  async function retried<T>(call: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await call()
      } catch (error) {
        if (!(error instanceof Retryable) || over.signal.aborted) throw error
        await systemClock.sleep(50, over.signal)
      }
    }
  }

  const count = async (text: string) => {
    const [row] = await retried(() => db.query<{ n: number }>({ text, values: [project] }))
    return row?.n ?? 0
  }
  const openTurns = () => count('select count(*)::int as n from state.turns where project_id = $1 and ended_at is null')
  const endedTurns = () =>
    count('select count(*)::int as n from state.turns where project_id = $1 and ended_at is not null')

  async function enqueueAll(): Promise<void> {
    for (let round = 0; !stopping.signal.aborted; round += 1) {
      const names = (round % slowEvery === 0 ? agents : quick).map((agentId) => ({
        projectId: project,
        agentId,
        instruction: 'go',
        correlationId: `${agentId}-${round}`,
      }))
      const answers = await retried(() => kernel.enqueueMany(names))
      for (const answer of answers) {
        if (answer instanceof InvalidInput) throw answer
        turnIds.push(answer.agentTurnId)
      }
      await systemClock.sleep(paceMs, stopping.signal)
      while (!stopping.signal.aborted && (await openTurns()) > open - agents.length)
        await systemClock.sleep(20, stopping.signal)
    }
  }
  const enqueuing = enqueueAll()
  enqueuing.catch(() => undefined) // settle() reports it

  const sees: Load['sees'] = (what, text, ...values) =>
    until(what, async () => (await retried(() => db.query<Record<string, unknown>>({ text, values })))[0], 20_000)

  return {
    kernel,
    turnIds,
    sees,
    async progress(turns, withinMs = 30_000) {
      const before = await endedTurns()
      await until(
        `${turns} more turns ended`,
        async () => ((await endedTurns()) >= before + turns ? true : undefined),
        withinMs,
      )
    },
    async settle(withinMs = 40_000) {
      stopping.abort()
      await enqueuing
      await until('every turn has ended', async () => ((await openTurns()) === 0 ? true : undefined), withinMs)
      return checkTurns(db, project, turnIds, target)
    },
    async stop() {
      stopping.abort()
      over.abort()
      await enqueuing.catch(() => undefined) // settle() reports it
      await host.stop()
      await bell.close()
      await db.close()
    },
  }
}

/** Turns with more than one note per epoch: a fence let an effect through twice. */
export async function doubledEffects(load: Load): Promise<Record<string, unknown>[]> {
  return load.kernel.db.query({
    text: `select metadata ->> 'agent_turn_id' as turn, metadata ->> 'epoch' as epoch, count(*)::int as notes
      from cards.cards where project_id = $1 and type = 'agent.thought' group by 1, 2 having count(*) > 1`,
    values: [project],
  })
}

/** What races share: a prepared kernel with idle agents, and a story of a few callers. */
import { openKernel, type Kernel } from '../src/kernel/kernel.js'
import { putAgents, setLimits } from '../src/kernel/verbs/roster.js'
import type { ClaimedTurn } from '../src/kernel/verbs/turn/claim.js'
import type { Database } from '../src/ports/database/database.js'
import { kernelOf, project, target } from './actors.js'
import type { Body, Fibre, Invariant, Stage } from './engine/index.js'
import { always, holdings } from './invariants.js'
import type { Story } from './story.js'

export const claimant = (workerId: string, max = 5) => ({ workerTarget: target, workerId, max, resumeLeaseSeconds: 60 })
export const quietBell = {
  kind: 'notify' as const,
  ring: async () => undefined,
  listen: async () => ({ stop: async () => undefined }),
  close: async () => undefined,
}

export interface Opening {
  readonly kernel: Kernel
  readonly stage: Stage
  /** Enqueues and claims before the race. */
  readonly running: (agentId: string) => Promise<ClaimedTurn>
}

export async function open(stage: Stage, agents: readonly string[]): Promise<Opening> {
  const db: Database = {
    query: (statement) => stage.db.query(statement),
    transaction: () => Promise.reject(new Error('The set-up of a race cannot open transactions')),
    close: async () => undefined,
  }
  const kernel = openKernel({ db, bell: quietBell, ids: stage.ids })
  await setLimits(stage.db, { turnDeadlineSeconds: 1_800, maxRecursionDepth: 20 })
  await putAgents(
    stage.db,
    stage.ids,
    agents.map((agentId) => ({ projectId: project, agentId, workerTarget: target })),
  )
  return {
    kernel,
    stage,
    async running(agentId) {
      await kernel.enqueue({ projectId: project, agentId })
      const { turns } = await kernel.claim(claimant('opening'))
      return turns.find((turn) => turn.agentId === agentId)!
    },
  }
}

export function race(
  fibres: readonly string[],
  prepare: (opening: Opening) => Promise<Record<string, (fibre: Fibre, kernel: Kernel) => Promise<unknown>>>,
  agents: readonly string[] = ['ann'],
  atEnd: readonly Invariant[] = [],
): Story {
  return {
    fibres,
    yields: 25,
    always: [...always, ...holdings],
    atEnd,
    async scenario(stage) {
      const bodies = await prepare(await open(stage, agents))
      for (const [name, body] of Object.entries(bodies)) {
        const actor: Body = async (fibre) => void (await body(fibre, kernelOf(fibre)))
        stage.spawn(name, actor)
      }
    },
  }
}

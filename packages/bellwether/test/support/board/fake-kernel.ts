/**
 * A kernel in memory that survives the dispatchers of a test: the same key never starts a second turn, and every call is
 * recorded. Turns run until the test ends them or `script` says how they end.
 */
import type { Spawner, SpawnRequest, TurnStatus } from '../../../src/board/ports.js'

type Ended = Extract<TurnStatus, { status: 'ended' }>
type Ending = Partial<Omit<Ended, 'status' | 'agentTurnId'>>

interface Turn {
  readonly request: SpawnRequest
  readonly agentTurnId: string
  ended: Ended | null
  readonly listeners: (() => void)[]
  waitsFor?: string
}

export interface FakeKernel extends Spawner {
  readonly turns: Map<string, Turn>
  readonly calls: string[]
  /** How a turn ends when its status is read; null: only when the test ends it. */
  script: ((request: SpawnRequest) => Ending | null) | null
  /** Errors for the next spawns, one each. */
  readonly spawnErrors: Error[]
  end(key: string, ending?: Ending): void
  /** Another database: every turn is unknown. */
  forgetAll(): void
  /** Retention: this turn is unknown. */
  forgetOne(key: string): void
  retentionMs: number
  /** The agents of the project; null: any name is an agent. */
  agents: readonly string[] | null
}

export function fakeKernel(nowMs: () => number = () => 0): FakeKernel {
  const turns = new Map<string, Turn>()
  const calls: string[] = []
  let count = 0
  let folder = 1
  const kernel: FakeKernel = {
    turns,
    calls,
    script: null,
    spawnErrors: [],
    end(key, ending = {}) {
      const turn = turns.get(key)
      if (turn === undefined) throw new Error(`unknown turn ${key}`)
      if (turn.ended !== null) return
      turn.ended = {
        status: 'ended',
        agentTurnId: turn.agentTurnId,
        outcome: 'success',
        error: null,
        deliverable: { summary: 'done' },
        tokenUsage: 100,
        elapsedMs: 50,
        ...ending,
      }
      for (const notify of turn.listeners.splice(0)) notify()
    },
    retentionMs: 30 * 86_400_000,
    agents: null,
    missingAgents: async (names) =>
      kernel.agents === null ? [] : names.filter((name) => kernel.agents?.includes(name) === false),
    hasAgents: async () => kernel.agents === null || kernel.agents.length > 0,
    workspaceOf: async () => ({}),
    forgetAll() {
      turns.clear()
      folder += 1
    },
    forgetOne: (key) => void turns.delete(key),
    kernel: async () => ({ id: `fake:${folder}`, nowMs: nowMs(), retentionMs: kernel.retentionMs }),
    async spawn(request) {
      calls.push(`spawn ${request.taskId}`)
      const error = kernel.spawnErrors.shift()
      if (error !== undefined) throw error
      const existing = turns.get(request.key)
      if (existing !== undefined) return { agentTurnId: existing.agentTurnId }
      count += 1
      const turn: Turn = { request, agentTurnId: `turn-${count}`, ended: null, listeners: [] }
      turns.set(request.key, turn)
      return { agentTurnId: turn.agentTurnId }
    },
    async status(key) {
      const turn = turns.get(key)
      if (turn === undefined) return { status: 'unknown' }
      const ending = turn.ended === null ? kernel.script?.(turn.request) : null
      if (ending !== null && ending !== undefined) kernel.end(key, ending)
      const { ended, agentTurnId, waitsFor } = turn
      return ended ?? { status: 'active', agentTurnId, ...(waitsFor !== undefined && { waitsFor }) }
    },
    async ended(key, signal) {
      const status = await kernel.status(key)
      const turn = turns.get(key)
      if (status.status === 'ended' || turn === undefined || signal.aborted) return status
      await new Promise<void>((resolve) => {
        turn.listeners.push(resolve)
        signal.addEventListener('abort', () => resolve(), { once: true })
      })
      return turn.ended ?? status
    },
    async stop(key, reason) {
      calls.push(`stop ${turns.get(key)?.request.taskId ?? '?'}: ${reason}`)
      if (turns.has(key)) kernel.end(key, { outcome: 'canceled', error: reason, deliverable: null })
    },
  }
  return kernel
}

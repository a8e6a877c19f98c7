/**
 * The board's way to the kernel. A key, the intent line's id, is the inbox row's id: the same key finds the same turn, however
 * often and from wherever it is asked, and no second one can be started with it. One question to the database serves all who
 * wait. What a task is, and what its ending means, is left to the board.
 */
import type { Clock, Log } from '@bellwether/base'
import { InvalidInput, Retryable } from '@bellwether/protocol'
import { parseResult, type ParsedResult } from '../../board/dispatch/parse-result.js'
import type { KernelIdentity, Spawner, TurnStatus } from '../../board/ports.js'
import type { Kernel } from '../../kernel/kernel.js'
import { databaseIdentity } from '../../kernel/reads/database.js'
import { readRequestedTurns, type RequestedTurn } from '../../kernel/reads/turns.js'
import { backoffMs, defaultCallPolicy } from '../../ports/retry.js'

export interface SpawnerOptions {
  readonly kernel: Kernel
  readonly projectId: string
  /** For how long ended turns are kept; absent: a day. */
  readonly keepsMs?: number
  readonly clock: Clock
  readonly log: Log
}

// Nobody plans a night by a quarter of a second, and the question is one indexed lookup.
const pollMs = 250
const away = { ...defaultCallPolicy.retry.backoff, maxMs: 5_000 }

export function kernelSpawner(options: SpawnerOptions): Spawner {
  const { kernel, projectId, clock, log, keepsMs = 86_400_000 } = options
  const waiting = new Map<string, Set<(status: TurnStatus) => void>>()
  let polling = false

  async function ask(keys: readonly string[]): Promise<Map<string, TurnStatus>> {
    const rows = await readRequestedTurns(kernel.db, projectId, keys)
    return new Map(rows.map((row) => [row.inbox_id, statusOf(row)]))
  }

  async function status(key: string): Promise<TurnStatus> {
    return (await ask([key])).get(key) ?? { status: 'unknown' }
  }

  /** A database that may not be asked for its name has none, and nothing is spawned twice in it. */
  async function named(): Promise<KernelIdentity | null> {
    try {
      const row = await databaseIdentity(kernel.db)
      return row === undefined ? null : { id: `${row.id}:${projectId}`, nowMs: row.now_ms, retentionMs: keepsMs }
    } catch (error) {
      if (error instanceof Retryable) throw error
      log.warn({ err: error }, 'the database does not tell its name; a run that was never started is left to a person')
      return null
    }
  }

  /** Runs while somebody waits. A database that is away is asked again, ever more slowly: the turns are safe in it. */
  async function poll(): Promise<void> {
    let failures = 0
    while (waiting.size > 0) {
      try {
        const keys = [...waiting.keys()]
        const found = await ask(keys)
        for (const key of keys) {
          const now = found.get(key) ?? { status: 'unknown' as const }
          if (now.status !== 'active') for (const tell of waiting.get(key) ?? []) tell(now)
        }
        failures = 0
      } catch (error) {
        log.warn({ err: error, waiting: waiting.size }, 'the kernel cannot be asked how turns stand')
        failures += 1
      }
      if (waiting.size > 0) await clock.sleep(failures === 0 ? pollMs : backoffMs({ backoff: away }, failures))
    }
    polling = false
  }

  return {
    kernel: named,
    async spawn({ key, taskId, agent, prompt, budget }) {
      const { agentTurnId } = await kernel.enqueue({
        projectId,
        agentId: agent,
        inboxId: key,
        instruction: prompt,
        payload: {
          task_id: taskId,
          budget: { max_tokens: budget.maxTokens, max_wall_ms: budget.maxWallTimeMs },
        },
      })
      return { agentTurnId }
    },
    status,
    ended: (key, signal) =>
      new Promise((resolve, reject) => {
        const finish = (now: TurnStatus) => {
          const all = waiting.get(key)
          all?.delete(finish)
          if (all?.size === 0) waiting.delete(key)
          signal.removeEventListener('abort', giveUp)
          resolve(now)
        }
        const giveUp = () => {
          status(key).then(finish, reject)
        }
        if (signal.aborted) return giveUp()
        signal.addEventListener('abort', giveUp, { once: true })
        waiting.set(key, (waiting.get(key) ?? new Set()).add(finish))
        if (polling) return
        polling = true
        void poll()
      }),
    async stop(key, reason) {
      const now = await status(key)
      if (now.status === 'unknown') {
        throw new InvalidInput(`no turn was started with key ${key}`, {
          code: 'unknown_turn',
          hint: 'it may belong to another data folder, or be past retention',
        })
      }
      if (now.status === 'active') await kernel.stop({ projectId, agentTurnId: now.agentTurnId, reason })
    },
  }
}

function statusOf(row: RequestedTurn): TurnStatus {
  const { agent_turn_id: agentTurnId, outcome, error } = row
  if (outcome === null) return { status: 'active', agentTurnId }
  const { deliverable, tokenUsage } = answerOf(row.deliverable)
  return {
    status: 'ended',
    agentTurnId,
    outcome,
    error,
    deliverable,
    // What the steps counted is exact; what an agent says of itself is better than nothing.
    tokenUsage: row.token_usage > 0 ? row.token_usage : tokenUsage,
    elapsedMs: row.elapsed_ms,
  }
}

/** A deliverable card as the board reads answers: named fields by their names, a text as the object it may hold. */
function answerOf(content: RequestedTurn['deliverable']): ParsedResult {
  if (content === null) return { deliverable: null, tokenUsage: 0 }
  const { fields, text } = content
  if (Array.isArray(fields)) {
    const named = (fields as { name: string; value: unknown }[]).map(({ name, value }) => [name, value] as const)
    return parseResult(JSON.stringify(Object.fromEntries(named)))
  }
  return typeof text === 'string' ? parseResult(text) : { deliverable: content, tokenUsage: 0 }
}

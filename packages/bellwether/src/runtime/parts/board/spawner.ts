/**
 * Runs the board's tasks as turns of the kernel. The key of a run, its intent line's id, becomes the id of the inbox row, so that a
 * repeated spawn finds the same turn and never starts a second one. What the end of a turn means for a task is the board's decision.
 */
import { type Clock, defined, type Log } from '@bellwether/base'
import { budgetExceeded, InvalidInput, Retryable } from '@bellwether/protocol'
import { fallbackContent } from '@bellwether/protocol/http'
import { parseResult, type ParsedResult } from '../../../board/dispatch/parse-result.js'
import type { KernelIdentity, Spawner, TurnStatus } from '../../../board/ports.js'
import type { Tail } from '../../../http/tail.js'
import type { Kernel } from '../../../kernel/kernel.js'
import { findMissingAgents, hasAgents, readAgentWorkspace } from '../../../kernel/reads/agents.js'
import type { Limits } from '../../../kernel/verbs/budgets/budgets.js'
import { databaseIdentity } from '../../../kernel/reads/database.js'
import { readRequestedTurns, type RequestedTurn } from '../../../kernel/reads/turns.js'
import { openTurnEnds } from './turn-ends.js'

export interface SpawnerOptions {
  readonly kernel: Kernel
  readonly projectId: string
  /** How long the kernel keeps ended turns. Default: one day. */
  readonly retentionMs?: number
  /** The events that announce the ends of turns. Absent: the spawner polls. */
  readonly tail?: Tail | undefined
  readonly clock: Clock
  readonly log: Log
}

export function kernelSpawner(options: SpawnerOptions): Spawner {
  const { kernel, projectId, clock, log, retentionMs = 86_400_000 } = options

  async function readStatuses(keys: readonly string[]): Promise<Map<string, TurnStatus>> {
    const rows = await readRequestedTurns(kernel.db, projectId, keys)
    return new Map(rows.map((row) => [row.inbox_id, statusOf(row)]))
  }

  async function status(key: string): Promise<TurnStatus> {
    return (await readStatuses([key])).get(key) ?? { status: 'unknown' }
  }

  /** null if this account may not read the identity of the database; then the board never repeats a spawn. */
  async function identity(): Promise<KernelIdentity | null> {
    try {
      const row = await databaseIdentity(kernel.db)
      return row === undefined ? null : { id: `${row.id}:${projectId}`, nowMs: row.now_ms, retentionMs }
    } catch (error) {
      if (error instanceof Retryable) throw error
      log.warn({ err: error }, 'cannot read the identity of the database; runs that may not have started need a person')
      return null
    }
  }

  const ends = openTurnEnds({ read: readStatuses, tail: options.tail, clock, log })

  return {
    missingAgents: (names) => findMissingAgents(kernel.db, projectId, names),
    hasAgents: () => hasAgents(kernel.db, projectId),
    kernel: identity,
    workspaceOf: (agent) => readAgentWorkspace(kernel.db, projectId, agent),
    async spawn({ key, taskId, agent, prompt, resumePrompt, purse, degrade, degradePolicy, worktree }) {
      // All runs of the task draw on its purse, and so do their children.
      await kernel.openPurse({ projectId, budgetId: purse.id, ...amountsOf(purse.limits), used: amountsOf(purse.used) })
      const { agentTurnId } = await kernel.enqueue({
        projectId,
        agentId: agent,
        inboxId: key,
        instruction: prompt,
        // An agent with memory `session` knows the earlier runs of the task.
        sessionId: `task-${taskId}`.slice(0, 500).toWellFormed(),
        payload: {
          task_id: taskId,
          degrade_policy: degradePolicy,
          ...(degrade.length > 0 && { degrade }),
          ...(worktree !== undefined && { worktree: worktree.top }),
          ...(resumePrompt !== undefined && { resume_prompt: resumePrompt }),
        },
        budget: { purseId: purse.id },
      })
      return { agentTurnId }
    },
    status,
    ended: (key, signal) => ends.ended(key, signal),
    async stop(key, reason) {
      const now = await status(key)
      if (now.status === 'unknown') {
        throw new InvalidInput(`Cannot stop the run: no turn has the key "${key}"`, {
          code: 'unknown_turn',
          hint: 'the turn may belong to another database, or be older than pmo.retention_days',
        })
      }
      if (now.status === 'active')
        await kernel.stop({ projectId, agentTurnId: now.agentTurnId, stoppedBy: 'the board', reason })
    },
  }
}

function statusOf(row: RequestedTurn): TurnStatus {
  const { agent_turn_id: agentTurnId, outcome, error } = row
  if (outcome === null) {
    const target = row.no_worker_for
    return { status: 'active', agentTurnId, ...(target !== null && { waitsFor: `no worker for target "${target}"` }) }
  }
  const { deliverable, tokenUsage } = outcome === 'success' ? resultOf(row.deliverable) : fallbackOf(row.deliverable)
  return {
    status: 'ended',
    agentTurnId,
    outcome,
    error,
    ...defined({ explanation: outcome === 'success' ? undefined : explanationIn(row.deliverable) }),
    deliverable,
    // The kernel's count is exact; without one, use the number that the agent reported.
    tokenUsage: row.token_usage > 0 ? row.token_usage : tokenUsage,
    inputTokens: Math.max(0, row.token_usage - row.output_tokens - row.cache_write_tokens),
    outputTokens: row.output_tokens,
    cacheReadTokens: row.cache_read_tokens,
    cacheWriteTokens: row.cache_write_tokens,
    costMicros: row.cost_micros,
    elapsedMs: row.elapsed_ms,
    exceededKeys: error === budgetExceeded ? row.exceeded_keys : [],
    agentLimits: row.agent_limits,
  }
}

function amountsOf(amounts: Record<'tokens' | 'costMicros' | 'wallTimeMs', number | null>): Limits {
  const { tokens, costMicros, wallTimeMs } = amounts
  return defined({ tokens: tokens ?? undefined, costMicros: costMicros ?? undefined, wallMs: wallTimeMs ?? undefined })
}

// Enough to see what happened; the kernel's card has all of it.
const fallbackTextMaxChars = 4_000

/**
 * Reads the deliverable of a turn that did not succeed. The result is marked as a fallback, and partial work is never read as a
 * result: an unfinished text may contain the claim that the task is done.
 */
function fallbackOf(content: RequestedTurn['deliverable']): ParsedResult {
  const parsed = fallbackContent.safeParse(content).data
  if (parsed === undefined) return resultOf(content)
  const { code, ended_by: endedBy, reason, started } = parsed.fallback
  const fallback = { code, endedBy, reason, started }
  if (endedBy !== 'worker')
    return { deliverable: { text: parsed.text?.slice(0, fallbackTextMaxChars), fallback }, tokenUsage: 0 }
  const { deliverable, tokenUsage } = resultOf(content)
  return { deliverable: { ...deliverable, fallback }, tokenUsage }
}

const explanationMaxChars = 2_000

/** The reason of a fallback, or the first paragraph of what the executor reported about the failure. */
function explanationIn(content: RequestedTurn['deliverable']): string | undefined {
  const fallback = fallbackContent.safeParse(content).data?.fallback
  const text = fallback?.reason ?? content?.['text']
  if (typeof text !== 'string' || text.trim() === '') return undefined
  return text.trim().split('\n\n', 1)[0]!.slice(0, explanationMaxChars).toWellFormed()
}

/** Reads a deliverable card as a result: its named fields, or the JSON object that its text may contain. */
function resultOf(content: RequestedTurn['deliverable']): ParsedResult {
  if (content === null) return { deliverable: null, tokenUsage: 0 }
  const { fields, text } = content
  if (Array.isArray(fields)) {
    const named = (fields as { name: string; value: unknown }[]).map(({ name, value }) => [name, value] as const)
    return parseResult(JSON.stringify(Object.fromEntries(named)))
  }
  return typeof text === 'string' ? parseResult(text) : { deliverable: content, tokenUsage: 0 }
}

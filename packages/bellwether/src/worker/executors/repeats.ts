/**
 * Detects an agent that repeats itself: the same tool calls with the same arguments and the same results, once or in a cycle of a
 * few calls. A call whose result changes, as in polling, is progress. Pure; memory is bounded.
 */
import { createHash } from 'node:crypto'
import { canonicalJson } from '@bellwether/base'
import type { NewTranscriptEntry } from '../../kernel/verbs/content/append_transcript.js'

/** One call, two that alternate, or three in turn. */
const cycleMax = 3
const pendingMax = 100

/** `budget.max_repeats` of an agent file that does not set it. */
export const defaultMaxRepeats = 6
export const noProgress = 'no_progress'

/** How many exchanges a count up to `maxRepeats` looks at. */
export const exchangesKept = (maxRepeats: number) => maxRepeats * cycleMax

/** Whether to warn the agent: it has made half of the allowed repeats. */
export const isWarned = (repeats: number, maxRepeats: number) => repeats >= Math.max(2, Math.ceil(maxRepeats / 2))

/** A short text that is the same for equal values; the order of keys in the arguments of a call means nothing. */
export function exchangeOf(...values: readonly unknown[]): string {
  return createHash('sha256').update(canonicalJson(values)).digest('base64url').slice(0, 16)
}

/** How often in a row the cycle at the end of these exchanges occurs. */
export function repeatsOf(exchanges: readonly string[]): number {
  let most = 0
  for (let cycle = 1; cycle <= Math.min(cycleMax, exchanges.length); cycle += 1) {
    let length = cycle
    while (length < exchanges.length && exchanges.at(-length - 1) === exchanges.at(-length - 1 + cycle)) length += 1
    most = Math.max(most, Math.floor(length / cycle))
  }
  return most
}

/** Counts the repeats of a coding agent by the entries of its transcript. Returns the count after each result. */
export function countRepeats(maxRepeats: number): (entry: NewTranscriptEntry) => number {
  const pending = new Map<string, readonly unknown[]>()
  const exchanges: string[] = []
  return ({ kind, content, callId, name }) => {
    if (callId === undefined) return 0
    if (kind === 'tool_call') {
      if (pending.size < pendingMax) pending.set(callId, [name, content])
      return 0
    }
    const call = kind === 'tool_result' ? pending.get(callId) : undefined
    if (call === undefined) return 0
    // A program reports some calls without a result. They happened all the same: they are not part of this repeat.
    for (const [id, earlier] of pending) {
      pending.delete(id)
      exchanges.push(exchangeOf(earlier, id === callId ? content : null))
      if (id === callId) break
    }
    exchanges.splice(0, exchanges.length - exchangesKept(maxRepeats))
    return repeatsOf(exchanges)
  }
}

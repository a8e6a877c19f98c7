/**
 * Detects an agent that repeats itself: the same tool calls with the same arguments and the same results, once or in a cycle of a
 * few calls. A call whose result changes, as in polling, is progress. Pure; memory is bounded.
 */
import { createHash } from 'node:crypto'
import { canonicalJson } from '@bellwether/base'
import type { NewTranscriptEntry } from '../../kernel/verbs/content/append_transcript.js'

/** One call, two that alternate, or three in turn. */
const cycleMax = 3

/** `budget.max_repeats` of an agent file that does not set it. */
export const defaultMaxRepeats = 6
export const noProgress = 'no_progress'

/** How many exchanges a count up to `maxRepeats` looks at. */
export const exchangesKept = (maxRepeats: number) => maxRepeats * cycleMax

/** Whether to warn the agent: it has made half of the allowed repeats. */
export const isWarned = (repeats: number, maxRepeats: number) => repeats >= Math.max(2, Math.ceil(maxRepeats / 2))

export const repeatWarning = (repeats: number, maxRepeats: number) =>
  `You have repeated the same tool calls ${repeats} times with the same results. Do something else, or end with what you have. After ${maxRepeats} times the turn fails.`

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

/**
 * Counts the repeats of a coding agent by the entries of its transcript. Returns the count after each result. Calls that run at the same time may
 * report their results in any order: an exchange has the place of its call, and gets its result when it comes.
 */
export function countRepeats(maxRepeats: number): (entry: NewTranscriptEntry) => number {
  // A program reports some calls without a result. They happened all the same: they are not part of a repeat of the calls around them.
  const exchanges: { callId: string; call: readonly unknown[]; value: string }[] = []
  return ({ kind, content, callId, name }) => {
    if (callId === undefined) return 0
    if (kind === 'tool_call') {
      const call = [name, content]
      exchanges.push({ callId, call, value: exchangeOf(call, null) })
      exchanges.splice(0, exchanges.length - exchangesKept(maxRepeats))
      return 0
    }
    const exchange = kind === 'tool_result' ? exchanges.findLast((one) => one.callId === callId) : undefined
    if (exchange === undefined) return 0
    exchange.value = exchangeOf(exchange.call, content)
    return repeatsOf(exchanges.map(({ value }) => value))
  }
}

/** Warns a coding agent once per series of repeats, and stops it at the limit. */
export function guardRepeats(
  maxRepeats: number,
  { warn, stop }: { readonly warn: (text: string) => void; readonly stop: () => void },
): (entry: NewTranscriptEntry) => void {
  const count = countRepeats(maxRepeats)
  let warned = false
  return (entry) => {
    const repeats = count(entry)
    if (repeats >= maxRepeats) return stop()
    if (repeats === 0) return
    const warns = isWarned(repeats, maxRepeats)
    if (warns && !warned) warn(repeatWarning(repeats, maxRepeats))
    warned = warns
  }
}

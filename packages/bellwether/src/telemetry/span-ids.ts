/**
 * Ids of spans, made from the ids of what they speak of: whoever tells of a turn, a step or a tool call tells it under the same id, before
 * and after a takeover, once or twice. Pure. A fork's children find the span of their parent's tool call by the same rule in SQL
 * (open_batches.sql).
 */
import { createHash } from 'node:crypto'

const traceparentPattern = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/

export interface TraceParent {
  readonly traceId: string
  readonly spanId: string
  readonly sampled: boolean
}

export function parseTraceparent(text: string | null): TraceParent | undefined {
  const parts = traceparentPattern.exec(text ?? '')
  if (parts === null) return undefined
  const [, traceId = '', spanId = '', flags = ''] = parts
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 }
}

/** The kernel gives a turn without a trace one whose root it is itself: see kernel/trace.ts. */
export function turnSpanId(agentTurnId: string): string {
  const hex = agentTurnId.replaceAll('-', '')
  return /^[0-9a-f]{32}$/.test(hex) ? hex.slice(16) : spanIdOf('turn', agentTurnId)
}

/** The beginning of the id that a fork by this call has as a batch: see batchIdOfCall in kernel/fork.ts. */
export function toolSpanId(projectId: string, toolCallId: string): string {
  const hex = hash('call', projectId, toolCallId)
  return `${hex.slice(0, 12)}8${hex.slice(13, 16)}`
}

export function spanIdOf(...names: readonly string[]): string {
  const hex = hash(...names).slice(0, 16)
  // All zeros is no id.
  return /[^0]/.test(hex) ? hex : '0000000000000001'
}

function hash(...names: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(names)).digest('hex')
}

/** The same traces are chosen by every process, and the whole of each. */
export function isChosen(traceId: string, ratio: number): boolean {
  return ratio >= 1 || Number.parseInt(traceId.slice(-8), 16) / 2 ** 32 < ratio
}

/**
 * Derives span ids from the ids of turns, steps and tool calls, so that every process exports a span under the same id, also after a
 * takeover or a repeated export. Pure. The SQL of a fork derives the span of the parent's tool call by the same rule.
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

/** The kernel starts a trace with this span for a turn without one; see kernel/trace.ts. */
export function turnSpanId(agentTurnId: string): string {
  const hex = agentTurnId.replaceAll('-', '')
  return /^[0-9a-f]{32}$/.test(hex) ? hex.slice(16) : spanIdOf('turn', agentTurnId)
}

/** The beginning of the id of the batch that a fork by this call opens; see `batchIdOfCall`. */
export function toolSpanId(projectId: string, toolCallId: string): string {
  const hex = hash('call', projectId, toolCallId)
  return `${hex.slice(0, 12)}8${hex.slice(13, 16)}`
}

export function spanIdOf(...names: readonly string[]): string {
  const hex = hash(...names).slice(0, 16)
  // An id of zeros is invalid.
  return /[^0]/.test(hex) ? hex : '0000000000000001'
}

function hash(...names: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(names)).digest('hex')
}

/** Samples complete traces; every process chooses the same ones. */
export function isSampled(traceId: string, ratio: number): boolean {
  return ratio >= 1 || Number.parseInt(traceId.slice(-8), 16) / 2 ** 32 < ratio
}

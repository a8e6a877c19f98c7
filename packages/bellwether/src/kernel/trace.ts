/**
 * W3C trace context. A turn without a trace of its caller has its own trace, whose id is derived from the turn's id, so that each can be found
 * from the other. It is not stored: `state.trace_of` and `ownTraceparent` derive it.
 */
import { InvalidInput } from '@bellwether/protocol'

const pattern = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/
const uuidLength = 36

/** The trace context of a caller, checked. */
export function checkTraceparent(traceparent: string | undefined): string | undefined {
  if (traceparent === undefined || pattern.test(traceparent)) return traceparent
  throw new InvalidInput(`Invalid traceparent ${JSON.stringify(traceparent.slice(0, 80))}: not a W3C trace context`, {
    code: 'invalid_traceparent',
    hint: 'omit it, or send 00-<32 hex>-<16 hex>-<2 hex>',
  })
}

/** The trace context of a turn whose caller sent none; null if the id of the turn is not a UUID. */
export function ownTraceparent(agentTurnId: string): string | null {
  if (agentTurnId.length !== uuidLength) return null
  const hex = agentTurnId.replaceAll('-', '')
  return `00-${hex}-${hex.slice(16)}-01`
}

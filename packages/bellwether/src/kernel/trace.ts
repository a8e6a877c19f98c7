/**
 * W3C trace context. A turn without a trace starts one whose id is derived from the turn's id, so that each can be found from the other.
 */
import { InvalidInput } from '@bellwether/protocol'

const pattern = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/

export function traceparentOf(agentTurnId: string, traceparent: string | undefined): string {
  if (traceparent !== undefined) {
    if (pattern.test(traceparent)) return traceparent
    throw new InvalidInput(`Invalid traceparent ${JSON.stringify(traceparent.slice(0, 80))}: not a W3C trace context`, {
      code: 'invalid_traceparent',
      hint: 'omit it, or send 00-<32 hex>-<16 hex>-<2 hex>',
    })
  }
  const hex = agentTurnId.replaceAll('-', '')
  return `00-${hex}-${hex.slice(16)}-01`
}

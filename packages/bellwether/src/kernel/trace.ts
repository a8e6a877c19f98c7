/**
 * W3C trace context. A turn that comes without a trace starts one whose id is its own, so that a trail can be found from
 * either end; nothing random is needed.
 */
import { InvalidInput } from '@bellwether/protocol'

const pattern = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/

export function traceparentOf(agentTurnId: string, given: string | undefined): string {
  if (given !== undefined) {
    if (pattern.test(given)) return given
    throw new InvalidInput(`traceparent ${JSON.stringify(given.slice(0, 80))} is not a W3C trace context`, {
      code: 'invalid_traceparent',
      hint: 'leave it out, or send 00-<32 hex>-<16 hex>-<2 hex>',
    })
  }
  const hex = agentTurnId.replaceAll('-', '')
  return `00-${hex}-${hex.slice(16)}-01`
}

/**
 * Whom an agent comes from that was made for one task (`NAME-TURN`, see kernel/fork.ts). Pure. The name in the payload is believed
 * only where the agent's own id is made of it and of the turn's id, which nobody but the kernel puts together.
 */
import type { ClaimedTurn } from '../kernel/verbs/turn/claim.js'

// As the kernel cuts it.
const nameMax = 80
const turnSuffix = /-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** The nearest first: a copy of a copy comes from both. Empty: the agent is its own. */
export function originsOf({
  agentId,
  agentTurnId,
  payload,
}: Pick<ClaimedTurn, 'agentId' | 'agentTurnId' | 'payload'>): string[] {
  const ref = payload['target_ref']
  if (typeof ref !== 'string' || agentId !== `${ref.slice(0, nameMax)}-${agentTurnId}`) return []
  const origins = [ref]
  for (let name = ref; turnSuffix.test(name);) {
    name = name.replace(turnSuffix, '')
    origins.push(name)
  }
  return origins
}

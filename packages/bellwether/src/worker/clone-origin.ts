/**
 * The agent that a clone was made from. The kernel names an agent that it creates for one task `NAME-TURN` (kernel/verbs/fork.ts).
 * Pure. The name in the payload is trusted only if the agent's id consists of it and the turn's id, because only the kernel
 * creates such ids.
 */
import type { ClaimedTurn } from '../kernel/verbs/turn/claim.js'

// The kernel truncates names to the same length.
const nameMax = 80
const turnSuffix = /-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** Nearest first: the clone of a clone has both as origins. Empty if the agent is not a clone. */
export function cloneOriginsOf({
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

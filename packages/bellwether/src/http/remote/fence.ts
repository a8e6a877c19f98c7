/**
 * The fence of a request of an HTTP worker, and the check of its lease token. Only the worker of the last claim passes. One that has lost the
 * turn gets `stale`; a request that shows no token, or one that was never in force, is refused and goes into the audit log.
 */
import { timingSafeEqual } from 'node:crypto'
import { Terminal } from '@bellwether/protocol'
import { hashLeaseToken } from '../../kernel/access/lease-tokens.js'
import type { Kernel } from '../../kernel/kernel.js'
import { turnOwner, type TurnOwner } from '../../kernel/reads/work.js'
import type { Fence } from '../../kernel/verdict.js'
import { notFound } from '../api.js'
import type { Grant } from '../auth.js'
import { mustReachProject, mustReachTarget } from '../roles.js'

export const stale = () =>
  new Terminal('This worker no longer holds the turn; nothing was changed', {
    code: 'stale',
    hint: 'stop working on the turn: another worker holds it, or it has ended',
  })

interface ShownFence {
  readonly turn_epoch: number
  readonly lease_token?: string | undefined
}

/** The database knows the turn's project and agent; the worker sends its epoch and the token of its claim. */
export async function fenceOf(
  { db }: Pick<Kernel, 'db'>,
  grant: Grant,
  turn: string,
  { turn_epoch: turnEpoch, lease_token: leaseToken }: ShownFence,
): Promise<Fence & Pick<TurnOwner, 'claimedBy'>> {
  const owner = await turnOwner(db, turn)
  if (owner === undefined) throw notFound(`Turn ${turn}`)
  const { projectId, agentId, claimedBy, lease } = owner
  mustReachProject(grant, projectId)
  // The agent may have moved to another target since the claim.
  mustReachTarget(grant, lease?.workerTarget ?? owner.workerTarget)
  mustHold(owner, leaseToken)
  return { projectId, agentId, claimedBy, agentTurnId: turn, turnEpoch }
}

function mustHold({ lease, claimedBy }: TurnOwner, leaseToken: string | undefined): void {
  if (leaseToken === undefined)
    throw new Terminal('The request has no lease_token', {
      code: 'lease_token_missing',
      hint: 'send the lease_token of the claim with every request for the turn',
    })
  const hash = hashLeaseToken(leaseToken)
  if (lease !== null && timingSafeEqual(lease.tokenHash, hash)) {
    // A worker with a database connection of its own has resumed the turn; a reclaim has taken it from this one.
    if (lease.workerId !== claimedBy) throw stale()
    return
  }
  if (lease !== null && lease.previousHash !== null && timingSafeEqual(lease.previousHash, hash)) throw stale()
  throw new Terminal('The lease_token is not the one of the turn’s last claim; nothing was changed', {
    code: 'wrong_lease_token',
    hint: 'stop working on the turn; a claim returns the turns that this worker may work on, with their tokens',
  })
}

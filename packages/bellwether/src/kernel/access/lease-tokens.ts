/**
 * The lease tokens of claims over HTTP: a random secret per claim, which every later request for the turn must show. The database stores
 * only its hash. The next claim of the turn replaces it, so that the earlier worker can do nothing, even if the epoch is the same.
 */
import { createHash } from 'node:crypto'
import type { Random } from '@bellwether/base'
import type { Queryable } from '../../ports/database/database.js'
import type { Fence } from '../verdict.js'

const tokenBytes = 32

export const newLeaseToken = (random: Pick<Random, 'bytes'>): string =>
  Buffer.from(random.bytes(tokenBytes)).toString('base64url')

export const hashLeaseToken = (leaseToken: string): Buffer => createHash('sha256').update(leaseToken).digest()

export interface NewLease {
  readonly fence: Fence
  readonly leaseToken: string
}

export interface Holder {
  readonly workerId: string
  readonly workerTarget: string
  /** The API key of the claim. */
  readonly keyId: string
}

/**
 * Stores the tokens of claimed turns and returns the turns whose token is now in force: not those that a later claim holds already. A
 * resume does not raise the epoch: pass `sameEpoch` in the transaction that resumes.
 */
export async function putLeaseTokens(
  db: Queryable,
  leases: readonly NewLease[],
  { workerId, workerTarget, keyId }: Holder,
  sameEpoch = false,
): Promise<Set<string>> {
  if (leases.length === 0) return new Set()
  const rows = await db.query<{ agent_turn_id: string }>({
    name: 'bw_put_lease_tokens',
    text: `insert into state.lease_tokens as l (agent_turn_id, turn_epoch, token_hash, worker_id, worker_target, key_id)
      select x.agent_turn_id, x.turn_epoch, x.token_hash, $4, $5, $6
      from unnest($1::text[], $2::bigint[], $3::bytea[]) as x (agent_turn_id, turn_epoch, token_hash)
      on conflict (agent_turn_id) do update set turn_epoch = excluded.turn_epoch, token_hash = excluded.token_hash,
        previous_hash = l.token_hash, worker_id = excluded.worker_id, worker_target = excluded.worker_target,
        key_id = excluded.key_id, claimed_at = excluded.claimed_at
      where l.turn_epoch < excluded.turn_epoch or ($7 and l.turn_epoch = excluded.turn_epoch)
      returning l.agent_turn_id`,
    values: [
      leases.map(({ fence }) => fence.agentTurnId),
      leases.map(({ fence }) => fence.turnEpoch),
      leases.map(({ leaseToken }) => hashLeaseToken(leaseToken)),
      workerId,
      workerTarget,
      keyId,
      sameEpoch,
    ],
  })
  return new Set(rows.map((row) => row.agent_turn_id))
}

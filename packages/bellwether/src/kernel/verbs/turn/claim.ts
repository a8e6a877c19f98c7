/** A worker takes work: turns to run, and suspended turns whose last result has come. */
import type { MessageType } from '@bellwether/protocol'
import type { Queryable } from '../../../ports/database/database.js'
import type { Fence, Verdict } from '../../verdict.js'

export interface ClaimedTurn extends Fence {
  /** `turn`: start, or go on from the cards of a worker that fell silent. `resume`: every awaited result is there. */
  readonly kind: 'turn' | 'resume'
  readonly inboxId: string
  readonly messageType: MessageType
  readonly channelId: string
  readonly payload: Readonly<Record<string, unknown>>
  readonly attempts: number
  readonly recursionDepth: number
  readonly traceparent: string | null
  readonly correlationId: string | null
  readonly profileId: string | null
  readonly contextBoxId: string | null
  readonly outputBoxId: string | null
  readonly turnDeadline: Date
  readonly takenOver: boolean
}

interface ClaimRow extends Verdict {
  readonly message_type: MessageType
  readonly payload: Readonly<Record<string, unknown>>
  readonly attempts: number
  readonly recursion_depth: number
  readonly traceparent: string | null
  readonly correlation_id: string | null
  readonly profile_id: string | null
  readonly context_box_id: string | null
  readonly output_box_id: string | null
  readonly turn_deadline: Date
}

export interface Claimed {
  readonly turns: readonly ClaimedTurn[]
  /** A head was busy with someone else: step once more. */
  readonly again: boolean
  /** Leases that stop rows made free, refused rows, partial receipts. */
  readonly others: readonly Verdict[]
}

export interface Claimant {
  readonly workerTarget: string
  readonly workerId: string
  readonly max: number
  readonly resumeLeaseSeconds: number
}

export async function claim(db: Queryable, claimant: Claimant): Promise<Claimed> {
  return sorted(await ask(db, 'claim', claimant))
}

/** W2.3b: turns whose results are all there and whose worker did not live to apply them. */
export async function reconcile(db: Queryable, claimant: Claimant): Promise<Claimed> {
  return sorted(await ask(db, 'reconcile', claimant))
}

async function ask(db: Queryable, verb: 'claim' | 'reconcile', claimant: Claimant): Promise<ClaimRow[]> {
  return db.query<ClaimRow>({
    name: `bw_${verb}`,
    text: `select * from state.${verb}($1, $2, $3, $4)`,
    values: [claimant.workerTarget, claimant.workerId, claimant.max, claimant.resumeLeaseSeconds],
  })
}

function sorted(rows: readonly ClaimRow[]): Claimed {
  const turns: ClaimedTurn[] = []
  const others: Verdict[] = []
  let again = false
  for (const row of rows) {
    if (row.what === 'again') again = true
    else if (row.what === 'turn' || row.what === 'resume') turns.push(claimedTurn(row, row.what))
    else others.push(row)
  }
  return { turns, again, others }
}

/** Hot: every field by name, in one object. A spread would make two, and copying is what costs. */
function claimedTurn(row: ClaimRow, kind: 'turn' | 'resume'): ClaimedTurn {
  return {
    projectId: row.project_id,
    agentId: row.agent_id,
    agentTurnId: row.agent_turn_id,
    turnEpoch: row.turn_epoch,
    kind,
    inboxId: row.inbox_id,
    messageType: row.message_type,
    channelId: row.channel_id ?? 'public',
    payload: row.payload,
    attempts: row.attempts,
    recursionDepth: row.recursion_depth,
    traceparent: row.traceparent,
    correlationId: row.correlation_id,
    profileId: row.profile_id,
    contextBoxId: row.context_box_id,
    outputBoxId: row.output_box_id,
    turnDeadline: row.turn_deadline,
    takenOver: (row.detail as { taken_over?: boolean } | null)?.taken_over === true,
  }
}

/** Claim: a worker takes pending turns, and suspended turns whose last result has arrived. */
import type { MessageType } from '@bellwether/protocol'
import type { Queryable } from '../../../ports/database/database.js'
import { ownTraceparent } from '../../trace.js'
import { callWith, type Fence, type Verdict } from '../../verdict.js'

/** What a claim does besides handing out turns: it ends stopped turns, refuses invalid rows and applies partial receipts. */
type ClaimSideVerdict = Verdict<'received' | 'refused' | 'ended' | 'leased'>
type ClaimWhat = 'turn' | 'resume' | 'again' | 'held_back' | ClaimSideVerdict['what']

export interface ClaimedTurn extends Fence {
  /** `turn`: start the turn, or continue it from the cards of a silent worker. `resume`: every awaited result has arrived. */
  readonly kind: 'turn' | 'resume'
  readonly inboxId: string
  readonly messageType: MessageType
  readonly channelId: string
  readonly payload: Readonly<Record<string, unknown>>
  readonly deaths: number
  readonly recursionDepth: number
  readonly traceparent: string | null
  readonly correlationId: string | null
  readonly profileId: string | null
  readonly contextBoxId: string | null
  readonly outputBoxId: string | null
  readonly turnDeadline: Date
  readonly takenOver: boolean
}

export interface ClaimRow extends Verdict<ClaimWhat, { readonly taken_over?: boolean } | null> {
  readonly message_type: MessageType
  readonly payload: Readonly<Record<string, unknown>>
  readonly deaths: number
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
  /** Another session had locked a head, or more rows are pending: claim again. */
  readonly again: boolean
  /** A turn that shared worker deaths leaves no room for more: claim again when a turn of this worker has ended. */
  readonly heldBack: boolean
  readonly others: readonly ClaimSideVerdict[]
}

/** A claim as a worker gets it. */
export interface Claim {
  readonly turns: readonly ClaimedTurn[]
  readonly again: boolean
  readonly heldBack: boolean
  readonly refused: readonly ClaimSideVerdict[]
}

export const claimOf = ({ turns, again, heldBack, others }: Claimed): Claim => ({
  turns,
  again,
  heldBack,
  refused: others.filter((verdict) => verdict.what === 'refused'),
})

export interface Claimant {
  readonly workerTarget: string
  readonly workerId: string
  readonly max: number
  readonly resumeLeaseSeconds: number
  /** Only turns of this project. */
  readonly projectId?: string | undefined
}

export async function claim(db: Queryable, claimant: Claimant): Promise<Claimed> {
  return claimedOf(await callClaim(db, 'claim', claimant))
}

/** W2.3b: takes turns whose results have all arrived and whose worker died before it applied them. */
export async function reconcile(db: Queryable, claimant: Claimant): Promise<Claimed> {
  return claimedOf(await callClaim(db, 'reconcile', claimant))
}

async function callClaim(db: Queryable, verb: 'claim' | 'reconcile', claimant: Claimant): Promise<ClaimRow[]> {
  const { workerTarget, workerId, max, resumeLeaseSeconds, projectId = null } = claimant
  return callWith<ClaimRow>(db, verb, workerTarget, workerId, max, resumeLeaseSeconds, projectId)
}

export function claimedOf(rows: readonly ClaimRow[]): Claimed {
  const turns: ClaimedTurn[] = []
  const others: ClaimSideVerdict[] = []
  let again = false
  let heldBack = false
  for (const row of rows) {
    const { what } = row
    if (what === 'again') again = true
    else if (what === 'held_back') heldBack = true
    else if (what === 'turn' || what === 'resume') turns.push(claimedTurn(row, what))
    else others.push({ ...row, what })
  }
  return { turns, again, heldBack, others }
}

/** Hot path: one object literal with every field, because a spread would copy twice. */
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
    deaths: row.deaths,
    recursionDepth: row.recursion_depth,
    traceparent: row.traceparent ?? ownTraceparent(row.agent_turn_id),
    correlationId: row.correlation_id,
    profileId: row.profile_id,
    contextBoxId: row.context_box_id,
    outputBoxId: row.output_box_id,
    turnDeadline: row.turn_deadline,
    takenOver: row.detail?.taken_over === true,
  }
}

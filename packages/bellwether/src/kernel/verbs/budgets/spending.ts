/**
 * Spending limits per calendar day and month, for projects, agents and models. Reservations and steps count in the transaction that
 * writes them, so that concurrent turns together never reserve more than a limit; only a call that uses more than it reserved, or a
 * program whose usage is reported afterwards, can exceed one.
 */
import type { SpendingAction } from '@bellwether/protocol'
import type { Queryable } from '../../../ports/database/database.js'
import type { Ids } from '../../../ports/ids.js'
import type { SpendingLimit } from '../../../settings/spending.js'
import { callWith, type Fence, type Verdict } from '../../verdict.js'

/** A limit that does not cover a call, and what to do about it. */
export interface SpendingShort {
  /** What it limits, such as `agent coder day`. */
  readonly limit: string
  readonly action: SpendingAction
  /** The end of the period. */
  readonly until: string
  /** What is left; null: not limited. */
  readonly tokens: number | null
  readonly cost_micros: number | null
}

const limitId = ({ scope, name, period }: SpendingLimit) => [scope, name, period].filter(Boolean).join(' ')

/** Sets the limits to exactly these. */
export async function setSpendingLimits(
  db: Queryable,
  limits: readonly SpendingLimit[],
  { action, timeZone }: { readonly action: SpendingAction; readonly timeZone: string },
): Promise<void> {
  const rows = limits.map((limit) => ({
    limit_id: limitId(limit),
    scope: limit.scope,
    name: limit.name ?? null,
    period: limit.period,
    token_limit: limit.tokens ?? null,
    cost_micros_limit: limit.costMicros ?? null,
    action,
    time_zone: timeZone,
  }))
  await db.query({ text: 'select state.set_spending_limits($1::json)', values: [JSON.stringify(rows)] })
}

export type Metered = 'unmetered' | 'stale' | { readonly usedUp: SpendingShort | null }

/** Before a turn spends. `usedUp`: a limit of which nothing is left. */
export async function meterSpending(
  db: Queryable,
  ids: Ids,
  { projectId, agentId, agentTurnId, turnEpoch }: Fence,
  model: string | undefined,
): Promise<Metered> {
  const [verdict] = await callWith<Verdict<'metered' | 'unmetered' | 'stale', SpendingShort | null>>(
    db,
    'meter_spending',
    projectId,
    agentId,
    agentTurnId,
    turnEpoch,
    ids.next(),
    model ?? null,
  )
  if (verdict === undefined) throw new Error('state.meter_spending returned no verdict')
  return verdict.what === 'metered' ? { usedUp: verdict.detail } : verdict.what
}

export interface SpendingAlert {
  readonly limit_id: string
  readonly project_id: string
  readonly starts_at: Date
  readonly ends_at: Date
  readonly percent: number
  readonly action: SpendingAction
  readonly tokens_used: number
  readonly token_limit: number | null
  readonly cost_micros_used: number
  readonly cost_micros_limit: number | null
}

const alertsMax = 100

/** The periods that have reached 80 % or 100 % of a limit since the last call; each share is returned once per period. */
export const claimSpendingAlerts = (db: Queryable) => callWith<SpendingAlert>(db, 'claim_spending_alerts', alertsMax)

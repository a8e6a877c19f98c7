/**
 * What the spending limits do to a turn, before it starts, while it runs and when it reports usage. The kernel counts and decides; a limit
 * with the action `hold`, or with one that a running program cannot take, parks the turn.
 */
import { budgetExceeded } from '@bellwether/protocol'
import type { Metered, SpendingShort } from '../kernel/verbs/budgets/spending.js'
import type { Step } from '../kernel/verbs/content/record.js'
import type { AccountGate, AgentFunction, TurnAction } from './agent.js'
import { endsTurn } from './degrade.js'

type Gate = Pick<AccountGate, 'holdSpending'>

/** Before a turn starts. If a limit is used up, a turn whose calls are not reserved one by one waits or ends. */
export async function meter(
  metered: Exclude<Metered, 'stale'>,
  { reserves }: NonNullable<AgentFunction['spends']>,
  gate: Gate,
): Promise<'metered' | TurnAction | undefined> {
  if (metered === 'unmetered') return undefined
  const { usedUp } = metered
  if (usedUp === null || reserves) return 'metered'
  return endsTurn(usedUp.action) ? ended('The turn was not started', usedUp) : gate.holdSpending(usedUp)
}

/** After a running turn was stopped. `action`: what its executor returned; a result that was complete before is delivered. */
export async function stoppedBy(
  usedUp: SpendingShort,
  action: TurnAction | undefined,
  gate: Gate,
): Promise<TurnAction> {
  if (action !== undefined) return action
  return endsTurn(usedUp.action) ? ended('The turn was stopped', usedUp) : gate.holdSpending(usedUp)
}

const ended = (what: string, { limit }: SpendingShort): TurnAction => ({
  deliver: { text: `${what}: the spending limit "${limit}" is used up.` },
  status: 'failed',
  error: budgetExceeded,
})

/** Whether the step reports usage that no reservation has charged. */
export const reportsUsage = ({ metadata }: Step): boolean =>
  (metadata?.['usage'] !== undefined || metadata?.['cost_micros'] !== undefined) && metadata['charged'] !== true

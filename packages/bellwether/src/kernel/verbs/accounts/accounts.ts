/**
 * Holds of accounts: a limit of a provider suspends the turns of its account until a probe succeeds. The rows of the holds decide, so
 * that all workers together make one probe per window, also after a restart.
 */
import { InvalidInput } from '@bellwether/protocol'
import type { Queryable } from '../../../ports/database/database.js'
import type { Ids } from '../../../ports/ids.js'
import { plainText } from '../../content.js'
import { accountHold } from '../../pmo-tools.js'
import { call, callWith, fenceRow, type Fence, type Verdict } from '../../verdict.js'
import type { ReportResult } from '../tools/report.js'
import type { Suspended } from '../turn/suspend.js'

/** Why and until when the turns of an account wait. */
export interface Hold {
  readonly account: string
  readonly until: Date
  readonly reason: string
}

/** `probe`: the window of a hold is over, and this call shows whether the account works. End the hold if it does. */
export type Entered = { readonly what: 'free' | 'probe' | 'stale' } | { readonly what: 'held'; readonly hold: Hold }

export interface Limit {
  readonly account: string
  /** When the provider says that the account works again. Absent: it does not say. */
  readonly until?: Date | undefined
  readonly reason: string
}

const accountMaxChars = 200
const reasonMaxChars = 500

function accountName(name: string): string {
  const plain = plainText(name, 'account')
  if (plain.length <= accountMaxChars) return plain
  throw new InvalidInput(`"account" must have at most ${accountMaxChars} characters (got ${plain.length})`, {
    code: 'invalid_account',
  })
}

/** Before each call that is charged to the account. */
export async function enterAccount(db: Queryable, fence: Fence, account: string): Promise<Entered> {
  const { projectId, agentId, agentTurnId, turnEpoch } = fence
  const [row] = await callWith<{ what: Entered['what']; until: Date; reason: string }>(
    db,
    'enter_account',
    projectId,
    agentId,
    agentTurnId,
    turnEpoch,
    accountName(account),
  )
  if (row === undefined) throw new Error('state.enter_account returned no verdict')
  return row.what === 'held'
    ? { what: 'held', hold: { account, until: row.until, reason: row.reason } }
    : { what: row.what }
}

/** Holds the account until the reset, at most `maxSeconds`. */
export async function holdAccount(db: Queryable, fence: Fence, limit: Limit, maxSeconds: number): Promise<Hold> {
  const account = accountName(limit.account)
  const [row] = await callWith<{ until: Date; reason: string }>(
    db,
    'hold_account',
    fence.agentTurnId,
    fence.turnEpoch,
    account,
    limit.until ?? null,
    limit.reason.toWellFormed().replaceAll('\0', '').slice(0, reasonMaxChars),
    maxSeconds,
  )
  if (row === undefined) throw new Error('state.hold_account returned no hold')
  return { account, ...row }
}

/** Ends the hold if the fence is that of its probe; without a fence, in any case. False if there is no such hold. */
export async function endHold(db: Queryable, account: string, by: string, fence?: Fence): Promise<boolean> {
  const [row] = await db.query<{ ended: boolean }>({
    name: 'bw_end_hold',
    text: 'select state.end_hold($1, $2, $3, $4) as ended',
    values: [accountName(account), plainText(by, 'by'), fence?.agentTurnId ?? null, fence?.turnEpoch ?? null],
  })
  return row?.ended ?? false
}

/** What lists and events show as the tool of a parked turn. */
const waitsForAccount = ({ account, until }: Pick<Hold, 'account' | 'until'>) =>
  `account ${account} until ${until.toISOString().slice(11, 16)} UTC`

/** Suspends a turn until its account is free. `seconds` is the last resort if nothing releases it. */
export async function park(db: Queryable, ids: Ids, fence: Fence, hold: Hold, seconds: number): Promise<Suspended> {
  const toolCallId = ids.next()
  const wait = {
    tool_call_id: toolCallId,
    tool_name: accountHold,
    card_id: ids.next(),
    arguments: { account: hold.account, until: hold.until.toISOString(), reason: hold.reason },
    hosted_by: accountHost,
    shown: waitsForAccount(hold),
  }
  const [verdict] = await call<Verdict<Suspended>>(
    db,
    'park',
    [{ ...fenceRow(fence), step_id: ids.next(), calls: [wait] }],
    hold.account,
    seconds,
  )
  return verdict?.what ?? 'stale'
}

// In the SQL of state.working_ms too: this time is not working time.
const accountHost = 'account'

// Turns that one call continues: keeps it under 50 ms.
export const releaseMax = 200

/** Continues the turns of accounts without a hold, and one turn as the probe of each window that is over. */
export const releaseParked = (db: Queryable, ids: Ids) =>
  callWith<Verdict<ReportResult>>(
    db,
    'release_parked',
    Array.from({ length: 2 * releaseMax }, () => ids.next()),
  )

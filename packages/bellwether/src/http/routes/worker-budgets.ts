/**
 * The budget of a turn, for HTTP workers: reserve before a call, commit what it used, or release it. The kernel's verbs decide, under the
 * fence. A reservation id belongs to one epoch of a turn, so that a worker that takes the turn over may use the same ids.
 */
import { InvalidInput, type BudgetKey } from '@bellwether/protocol'
import { readReservationState } from '../../kernel/reads/budgets.js'
import type { Ask, BudgetLeft, Committed } from '../../kernel/verbs/budgets/budgets.js'
import type { Fence } from '../../kernel/verdict.js'
import type { Api, KernelParts } from '../api.js'
import { fenceOf, stale } from '../remote/fence.js'

/** What a worker learns about its budget. */
export function budgetState(left: BudgetLeft | null) {
  if (left === null) return { left, exceeded_keys: [] }
  const { tokens, costMicros, wallMs, exceededKeys } = left
  return { left: { tokens, cost_micros: costMicros, wall_ms: wallMs }, exceeded_keys: exceededKeys }
}

const idOf = ({ agentTurnId, turnEpoch }: Fence, id: string) => `http:${agentTurnId}:${turnEpoch}:${id}`

export function workerBudgetRoutes(api: Api, { kernel }: KernelParts): void {
  api('POST /turns/:turn/reserve', async ({ params, body, grant }) => {
    const fence = await fenceOf(kernel, grant, params.turn, body)
    const ask = { reservationId: idOf(fence, body.reservation_id), tokens: body.tokens, costMicros: body.cost_micros }
    await kernel.meterSpending(fence, undefined)
    const { what, left } = await kernel.reserve(fence, ask)
    if (what === 'stale') {
      const { holds, known } = await readReservationState(kernel.db, fence, ask.reservationId)
      throw holds && known ? alreadySettled(body.reservation_id) : stale()
    }
    const state = budgetState(left)
    return { status: what, ...state, ...(what === 'exceeded' && { exceeded_keys: shortKeys(ask, left) }) }
  })

  api('POST /turns/:turn/commit', async ({ params, body, grant }) => {
    const fence = await fenceOf(kernel, grant, params.turn, body)
    const reservationId = idOf(fence, body.reservation_id)
    const committed = await kernel.commitUsage(fence, {
      reservationId,
      tokens: body.tokens,
      costMicros: body.cost_micros,
      outputTokens: body.output_tokens,
      cacheReadTokens: body.cache_read_tokens,
      cacheWriteTokens: body.cache_write_tokens,
    })
    return settled(fence, body.reservation_id, 'committed', committed)
  })

  api('POST /turns/:turn/release', async ({ params, body, grant }) => {
    const fence = await fenceOf(kernel, grant, params.turn, body)
    const released = await kernel.releaseUsage(fence, idOf(fence, body.reservation_id))
    return settled(fence, body.reservation_id, 'released', released)
  })

  /** The kernel answers `stale` also for an unknown reservation: only a worker that lost the turn may learn that it is stale. */
  async function settled<Done extends 'committed' | 'released'>(
    fence: Fence,
    id: string,
    done: Done,
    { what, left }: Committed,
  ) {
    const state = budgetState(left)
    if (what === 'already') return { status: what, ...state }
    if (what !== 'stale') return { status: done, ...state }
    const { holds, limited, known } = await readReservationState(kernel.db, fence, idOf(fence, id))
    if (!holds || known) throw stale()
    if (limited) throw unknownReservation(id)
    return { status: 'unlimited' as const, ...state }
  }
}

/** The limits that do not cover a reservation. */
function shortKeys({ tokens, costMicros = 0 }: Ask, left: BudgetLeft | null): readonly BudgetKey[] {
  if (left === null || left.exceededKeys.length > 0) return left?.exceededKeys ?? []
  const short: readonly (readonly [BudgetKey, boolean])[] = [
    ['tokens', tokens > (left.tokens ?? Infinity)],
    ['cost_micros', costMicros > (left.costMicros ?? Infinity)],
  ]
  return short.filter(([, isShort]) => isShort).map(([key]) => key)
}

const alreadySettled = (id: string) =>
  new InvalidInput(`reservation_id "${id}" was already committed or released`, {
    code: 'duplicate_reservation',
    hint: 'use a new id for each call',
  })

const unknownReservation = (id: string) =>
  new InvalidInput(`No reservation of this turn has the id "${id}"`, {
    code: 'unknown_reservation',
    hint: 'reserve before the call; usage without a reservation goes into POST /turns/{turn}/steps',
  })

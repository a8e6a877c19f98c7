/**
 * The TURN table: every legal move of an agent's head. The verbs in SQL make the moves; tests compare the table `state.moves` and the
 * triggers on the head with this one, and docs/reference/turn.md is generated from it. The vocabulary of the protocol defines the four statuses.
 */
import type { HeadStatus } from '@bellwether/protocol'

export { headStatuses, type HeadStatus } from '@bellwether/protocol'

export interface Move {
  readonly from: readonly HeadStatus[]
  readonly to: HeadStatus
  /** Whether the move creates a new epoch, which fences out holders of the old one. */
  readonly bumpsEpoch: boolean
  /** The function in schema `state` that makes the move. */
  readonly verb: string
  /** What the same transaction also writes. */
  readonly with: string
}

export const TURN = {
  lease: {
    from: ['idle'],
    to: 'dispatched',
    bumpsEpoch: true,
    verb: 'lease',
    with: 'active turn, channel, trace and turn_deadline; the inbox row is pending with the epoch (dispatch_next promotes a queued one); bell after commit',
  },
  start: {
    from: ['dispatched'],
    to: 'running',
    bumpsEpoch: false,
    verb: 'claim',
    with: 'the inbox row goes pending → processing',
  },
  beat: {
    from: ['running'],
    to: 'running',
    bumpsEpoch: false,
    verb: 'beat',
    with: "the head's updated_at and the inbox row's processed_at",
  },
  reclaim: {
    from: ['running'],
    to: 'running',
    bumpsEpoch: true,
    verb: 'reclaim',
    with: 'the row of a silent worker, or of one that shuts down (hand_back), returns to pending with the new epoch; deaths + 1 if the turn was alone in a worker that died; its reservations are charged',
  },
  takeover: {
    from: ['running'],
    to: 'running',
    bumpsEpoch: false,
    verb: 'claim',
    with: 'another worker claims the reclaimed row and continues from the cards',
  },
  suspend: {
    from: ['running'],
    to: 'suspended',
    bumpsEpoch: false,
    verb: 'suspend',
    with: 'tool.call cards, waits and their count, resume_deadline, tool commands in the outbox; the batches of forking calls',
  },
  receive: {
    from: ['suspended'],
    to: 'suspended',
    bumpsEpoch: false,
    verb: 'claim',
    with: 'one wait is settled, its result is in the output box; the deadline stays, or is set again if it was cleared',
  },
  resume: {
    from: ['suspended'],
    to: 'running',
    bumpsEpoch: false,
    verb: 'resume',
    with: 'every wait is settled; waits and ledger become applied',
  },
  deliver: {
    from: ['running', 'suspended'],
    to: 'idle',
    bumpsEpoch: false,
    verb: 'deliver',
    with: 'deliverable in the output box, task and state events, inbox row consumed with the outcome, batches cancelled, budget settled; then the next lease',
  },
  stop: {
    from: ['dispatched', 'running', 'suspended'],
    to: 'idle',
    bumpsEpoch: true,
    verb: 'stop',
    with: 'deliverable, task and state events (canceled), waits dropped, batches cancelled, budget settled; then the next lease',
  },
  reap: {
    from: ['dispatched', 'running', 'suspended'],
    to: 'idle',
    bumpsEpoch: true,
    verb: 'reap',
    with: 'force termination, fallback deliverable, task and state events, an intervention, batches cancelled, budget settled; then the next lease',
  },
} as const satisfies Record<string, Move>

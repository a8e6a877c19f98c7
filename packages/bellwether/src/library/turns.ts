/**
 * Turns of the library: start, continue, read, wait, send messages, stop, and read the transcript. A wait ends on the turn's event;
 * polling covers a lost event.
 */
import { defined, linkAbort, type Clock } from '@bellwether/base'
import { InvalidInput, Terminal, type Outcome } from '@bellwether/protocol'
import { fallbackContent, type TurnRow } from '@bellwether/protocol/http'
import type { Tail } from '../http/tail.js'
import type { TranscriptBell } from '../http/transcript-bell.js'
import type { Kernel } from '../kernel/kernel.js'
import { readFollowUp } from '../kernel/reads/follow-up.js'
import { readMessages } from '../kernel/reads/messages.js'
import { readTurn } from '../kernel/reads/turns.js'
import type { FieldSpec } from '../kernel/verbs/cards.js'
import type { TurnBudget } from '../kernel/verbs/budgets/budgets.js'
import { iterateTranscript, type TranscriptEntry, type TranscriptOptions } from './transcript.js'

/** The result of a turn: a text, or the values of the requested result fields. */
export interface Deliverable {
  readonly text?: string
  readonly fields?: Readonly<Record<string, unknown>>
  /** Only if the turn did not succeed: the reason, and the work so far. */
  readonly fallback?: {
    readonly code: string
    readonly reason: string
    /** `worker`, `watchdog`, or who requested the stop. */
    readonly endedBy: string
    readonly started: boolean
    /** The end of the newest text that the turn wrote. */
    readonly lastText: string | null
  }
}

/** A turn and its state. */
export interface Turn {
  readonly id: string
  readonly agent: string
  /** `queued`, the state of the agent's head while the turn is active, or the outcome. */
  readonly status: string
  /** Null until the turn has ended. */
  readonly outcome: Outcome | null
  readonly error: string | null
  /** Null until the turn has ended. */
  readonly deliverable: Deliverable | null
  readonly createdAt: Date
  readonly startedAt: Date | null
  readonly endedAt: Date | null
}

export interface StartOptions {
  /** Your id for the request: starting a turn again with the same id returns the first turn. */
  readonly correlationId?: string
  /** The conversation: an agent with `memory: 'session'` knows what was asked and answered in it. */
  readonly sessionId?: string
  /** What the turn may spend. */
  readonly budget?: TurnBudget
  /** Fields that the deliverable must have. */
  readonly resultFields?: readonly FieldSpec[]
  /** Free data for the agent, in `turn.turn.payload`. */
  readonly payload?: Readonly<Record<string, unknown>>
}

export interface SayOptions {
  /** Your id for the message: sending it again with the same id stores it once. */
  readonly messageId?: string
  /** Who says it. Default: `turns.say`. */
  readonly sender?: string
  /** Interrupts the program of a coding agent that reads no messages while it runs; it is resumed with the message. */
  readonly now?: boolean
}

/** A message to a turn. */
export interface Message {
  /** Its number in the turn. */
  readonly seq: number
  readonly sender: string
  readonly text: string
  /** `waiting`: the agent has not got it yet. `not delivered`: the turn ended before that. */
  readonly status: 'waiting' | 'delivered' | 'not delivered'
}

export interface WaitOptions {
  /** Give up after this long. Default: wait until the turn ends; its deadline bounds that. */
  readonly timeoutMs?: number
  /** Stops waiting; the turn keeps running. */
  readonly signal?: AbortSignal
}

/** The turns of a project. */
export interface Turns {
  /** Starts a turn and waits for its deliverable. Throws TurnFailed if the turn ends without success. */
  run(agent: string, instruction: string, options?: StartOptions & WaitOptions): Promise<Deliverable>
  /** Starts a turn. `duplicate`: a turn with this correlation id existed. */
  start(
    agent: string,
    instruction: string,
    options?: StartOptions,
  ): Promise<{ readonly id: string; readonly duplicate: boolean }>
  /** Starts a follow-up of an ended turn: the same agent, session and worktree. Throws `turn_not_ended` if the turn has not ended. */
  continue(
    id: string,
    instruction: string,
    options?: Pick<StartOptions, 'correlationId' | 'budget'>,
  ): Promise<{ readonly id: string; readonly duplicate: boolean }>
  /** Sends a message to a turn. Throws `turn_ended` if the turn has ended: continue it instead. */
  say(id: string, text: string, options?: SayOptions): Promise<Pick<Message, 'seq' | 'status'>>
  /** The messages to a turn, in order. Those that came too late are `not delivered`. */
  messages(id: string): Promise<readonly Message[]>
  /** Reads a turn. Throws if the project has no such turn. */
  get(id: string): Promise<Turn>
  /** Waits until a turn has ended, with whatever outcome. */
  wait(id: string, options?: WaitOptions): Promise<Turn>
  /** Stops an active turn or cancels a queued one. `already`: it had ended. */
  stop(id: string, reason?: string): Promise<'ended' | 'already'>
  /** What the agent wrote and did so far, in order; with `live`, until the turn has ended. Leave the loop to stop. */
  transcript(id: string, options?: TranscriptOptions): AsyncIterableIterator<TranscriptEntry>
}

/** Thrown by `turns.run` for a turn that ended as failed, timeout or canceled. */
export class TurnFailed extends Terminal {
  constructor(readonly turn: Turn) {
    const text = turn.deliverable?.text
    super(
      `Turn ${turn.id} of agent "${turn.agent}" ended as ${turn.outcome}: ${turn.error ?? text ?? 'no reason given'}`,
      {
        code: turn.error ?? `turn_${turn.outcome}`,
        hint: 'read the deliverable and the error in the property "turn" of this error',
      },
    )
    this.name = 'TurnFailed'
  }
}

// An event that was lost costs at most this long.
const pollMs = 2_000

/** A turn is enqueued after `ready` has resolved. */
export function openTurns(
  kernel: Kernel,
  tail: Tail,
  clock: Clock,
  projectId: string,
  closing: AbortSignal,
  ready: () => Promise<unknown>,
  bell: TranscriptBell,
): Turns {
  async function rowOf(id: string): Promise<TurnRow> {
    const row = await readTurn(kernel.db, projectId, id)
    if (row !== undefined) return row
    throw new InvalidInput(`Project "${projectId}" has no turn "${id}"`, {
      code: 'unknown_turn',
      hint: 'use the id that turns.start returned, and the project that it was started in',
    })
  }

  async function get(id: string): Promise<Turn> {
    const row = await rowOf(id)
    const cardId = row.deliverable_card_id
    const card = cardId === null ? undefined : await kernel.readCard(cardId)
    return {
      id,
      agent: row.agent_id,
      status: row.status,
      outcome: row.outcome as Outcome | null,
      error: row.error,
      deliverable: card === undefined ? null : deliverableOf(card.content, row.outcome === 'success'),
      createdAt: row.created_at,
      startedAt: row.started_at,
      endedAt: row.ended_at,
    }
  }

  async function start(agent: string, instruction: string, options: StartOptions = {}) {
    const { correlationId, sessionId, budget, resultFields, payload } = options
    const more = defined({ correlationId, sessionId, budget, resultFields, payload })
    await ready()
    const { agentTurnId, duplicate } = await kernel.enqueue({ projectId, agentId: agent, instruction, ...more })
    return { id: agentTurnId, duplicate }
  }

  async function wait(id: string, { timeoutMs = Infinity, signal }: WaitOptions = {}): Promise<Turn> {
    const following = await tail.follow()
    const untilMs = clock.monotonicMs() + timeoutMs
    try {
      for (;;) {
        const turn = await get(id)
        if (turn.endedAt !== null) return turn
        const leftMs = untilMs - clock.monotonicMs()
        if (closing.aborted || signal?.aborted === true)
          throw stoppedWaiting(id, 'the wait was aborted', 'wait_aborted')
        if (leftMs <= 0) throw stoppedWaiting(id, `it did not end within ${timeoutMs} ms`, 'wait_timeout')
        const round = linkAbort(closing, signal)
        await Promise.race([following.ended(id, round.signal), clock.sleep(Math.min(pollMs, leftMs), round.signal)])
        round.abort()
      }
    } finally {
      following.stop()
    }
  }

  const hasEnded = async (id: string) => (await get(id)).endedAt !== null
  const transcriptPorts = { db: kernel.db, bell, tail, clock, closing, hasEnded }

  return {
    start,
    get,
    wait,
    async continue(id, instruction, { correlationId, budget } = {}) {
      await ready()
      const followUp = await readFollowUp(kernel.db, await rowOf(id))
      const more = defined({ correlationId, budget })
      const { agentTurnId, duplicate } = await kernel.enqueue({ ...followUp, instruction, ...more })
      return { id: agentTurnId, duplicate }
    },
    async say(id, text, { messageId = kernel.ids.next(), sender = 'turns.say', now } = {}) {
      await rowOf(id)
      const { seq, delivered } = await kernel.say({ projectId, agentTurnId: id, messageId, sender, text, urgent: now })
      return { seq, status: delivered ? 'delivered' : 'waiting' }
    },
    async messages(id) {
      const { ended_at: endedAt } = await rowOf(id)
      return (await readMessages(kernel.db, id)).map(({ seq, sender, text, delivered_at: at }) => ({
        ...{ seq, sender, text },
        status: at === null ? (endedAt === null ? 'waiting' : 'not delivered') : 'delivered',
      }))
    },
    transcript: (id, options = {}) => iterateTranscript(transcriptPorts, id, options),
    async run(agent, instruction, options = {}) {
      const { id } = await start(agent, instruction, options)
      const turn = await wait(id, options)
      if (turn.outcome !== 'success') throw new TurnFailed(turn)
      return turn.deliverable ?? {}
    },
    async stop(id, reason) {
      const result = await kernel.stop({ projectId, agentTurnId: id, stoppedBy: 'turns.stop', ...defined({ reason }) })
      if (result !== 'unknown_turn') return result
      await get(id)
      return 'already'
    },
  }
}

function deliverableOf(content: unknown, isSuccess: boolean): Deliverable {
  const { text, fields } = content as {
    readonly text?: string
    readonly fields?: readonly { name: string; value: unknown }[]
  }
  const known = isSuccess ? undefined : fallbackContent.safeParse(content).data?.fallback
  const fallback = known && {
    code: known.code,
    reason: known.reason,
    endedBy: known.ended_by,
    started: known.started,
    lastText: known.last_text,
  }
  const values = fields && Object.fromEntries(fields.map(({ name, value }) => [name, value]))
  return defined({ text, fields: values, fallback })
}

const stoppedWaiting = (id: string, why: string, code: string) =>
  new Terminal(`Stopped waiting for turn ${id}: ${why}`, {
    code,
    hint: 'the turn keeps running: wait again with turns.wait, or end it with turns.stop',
  })

/**
 * A guest as the worker sees it, and the run of one turn in it. The guest is ended before `runGuest` settles, whatever happens: the
 * function returns, throws, crashes, or must stop. A function that does not stop after its abort signal and a grace period is killed.
 */
import { aborted, isObject, linkAbort, type Clock } from '@bellwether/base'
import * as protocol from '@bellwether/protocol'
import { FenceLost, type TurnAction, type TurnContext } from '../agent.js'
import { packError, unpackError, type FromGuest, type GuestRun, type ToGuest } from './messages.js'

/** How a guest ended by itself, before its function returned. */
export type GuestEnd =
  | { readonly how: 'out_of_memory' }
  | { readonly how: 'error'; readonly error: unknown }
  | { readonly how: 'exit'; readonly text: string }

export interface Guest {
  send(message: ToGuest): void
  onMessage(take: (message: FromGuest) => void): void
  readonly ended: Promise<GuestEnd>
  /** Resolves when nothing of the guest runs any more. */
  end(graceMs: number): Promise<void>
}

export interface GuestRunOptions {
  readonly guest: Guest
  readonly clock: Clock
  readonly context: TurnContext
  readonly request: GuestRun
  /** Aborts when another worker may soon run the turn. */
  readonly lost: AbortSignal
  /** Whether another worker may run the turn now: then the guest gets no grace period. */
  readonly expired: () => boolean
  readonly graceMs: number
  readonly memoryMaxMb: number
}

export async function runGuest(options: GuestRunOptions): Promise<TurnAction> {
  const { guest, clock, context, request, lost, expired, graceMs } = options
  const stop = linkAbort(context.signal, lost)
  let endGraceMs = graceMs
  try {
    const finished = new Promise<Extract<FromGuest, { readonly action: unknown } | { readonly failed: unknown }>>(
      (resolve) => {
        guest.onMessage((message) => {
          // The code of the function has the same channel: programs tell their parent that they are ready, for example.
          if (!isObject(message)) return
          if ('call' in message) void reply(guest, context, message)
          else if ('say' in message) context.say(message.say)
          else if ('action' in message || 'failed' in message) resolve(message)
        })
      },
    )
    guest.send({ run: request })
    const end = await Promise.race([finished, guest.ended, aborted(stop.signal)])
    if (end === undefined) {
      endGraceMs = 0
      guest.send({ abort: stop.signal.reason })
      if (!expired()) await withinGrace(clock, graceMs, [finished, guest.ended, aborted(lost)])
      throw new FenceLost(request.turn.agentTurnId)
    }
    if ('how' in end) return endedEarly(end, options)
    if ('action' in end) return end.action
    throw unpackError(end.failed, request.turn.agentTurnId, protocol)
  } finally {
    stop.release()
    await guest.end(expired() ? 0 : endGraceMs)
  }
}

async function withinGrace(clock: Clock, graceMs: number, ends: readonly Promise<unknown>[]): Promise<void> {
  const over = new AbortController()
  await Promise.race([...ends, clock.sleep(graceMs, over.signal)])
  over.abort()
}

async function reply(guest: Guest, context: TurnContext, message: Extract<FromGuest, { readonly call: number }>) {
  try {
    guest.send({ reply: message.call, value: await execute(context, message) })
  } catch (error) {
    guest.send({ reply: message.call, error: packError(error) })
  }
}

function execute(context: TurnContext, message: Extract<FromGuest, { readonly call: number }>): Promise<unknown> {
  switch (message.verb) {
    case 'hydrate':
      return context.hydrate()
    case 'record':
      return context.record(...message.args)
    case 'messages':
      return context.messages()
    case 'activity':
      return context.activity(...message.args)
    case 'reserve':
      return context.reserve(...message.args)
    case 'commit':
      return context.commit(...message.args)
    case 'release':
      return context.release(...message.args)
    case 'swapBox':
      return context.swapBox(...message.args)
  }
}

function endedEarly(end: GuestEnd, { memoryMaxMb }: GuestRunOptions): TurnAction {
  if (end.how === 'error') throw end.error
  const [error, text] =
    end.how === 'out_of_memory'
      ? [
          'agent_out_of_memory',
          `The agent used more than ${memoryMaxMb} MB of memory. Raise its memory limit, or let it use less.`,
        ]
      : ['agent_crashed', end.text]
  return { deliver: { text }, status: 'failed', error }
}

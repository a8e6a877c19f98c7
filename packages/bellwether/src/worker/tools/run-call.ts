/**
 * One call of a tool, from its claim to its receipt. Always: nothing is done before the claim is won; the arguments are checked once
 * more, since anyone may have made the call; the tool is given up at its timeout whether or not it heeds its signal; a call that may
 * be repeated is tried again while there is time, any other ends as `unknown` when nobody can say whether it took effect.
 */
import type { Clock } from '@bellwether/base'
import { Terminal } from '@bellwether/protocol'
import type { StartedTool } from '../../kernel/verbs/tools/tool_hosts.js'
import type { Receipt } from '../../kernel/verbs/tools/report.js'
import { backoffMs } from '../../ports/retry.js'
import { ToolFailure } from '../../ports/tools/tool-failure.js'
import { checkArguments, type Arguments } from './arguments.js'
import { keepable, messageOf } from './result.js'
import { runSeconds, triesSeconds } from './timing.js'
import type { CallContext, HostedTool } from './tool.js'

export interface Run {
  readonly clock: Clock
  readonly tool: HostedTool
  readonly call: StartedTool
  readonly context: Omit<CallContext, 'signal'>
  /** Fires when nobody waits for the call any more, or its host goes down. */
  readonly signal: AbortSignal
  /** The tool went on after it was given up; called once it has come to an end. */
  readonly onStuck: (ended: Promise<void>) => void
}

/** What the turn is told; undefined: nobody waits any more. */
export type Told = Pick<Receipt, 'status' | 'result' | 'error'> | undefined

const triesMax = 3
// 0.25 s, then 1 s: a server that restarts is back by then.
const backoff = { mode: 'exponential', baseMs: 250, multiplier: 4, maxMs: 5_000, jitterPct: 0 } as const
const heedMs = 100
/** As state.expire_waits says it. */
const reconcile = 'the call had started and may have taken effect: check before you call it again'

export async function runCall(run: Run): Promise<Told> {
  const { clock, tool, call, signal } = run
  const checked = checkArguments(call.arguments, tool)
  if ('refuse' in checked) return { status: 'failed', error: checked.refuse }
  const untilMs = clock.monotonicMs() + triesSeconds(tool) * 1_000
  for (let tries = 1; ; tries += 1) {
    const leftMs = untilMs - clock.monotonicMs()
    const ended = await once(run, checked.args, Math.min(runSeconds(tool) * 1_000, leftMs))
    if ('result' in ended) return { status: 'success', result: keepable(ended.result, tool.mayControl === true) }
    const { failure } = ended
    if (signal.aborted) return cutOff(tool, signal)
    const waitMs = Math.max(failure.afterMs, backoffMs({ backoff }, tries))
    const again = tool.idempotent === true && failure.retryable && tries < triesMax
    if (!again || clock.monotonicMs() + waitMs >= untilMs) return told(tool, failure)
    await clock.sleep(waitMs, signal)
    if (signal.aborted) return cutOff(tool, signal)
  }
}

type Ended = { readonly result: unknown } | { readonly failure: ToolFailure }

async function once({ clock, tool, context, signal, onStuck }: Run, args: Arguments, ms: number): Promise<Ended> {
  const over = new AbortController()
  const stop = () => over.abort(signal.reason)
  signal.addEventListener('abort', stop, { once: true })
  let settled = false
  const work = Promise.resolve()
    .then(() => tool.run(args, { ...context, signal: over.signal }))
    .then(
      (result): Ended => ({ result }),
      (error: unknown): Ended => ({ failure: failureOf(error) }),
    )
    .finally(() => (settled = true))
  const done = new AbortController()
  const late = clock.sleep(ms, done.signal).then((): Ended => ({ failure: timedOut(ms) }))
  const called = new Promise<Ended>((resolve) => {
    const cut = () => resolve({ failure: new ToolFailure('the call was ended', { code: 'ended', inDoubt: true }) })
    if (signal.aborted) cut()
    else over.signal.addEventListener('abort', cut, { once: true })
  })
  try {
    return await Promise.race([work, late, called])
  } finally {
    done.abort()
    signal.removeEventListener('abort', stop)
    over.abort('over')
    // A moment for those who heed the signal: what is left then does not.
    if (!settled) await Promise.race([work, clock.sleep(heedMs)])
    if (!settled) onStuck(work.then(() => undefined))
  }
}

const timedOut = (ms: number) =>
  new ToolFailure(`no answer within ${(ms / 1_000).toFixed(1)} s`, {
    code: 'tool_timeout',
    inDoubt: true,
    retryable: true,
  })

/** A plain error is a failure that says nothing about its effects: whoever wrote the tool threw it on purpose. */
function failureOf(error: unknown): ToolFailure {
  if (error instanceof ToolFailure) return error
  const code = error instanceof Terminal ? error.code : 'tool_failed'
  return new ToolFailure(messageOf(error), { code, cause: error })
}

function told(tool: HostedTool, failure: ToolFailure): Told {
  const status = failure.code === 'tool_timeout' ? 'timeout' : 'failed'
  const message = messageOf(failure)
  if (!failure.inDoubt || tool.idempotent === true) return { status, error: { code: failure.code, message } }
  return { status, error: { code: 'unknown', message: `${message}; ${reconcile}` } }
}

/** The reason of the signal when the host goes down, and not the turn. */
export const hostLeaves = 'host_leaves'

function cutOff(tool: HostedTool, signal: AbortSignal): Told {
  // Nobody waits; or another host starts it again once this one is silent.
  if (signal.reason !== hostLeaves || tool.idempotent === true) return undefined
  return { status: 'failed', error: { code: 'unknown', message: `the tool's host went down; ${reconcile}` } }
}

/**
 * Runs one claimed tool call and returns its receipt. The arguments are checked again, because any agent may have made the call. The
 * call ends at its timeout even if the tool ignores its signal. An idempotent call is retried while there is time; any other call
 * ends as `unknown` if it may have taken effect.
 */
import { aborted, linkAbort, type Clock } from '@bellwether/base'
import { Terminal } from '@bellwether/protocol'
import type { StartedTool } from '../../kernel/verbs/tools/tool_hosts.js'
import type { Receipt } from '../../kernel/verbs/tools/report.js'
import { backoffMs } from '../../ports/retry.js'
import { ToolFailure } from '../../ports/tools/tool-failure.js'
import { checkArguments, type Arguments } from './arguments.js'
import { storableResult, messageOf } from './result.js'
import { runSeconds, triesSeconds } from './timing.js'
import type { CallContext, HostedTool } from './tool.js'

export interface CallRun {
  readonly clock: Clock
  readonly tool: HostedTool
  readonly call: StartedTool
  readonly context: Omit<CallContext, 'signal'>
  /** Aborts when no turn waits for the call any more, or when the host shuts down. */
  readonly signal: AbortSignal
  /** Called when the tool ignores its signal; the promise resolves when the tool has ended. */
  readonly onStuck: (ended: Promise<void>) => void
}

/** The receipt for the turn. Undefined if no turn waits any more. */
export type CallReceipt = Pick<Receipt, 'status' | 'result' | 'error'> | undefined

const triesMax = 3
// 0.25 s, then 1 s: enough for a server to restart.
const backoff = { mode: 'exponential', baseMs: 250, multiplier: 4, maxMs: 5_000, jitterPct: 0 } as const
const abortGraceMs = 100
/** The same text as in state.expire_waits. */
const checkFirst = 'the call had started and may have taken effect: check before you call it again'

export async function runCall(run: CallRun): Promise<CallReceipt> {
  const { clock, tool, call, signal } = run
  const checked = checkArguments(call.arguments, tool)
  if ('refuse' in checked) return { status: 'failed', error: checked.refuse }
  const untilMs = clock.monotonicMs() + triesSeconds(tool) * 1_000
  for (let tries = 1; ; tries += 1) {
    const leftMs = untilMs - clock.monotonicMs()
    const ended = await once(run, checked.args, Math.min(runSeconds(tool) * 1_000, leftMs))
    if ('result' in ended) return { status: 'success', result: storableResult(ended.result, tool.mayControl === true) }
    const { failure } = ended
    if (signal.aborted) return cutOff(tool, signal)
    const waitMs = Math.max(failure.afterMs, backoffMs({ backoff }, tries))
    const again = tool.idempotent === true && failure.retryable && tries < triesMax
    if (!again || clock.monotonicMs() + waitMs >= untilMs) return failed(tool, failure)
    await clock.sleep(waitMs, signal)
    if (signal.aborted) return cutOff(tool, signal)
  }
}

type Ended = { readonly result: unknown } | { readonly failure: ToolFailure }

async function once({ clock, tool, context, signal, onStuck }: CallRun, args: Arguments, ms: number): Promise<Ended> {
  const over = linkAbort(signal)
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
  const canceled = aborted(over.signal).then((): Ended => ({
    failure: new ToolFailure('the call was canceled', { code: 'ended', inDoubt: true }),
  }))
  try {
    return await Promise.race([work, late, canceled])
  } finally {
    done.abort()
    over.abort('over')
    // Give the tool a moment to react to its signal.
    if (!settled) await Promise.race([work, clock.sleep(abortGraceMs)])
    if (!settled) onStuck(work.then(() => undefined))
  }
}

const timedOut = (ms: number) =>
  new ToolFailure(`no result within ${(ms / 1_000).toFixed(1)} s`, {
    code: 'tool_timeout',
    inDoubt: true,
    retryable: true,
  })

/** A plain error counts as a failure without effects, because the tool threw it on purpose. */
function failureOf(error: unknown): ToolFailure {
  if (error instanceof ToolFailure) return error
  const code = error instanceof Terminal ? error.code : 'tool_failed'
  return new ToolFailure(messageOf(error), { code, cause: error })
}

function failed(tool: HostedTool, failure: ToolFailure): CallReceipt {
  const status = failure.code === 'tool_timeout' ? 'timeout' : 'failed'
  const message = messageOf(failure)
  if (!failure.inDoubt || tool.idempotent === true) return { status, error: { code: failure.code, message } }
  return { status, error: { code: 'unknown', message: `${message}; ${checkFirst}` } }
}

/** The abort reason when the host shuts down while the turn still waits. */
export const hostLeaves = 'host_leaves'

function cutOff(tool: HostedTool, signal: AbortSignal): CallReceipt {
  // Either no turn waits, or another host starts the call when this host is silent.
  if (signal.reason !== hostLeaves || tool.idempotent === true) return undefined
  return { status: 'failed', error: { code: 'unknown', message: `the tool's host shut down; ${checkFirst}` } }
}

/**
 * Hosts the tools of the PMO: answers calls to `cmd.sys.pmo.internal.NAME` (T3.3e). The database holds the calls, so they are answered
 * even if every ring is lost, and any number of PMOs may step at the same time: one of them takes a call or reports its result.
 */
import { errorMessage, tryEach, type Clock, type Log, makeWake } from '@bellwether/base'
import { InvalidInput, subjects } from '@bellwether/protocol'
import type { Kernel } from '../kernel/kernel.js'
import { pmoTools, type PmoTool } from '../kernel/pmo-tools.js'
import type { NewBatch } from '../kernel/verbs/batches/fork.js'
import { readPmoCalls, type PmoCall } from '../kernel/verbs/tools/pmo_calls.js'
import type { Receipt } from '../kernel/verbs/tools/report.js'
import type { Bell } from '../ports/bell/bell.js'
import { loop } from '../ports/loop.js'

/** How a tool answers a call: with a batch, whose end is the result; with the result itself; or with a refusal. */
export type PmoAnswer =
  | { readonly batch: NewBatch }
  | { readonly result: unknown }
  | { readonly refuse: { readonly code: string; readonly message: string } }

/** One handler per tool: the compiler rejects a tool without a handler, and the kernel rejects the declaration of an unknown tool. */
export type PmoHandlers = Readonly<Record<PmoTool, (call: PmoCall) => Promise<PmoAnswer>>>

export interface HostedTools {
  /** Answers the calls that wait now, and returns their number. */
  step(): Promise<number>
}

// Keeps one step short; the loop repeats at once while there are more.
const callsMax = 100

export function openHostedTools({ kernel, handlers }: { kernel: Kernel; handlers: PmoHandlers }): HostedTools {
  async function answerOf(call: PmoCall): Promise<PmoAnswer> {
    const name = pmoTools.find((tool) => tool === call.pmoTool)
    if (name !== undefined) return handlers[name](call)
    // Another version of the program accepted the declaration.
    const message = `this version of the PMO has no tool "${call.pmoTool}"`
    return { refuse: { code: 'unknown_pmo_tool', message } }
  }

  async function carryOut(call: PmoCall): Promise<void> {
    try {
      const answer = await answerOf(call)
      if ('batch' in answer) await kernel.takeCall(call, answer.batch)
      else if ('refuse' in answer) await report(call, { status: 'failed', error: answer.refuse })
      else await report(call, { status: 'success', result: answer.result })
    } catch (error) {
      if (!(error instanceof InvalidInput)) throw error
      await report(call, { status: 'failed', error: { code: error.code, message: errorMessage(error) } })
    }
  }

  async function report(call: PmoCall, receipt: Pick<Receipt, 'status' | 'result' | 'error'>): Promise<void> {
    const { projectId, toolCallId, agentTurnId, turnEpoch } = call
    await kernel.report([{ projectId, toolCallId, ...receipt, fence: { agentTurnId, turnEpoch } }])
  }

  return {
    async step() {
      const calls = await readPmoCalls(kernel.db, callsMax)
      await tryEach(calls, carryOut, 'calls of PMO tools')
      return calls.length
    },
  }
}

// A call whose ring was lost waits at most this long; an idle step costs one indexed read.
const pollMs = 1_000

export interface HostedToolsOptions {
  readonly kernel: Kernel
  readonly handlers: PmoHandlers
  readonly bell: Bell
  readonly clock: Clock
  readonly log: Log
  readonly signal: AbortSignal
}

export async function runHostedTools({ bell, clock, log, signal, ...options }: HostedToolsOptions): Promise<void> {
  const hosted = openHostedTools(options)
  const wake = makeWake(clock)
  const listening = await bell.listen(subjects.anyPmoCall('*'), (ring) => {
    // The joiner's rings have the same subject and name a batch.
    if (ring === undefined || ring.payload['tool_call_id'] !== undefined) wake.now()
  })
  const step = async () => {
    while (!signal.aborted && (await hosted.step()) === callsMax);
  }
  await loop({ name: 'PMO tools', intervalMs: pollMs, clock, log, signal }, step, wake)
  await listening.stop()
}

/**
 * A tool host: receives a command, claims the call (one host starts it, hazard 11), runs it and reports. It reports every call that it
 * started, also across outages of the database. A watchdog sends a command that it missed again.
 */
import { type Clock, errorMessage, type Log } from '@bellwether/base'
import { Retryable, subjects } from '@bellwether/protocol'
import type { Kernel } from '../../../src/kernel/kernel.js'
import type { Bell, Ring } from '../../../src/ports/bell/bell.js'

export interface ToolHostOptions {
  readonly kernel: Kernel
  readonly bell: Bell
  readonly clock: Clock
  readonly log: Log
  /** Names this host in the claim of a call. */
  readonly host: string
  /** The only project whose calls are answered. */
  readonly projectId: string
  readonly tools: Readonly<Record<string, (args: unknown, signal: AbortSignal) => Promise<unknown>>>
  readonly signal: AbortSignal
}

const pauseMs = 100

export async function hostTools(options: ToolHostOptions): Promise<{ stop(): Promise<void> }> {
  const { bell, log, projectId, signal } = options
  const busy = new Map<string, Promise<void>>()

  function receive(tool: string, ring: Ring | undefined): void {
    const callId = ring?.payload['tool_call_id']
    // Commands are sent again until a host starts the call, so a call that is being handled is ignored.
    if (typeof callId !== 'string' || ring?.subject.split('.')[2] !== projectId || busy.has(callId) || signal.aborted)
      return
    const work = answer(options, tool, callId)
      .catch((error: unknown) => log.error({ err: error, tool_call_id: callId }, 'tool call failed'))
      .finally(() => busy.delete(callId))
    busy.set(callId, work)
  }

  const listening = await Promise.all(
    Object.keys(options.tools).map((tool) => bell.listen(subjects.anyToolCall(tool), (ring) => receive(tool, ring))),
  )
  return {
    async stop() {
      await Promise.all(listening.map((one) => one.stop()))
      await Promise.all(busy.values())
    },
  }
}

async function answer(options: ToolHostOptions, tool: string, toolCallId: string): Promise<void> {
  const { kernel, projectId, host, signal } = options
  const call = await retried(options, () => kernel.startTool(projectId, toolCallId, host))
  if (call?.what !== 'started') return
  try {
    const result = await options.tools[tool]?.(call.arguments, signal)
    await retried(options, () => kernel.report([{ projectId, toolCallId, status: 'success', result }]))
  } catch (error) {
    if (signal.aborted || error instanceof Retryable) throw error
    const message = errorMessage(error)
    await retried(options, () =>
      kernel.report([{ projectId, toolCallId, status: 'failed', error: { code: 'tool_failed', message } }]),
    )
  }
}

/** Repeats a call while the database is unavailable. Claims and reports are idempotent. */
async function retried<T>({ clock, signal }: ToolHostOptions, call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call()
    } catch (error) {
      if (!(error instanceof Retryable) || signal.aborted) throw error
      await clock.sleep(Math.max(pauseMs, error.afterMs), signal)
    }
  }
}

/**
 * A tool host: runs the tools of this process for the turns that wait for them. It reads open calls from the database, so that calls
 * run even if every bell is lost. It claims a call before it acts (hazard 11) and only if it can run it now. While a call runs, the
 * host beats and cancels it if no turn waits for it any more. It retries its report while the database is unavailable.
 */
import { onAbort, type Clock, type Log, makeWake } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import type { Kernel } from '../../kernel/kernel.js'
import type { OpenCall } from '../../kernel/verbs/tools/tool_hosts.js'
import type { Bell, Ring } from '../../ports/bell/bell.js'
import { loop } from '../../ports/loop.js'
import { retryUntil } from '../../ports/retry.js'
import { hostLeaves, runCall, type CallReceipt } from './run-call.js'
import type { Catalogue } from './catalogue.js'
import { messageOf } from './result.js'
import { actionCallId } from '../ui-action.js'
import { approvalSeconds, waitSeconds } from './timing.js'

export interface ToolHostOptions {
  readonly kernel: Pick<Kernel, 'startTool' | 'askForCall' | 'openCalls' | 'beatTools' | 'report'>
  readonly bell: Bell
  readonly clock: Clock
  readonly log: Log
  /** The unique name of this process. A restarted process needs a new name, or it would continue the calls of the old one. */
  readonly host: string
  /** The project whose calls this host runs. */
  readonly projectId: string
  readonly catalogue: Pick<Catalogue, 'find' | 'names'>
  /** Whether a person may call the tool as this agent. Default: every tool of the project's roster. */
  readonly mayAct?: (agentId: string, tool: string) => boolean
  readonly signal: AbortSignal
  readonly settings: ToolHostSettings
}

export interface ToolHostSettings {
  readonly concurrency: number
  readonly pollSeconds: number
  readonly beatSeconds: number
  /** A host without a beat for this long counts as dead. */
  readonly silentSeconds: number
}

export interface ToolHost {
  /** Claims and starts as many calls as there is room for; returns their number. */
  step(): Promise<number>
  beat(): Promise<void>
  readonly running: number
  /** Waits for running calls, then cancels them. Resolves when all results are reported. */
  close(graceMs: number): Promise<void>
}

interface RunningCall {
  readonly abort: AbortController
  /** The claim succeeded: this host must beat for the call. */
  claimed: boolean
  done: Promise<void>
}

// After this many calls that ignored their signal, the tool is left to other hosts.
const stuckMax = 20
// Long enough for a database to restart; after that, the turns' own deadlines have ended them.
const patience = {
  backoff: { mode: 'exponential', baseMs: 100, multiplier: 2, maxMs: 5_000, jitterPct: 0 },
  maxMs: 600_000,
} as const
// The time that a closing host has to report the calls it canceled.
const finalReportMs = 5_000

export async function openToolHost(options: ToolHostOptions): Promise<ToolHost> {
  const { kernel, bell, clock, log, host, projectId, catalogue, signal, settings } = options
  const running = new Map<string, RunningCall>()
  const stuck = new Map<string, number>()
  const rung = new Set<string>()
  const wake = makeWake(clock)
  const stopping = new AbortController()
  const leaving = new AbortController()
  const gone = new AbortController()
  onAbort(signal, () => stopping.abort())
  let pollAll = true
  let polledAtMs = Number.NEGATIVE_INFINITY
  let more = false

  function onRing(ring: Ring | undefined): void {
    const tool = ring?.subject.split('.')[6]
    if (tool === undefined) pollAll = true
    else if (catalogue.find(tool) === undefined) return
    else rung.add(tool)
    wake.now()
  }

  /** The tools to look for: those that a bell named or, once per poll interval, all of them. */
  function toolsToPoll(): string[] {
    const dueMs = polledAtMs + settings.pollSeconds * 1_000
    const all = pollAll || more || clock.monotonicMs() >= dueMs
    const found = all ? catalogue.names() : [...rung]
    if (all) {
      pollAll = false
      polledAtMs = clock.monotonicMs()
    }
    rung.clear()
    return found.filter((name) => (stuck.get(name) ?? 0) < stuckMax)
  }

  async function step(): Promise<number> {
    const room = settings.concurrency - running.size
    if (room <= 0 || stopping.signal.aborted) return 0
    const tools = toolsToPoll()
    let calls: OpenCall[]
    try {
      calls = await kernel.openCalls({ projectId, tools, silentSeconds: settings.silentSeconds, max: room })
    } catch (error) {
      pollAll = true
      throw error
    }
    more = calls.length === room
    const fresh = calls.filter((call) => !running.has(call.tool_call_id) && !stopping.signal.aborted)
    const claimable = fresh.slice(0, settings.concurrency - running.size)
    for (const call of claimable) take(call)
    return claimable.length
  }

  function take(call: OpenCall): void {
    const current: RunningCall = { abort: new AbortController(), claimed: false, done: Promise.resolve() }
    running.set(call.tool_call_id, current)
    current.done = runClaimed(call, current)
      .catch((error: unknown) =>
        log.error({ err: error, tool_call_id: call.tool_call_id, tool: call.tool_name }, 'tool call not reported'),
      )
      .finally(() => {
        running.delete(call.tool_call_id)
        if (more) wake.now()
      })
  }

  async function runClaimed(
    { tool_call_id: toolCallId, tool_name: name, traceparent }: OpenCall,
    current: RunningCall,
  ): Promise<void> {
    const tool = catalogue.find(name)
    if (tool === undefined) return
    if (tool.approve === 'ask') {
      // Here as well as in the roster, which another program may have changed.
      const withinSeconds = approvalSeconds(tool)
      const request = {
        projectId,
        toolCallId,
        host,
        withinSeconds,
        runSeconds: waitSeconds(tool, settings.silentSeconds),
      }
      if ((await retried(() => kernel.askForCall(request))) !== 'allowed') return
    }
    const sentMs = clock.monotonicMs()
    const call = await retried(() => kernel.startTool(projectId, toolCallId, host))
    if (call?.what !== 'started') return
    current.claimed = true
    // If this process was frozen since it claimed, the turn may not wait for the call any more (hazard 15).
    const late = clock.monotonicMs() - sentMs > settings.silentSeconds * 1_000
    if (late && (await retried(() => kernel.beatTools(projectId, [toolCallId], host))).has(toolCallId)) return
    const { agent_id: agentId, agent_turn_id: agentTurnId, turn_epoch: turnEpoch } = call
    const isRefused = toolCallId === actionCallId(agentTurnId) && options.mayAct?.(agentId, name) === false
    const receipt = isRefused
      ? notListed(agentId, name)
      : await runCall({
          clock,
          tool,
          call,
          context: { projectId, agentId, agentTurnId, toolCallId, traceparent },
          signal: current.abort.signal,
          onStuck: (ended) => void countStuck(name, ended),
        })
    if (receipt === undefined) return
    const fence = { agentTurnId, turnEpoch }
    await retried(() => kernel.report([{ projectId, toolCallId, ...receipt, fence }])).catch(async (error: unknown) => {
      if (error instanceof Retryable || gone.signal.aborted) throw error
      // The result cannot be stored, but the turn must know that the tool ran.
      await retried(() => kernel.report([{ projectId, toolCallId, ...notStored(error), fence }]))
    })
  }

  async function countStuck(tool: string, ended: Promise<void>): Promise<void> {
    const now = (stuck.get(tool) ?? 0) + 1
    stuck.set(tool, now)
    log.warn({ tool, calls: now }, 'tool ignores its abort signal')
    if (now === stuckMax) log.error({ tool, calls: now }, 'tool disabled, too many calls ignore their abort signal')
    await ended
    stuck.set(tool, (stuck.get(tool) ?? 1) - 1)
  }

  /** Repeats a verb while the database is unavailable. A repeated claim or report changes nothing. */
  const retried = <T>(verb: () => Promise<T>): Promise<T> => retryUntil(patience, verb, { clock, signal: gone.signal })

  async function beat(): Promise<void> {
    const claimed = [...running].filter(([, call]) => call.claimed).map(([toolCallId]) => toolCallId)
    const lost = await kernel.beatTools(projectId, claimed, host)
    for (const toolCallId of lost) running.get(toolCallId)?.abort.abort('not_waited_for')
  }

  const listening = await bell.listen(`bw.v1.${projectId}.*.cmd.tool.*.call`, onRing)
  const common = { clock, log }
  const polling = loop(
    { ...common, name: 'tool host', intervalMs: settings.pollSeconds * 1_000, signal: stopping.signal },
    step,
    wake,
  )
  const beating = loop(
    { ...common, name: 'tool beat', intervalMs: settings.beatSeconds * 1_000, signal: leaving.signal },
    beat,
  )

  return {
    step,
    beat,
    get running() {
      return running.size
    },
    async close(graceMs) {
      await listening.stop()
      stopping.abort()
      const all = () => Promise.all([...running.values()].map((call) => call.done))
      await Promise.race([all(), clock.sleep(graceMs, leaving.signal)])
      for (const call of running.values()) call.abort.abort(hostLeaves)
      await Promise.race([all(), clock.sleep(finalReportMs, leaving.signal)])
      gone.abort()
      leaving.abort()
      await Promise.all([all(), beating, polling])
    },
  }
}

/** A key that declares the tool on the roster must not reach more tools than the files give to agents. */
function notListed(agentId: string, tool: string): NonNullable<CallReceipt> {
  const message = `agent "${agentId}" may not call "${tool}": add it to "tools" in agents/${agentId}.md`
  return { status: 'failed', error: { code: 'tool_not_allowed', message } }
}

function notStored(error: unknown): NonNullable<CallReceipt> {
  const message = `the tool ran, but its result cannot be stored: ${messageOf(error)}`
  return { status: 'failed', error: { code: 'result_not_kept', message } }
}

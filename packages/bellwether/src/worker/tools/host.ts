/**
 * A tool host: runs the tools of this process for the turns that wait for them. Always: a bell only wakes, and what is to be done is
 * read from the waits, so that calls run with every bell dropped; a call is claimed before anything is done (hazard 11), and only
 * when it can run now; while it runs its host beats, and gives up what nobody waits for; what was done is reported, however long the
 * database is away.
 */
import type { Clock, Log } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import type { Kernel } from '../../kernel/kernel.js'
import type { OpenCall } from '../../kernel/verbs/tools/tool_hosts.js'
import type { Bell, Ring } from '../../ports/bell/bell.js'
import { loop, makeWake } from '../../ports/loop.js'
import { retryUntil } from '../../ports/retry.js'
import { hostLeaves, runCall, type Told } from './run-call.js'
import type { Catalogue } from './catalogue.js'
import { messageOf } from './result.js'

export interface ToolHostOptions {
  readonly kernel: Pick<Kernel, 'startTool' | 'openCalls' | 'beatTools' | 'report'>
  readonly bell: Bell
  readonly clock: Clock
  readonly log: Log
  /** Names this process for good: a process that comes after it must have another name, or it would go on with its calls. */
  readonly host: string
  /** The only project whose calls are run. */
  readonly projectId: string
  readonly catalogue: Pick<Catalogue, 'find' | 'names'>
  readonly signal: AbortSignal
  readonly settings: ToolHostSettings
}

export interface ToolHostSettings {
  readonly concurrency: number
  readonly pollSeconds: number
  readonly beatSeconds: number
  /** After this long without a beat another host is taken for dead. */
  readonly silentSeconds: number
}

export interface ToolHost {
  /** Takes on what there is room for; answers how many calls. */
  step(): Promise<number>
  beat(): Promise<void>
  readonly running: number
  /** Waits for what runs, then gives it up. Resolves when everything that was done is reported. */
  close(graceMs: number): Promise<void>
}

interface Held {
  readonly abort: AbortController
  /** The claim was won: from here on it is ours to beat for. */
  claimed: boolean
  done: Promise<void>
}

// A tool that ignores its signal this often is broken: its calls are left to other hosts.
const stuckMax = 20
// Long enough for a database to restart; past it the turns have ended by their own deadlines.
const patience = {
  backoff: { mode: 'exponential', baseMs: 100, multiplier: 2, maxMs: 5_000, jitterPct: 0 },
  maxMs: 600_000,
} as const
// Reports that a closing host may take for what it gave up.
const farewellMs = 5_000

export async function openToolHost(options: ToolHostOptions): Promise<ToolHost> {
  const { kernel, bell, clock, log, host, projectId, catalogue, signal, settings } = options
  const running = new Map<string, Held>()
  const stuck = new Map<string, number>()
  const heard = new Set<string>()
  const wake = makeWake(clock)
  const stopping = new AbortController()
  const leaving = new AbortController()
  const gone = new AbortController()
  if (signal.aborted) stopping.abort()
  else signal.addEventListener('abort', () => stopping.abort(), { once: true })
  let lookAtAll = true
  let lookedAtMs = Number.NEGATIVE_INFINITY
  let more = false

  function hear(ring: Ring | undefined): void {
    const tool = ring?.subject.split('.')[6]
    if (tool === undefined) lookAtAll = true
    else if (catalogue.find(tool) === undefined) return
    else heard.add(tool)
    wake.now()
  }

  /** Tools to look for: those that were heard of, or all of them now and then. */
  function names(): string[] {
    const dueMs = lookedAtMs + settings.pollSeconds * 1_000
    const all = lookAtAll || more || clock.monotonicMs() >= dueMs
    const found = all ? catalogue.names() : [...heard]
    if (all) {
      lookAtAll = false
      lookedAtMs = clock.monotonicMs()
    }
    heard.clear()
    return found.filter((name) => (stuck.get(name) ?? 0) < stuckMax)
  }

  async function step(): Promise<number> {
    const room = settings.concurrency - running.size
    if (room <= 0 || stopping.signal.aborted) return 0
    const tools = names()
    let calls: OpenCall[]
    try {
      calls = await kernel.openCalls({ projectId, tools, silentSeconds: settings.silentSeconds, max: room })
    } catch (error) {
      lookAtAll = true
      throw error
    }
    more = calls.length === room
    const fresh = calls.filter((call) => !running.has(call.tool_call_id) && !stopping.signal.aborted)
    const taken = fresh.slice(0, settings.concurrency - running.size)
    for (const call of taken) take(call)
    return taken.length
  }

  function take(call: OpenCall): void {
    const held: Held = { abort: new AbortController(), claimed: false, done: Promise.resolve() }
    running.set(call.tool_call_id, held)
    held.done = answer(call, held)
      .catch((error: unknown) =>
        log.error(
          { err: error, tool_call_id: call.tool_call_id, tool: call.tool_name },
          'a tool call was not answered',
        ),
      )
      .finally(() => {
        running.delete(call.tool_call_id)
        if (more) wake.now()
      })
  }

  async function answer(
    { tool_call_id: toolCallId, tool_name: name, traceparent }: OpenCall,
    held: Held,
  ): Promise<void> {
    const tool = catalogue.find(name)
    if (tool === undefined) return
    const askedMs = clock.monotonicMs()
    const call = await insist(() => kernel.startTool(projectId, toolCallId, host))
    if (call?.what !== 'started') return
    held.claimed = true
    // A process that was frozen since it asked may have come too late: nothing is done that nobody waits for (hazard 15).
    const late = clock.monotonicMs() - askedMs > settings.silentSeconds * 1_000
    if (late && (await insist(() => kernel.beatTools(projectId, [toolCallId], host))).has(toolCallId)) return
    const { agent_id: agentId, agent_turn_id: agentTurnId, turn_epoch: turnEpoch } = call
    const told = await runCall({
      clock,
      tool,
      call,
      context: { projectId, agentId, agentTurnId, toolCallId, traceparent },
      signal: held.abort.signal,
      onStuck: (ended) => void mindStuck(name, ended),
    })
    if (told === undefined) return
    const fence = { agentTurnId, turnEpoch }
    await insist(() => kernel.report([{ projectId, toolCallId, ...told, fence }])).catch(async (error: unknown) => {
      if (error instanceof Retryable || gone.signal.aborted) throw error
      // The result cannot be kept as it is: that it ran must be known all the same.
      await insist(() => kernel.report([{ projectId, toolCallId, ...unkept(error), fence }]))
    })
  }

  async function mindStuck(tool: string, ended: Promise<void>): Promise<void> {
    const now = (stuck.get(tool) ?? 0) + 1
    stuck.set(tool, now)
    log.warn({ tool, calls: now }, 'a tool goes on though its call was ended')
    if (now === stuckMax)
      log.error({ tool, calls: now }, 'a tool is not run here any more: too many of its calls do not end')
    await ended
    stuck.set(tool, (stuck.get(tool) ?? 1) - 1)
  }

  /** Repeats a verb while the database is away: claiming and reporting twice is the same as once. */
  const insist = <T>(verb: () => Promise<T>): Promise<T> => retryUntil(patience, verb, { clock, signal: gone.signal })

  async function beat(): Promise<void> {
    const claimed = [...running].filter(([, held]) => held.claimed).map(([toolCallId]) => toolCallId)
    const lost = await kernel.beatTools(projectId, claimed, host)
    for (const toolCallId of lost) running.get(toolCallId)?.abort.abort('not_waited_for')
  }

  const listening = await bell.listen(`bw.v1.${projectId}.*.cmd.tool.*.call`, hear)
  const common = { clock, log }
  const looking = loop(
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
      const all = () => Promise.all([...running.values()].map((held) => held.done))
      await Promise.race([all(), clock.sleep(graceMs, leaving.signal)])
      for (const held of running.values()) held.abort.abort(hostLeaves)
      await Promise.race([all(), clock.sleep(farewellMs, leaving.signal)])
      gone.abort()
      leaving.abort()
      await Promise.all([all(), beating, looking])
    },
  }
}

function unkept(error: unknown): NonNullable<Told> {
  const message = `the tool ran, but its result cannot be kept: ${messageOf(error)}`
  return { status: 'failed', error: { code: 'result_not_kept', message } }
}

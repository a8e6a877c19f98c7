/** A worker in this process: it runs turns of one target, hosts tools, and by default runs a PMO. */
import { hostname } from 'node:os'
import { defined, type Log, systemClock, systemRandom } from '@bellwether/base'
import { token } from '@bellwether/protocol'
import { declareTool } from '../runtime/parts/tools.js'
import { openFunctionAgents } from '../runtime/parts/worker/function-agents.js'
import { openProcessGuard, standbyGuard } from '../runtime/parts/worker/process-guard.js'
import { openStandby } from '../runtime/parts/worker/standby.js'
import { toolHostSettings, workerLoopSettings, workerSettings } from '../runtime/parts/part-settings.js'
import { startPmo } from '../runtime/pmo.js'
import type { Runtime } from '../runtime/runtime.js'
import type { Settings } from '../settings/schema.js'
import { agentFor } from '../worker/agents.js'
import type { Agent } from '../worker/agent.js'
import type { AgentCode } from '../worker/isolation/isolation.js'
import { runWorker } from '../worker/loop.js'
import { openTranscriptWriter } from '../worker/transcript.js'
import { openCatalogue } from '../worker/tools/catalogue.js'
import { openToolHost } from '../worker/tools/host.js'
import type { HostedTool } from '../worker/tools/tool.js'
import { codeOf, defaultTarget, type ModuleAgent } from './agents.js'

export interface WorkerOptions {
  /** The worker target whose turns it runs. Default: `default`. */
  readonly target?: string
  /** The code of the agents by name, besides the functions given to `agents.define`. `*` runs every other agent. */
  readonly agents?: Readonly<Record<string, Agent | ModuleAgent>>
  /** Tools that this process runs, made with `defineTool`. */
  readonly tools?: readonly HostedTool[]
  /** Turns that may run at the same time. Default: the setting `worker.concurrency`. */
  readonly concurrency?: number
  /**
   * Also run a PMO in this process: the watchdogs, fork-join and the event relay. Default: true. Any number may run; set false
   * if `bellwether pmo` or a server runs on the same database.
   */
  readonly pmo?: boolean
  /** How long `close` waits for running turns; other workers take over the rest. Default: 20. */
  readonly drainSeconds?: number
}

/** A worker that runs until it is closed. */
export interface RunningWorker {
  readonly id: string
  /** Number of turns that it runs now. */
  running(): number
  /** Takes no new turns, waits for the running ones, and stops. */
  close(): Promise<void>
}

export interface LibraryParts {
  readonly runtime: Runtime
  readonly settings: Settings
  readonly log: Log
  readonly projectId: string
  readonly functions: Readonly<Record<string, AgentCode>>
}

const drainDefaultSeconds = 20
const toolGraceMs = 1_000

export async function startWorker(parts: LibraryParts, options: WorkerOptions): Promise<RunningWorker> {
  const { runtime, settings, log, projectId } = parts
  const { kernel, bell } = runtime
  const stopping = new AbortController()
  const { signal } = stopping
  const id = `${hostname()}-${process.pid}-${kernel.ids.next().slice(-6)}`
  const own = Object.fromEntries(
    Object.entries(options.agents ?? {}).map(([name, agent]) => [name, codeOf(name, agent)]),
  )
  const tools = options.tools ?? []
  const { silentSeconds, ...hostSettings } = toolHostSettings(settings)
  for (const tool of tools) await declareTool(kernel, projectId, tool, silentSeconds)
  const common = { kernel, bell, clock: systemClock, log, signal }
  const host =
    tools.length === 0
      ? undefined
      : await openToolHost({
          ...common,
          host: id,
          projectId,
          catalogue: openCatalogue(tools, []),
          settings: { ...hostSettings, silentSeconds },
        })
  const guard = openProcessGuard(systemClock, log, settings)
  const isolated = openFunctionAgents({ ...common, workerId: id, settings, guard, folder: process.cwd() })
  const functionNamed = (name: string) => {
    const code = [own, parts.functions].find((codes) => Object.hasOwn(codes, name))?.[name]
    return code && isolated.of(code, 'thread')
  }
  const { url } = settings.database
  const beatMs = settings.worker.beat_seconds * 1_000
  const standby =
    url === undefined
      ? undefined
      : openStandby({ url, workerId: id, beatMs, log, onBeat: isolated.renew, guard: standbyGuard(guard) })
  const { transcript_max_bytes: maxBytes } = settings.worker
  const transcript = openTranscriptWriter({ kernel, clock: systemClock, log, random: systemRandom, maxBytes })
  const worker = await runWorker({
    ...common,
    transcript,
    ...defined({ standby }),
    workerId: id,
    workerTarget: token(options.target ?? defaultTarget, 'worker target'),
    agent: (turn) => agentFor(functionNamed, turn),
    onBeat: isolated.renew,
    guarded: isolated.guards,
    settings: workerSettings(settings, options.concurrency),
    loop: { ...workerLoopSettings(settings), drainSeconds: options.drainSeconds ?? drainDefaultSeconds },
  })
  const pmo = options.pmo === false ? undefined : await startPmo({ runtime, settings, log, signal })
  let closed: Promise<void> | undefined
  return {
    id,
    running: () => worker.worker.running.size,
    close: () =>
      (closed ??= (async () => {
        stopping.abort()
        await worker.ended
        await transcript.close()
        await standby?.close()
        await isolated.close()
        guard.guardian.close()
        await host?.close(toolGraceMs)
        await pmo?.ended
      })()),
  }
}

/** `bellwether worker`: runs the turns of one worker target until shutdown, then drains. */
import { hostname } from 'node:os'
import { defined, systemClock, systemRandom } from '@bellwether/base'
import { token } from '@bellwether/protocol'
import type { ClaimedTurn } from '../kernel/verbs/turn/claim.js'
import type { Fence } from '../kernel/verdict.js'
import type { AgentFunction } from '../worker/agent.js'
import { agentFor } from '../worker/agents.js'
import { openCulprits } from '../worker/culprit.js'
import { isolationOf, type IsolationOptions, type LoadedAgent } from '../worker/isolation/isolation.js'
import { runWorker } from '../worker/loop.js'
import { unable } from '../worker/roster/roster.js'
import { openTranscriptWriter } from '../worker/transcript.js'
import type { HostedTool } from '../worker/tools/tool.js'
import { hideProcess } from '../ports/processes/hide-process.js'
import { tuneForWork, collectGarbageWhenIdle } from './heap-tuning.js'
import { openFileAgents } from './parts/worker/file-agents.js'
import { openFunctionAgents } from './parts/worker/function-agents.js'
import { openLiveAgentsFile } from './parts/worker/live-agents-file.js'
import { openProcessGuard, standbyGuard } from './parts/worker/process-guard.js'
import { openStandby } from './parts/worker/standby.js'
import { workerLoopSettings, workerSettings } from './parts/part-settings.js'
import { startProcessTelemetry } from './parts/telemetry.js'
import { type ProcessOptions, runProcess } from './process.js'
import { drainSeconds, turnFailureExitCode } from './shutdown.js'

export interface WorkerProcessOptions extends ProcessOptions {
  readonly target: string
  readonly agents: Readonly<Record<string, LoadedAgent>>
  /** The URL of the module that exports `agents`. */
  readonly module?: string
  /** An agents file whose accepted version is loaded again when it changes. Needs `control`. */
  readonly liveAgentsFile?: string
  /** Tools written as functions. A worker that also has agents from files hosts them. */
  readonly tools?: readonly HostedTool[]
  /** The project whose agents are read from files. Without it, only function agents run. */
  readonly fileAgentsOf?: string
  readonly concurrency?: number
}

const orphanDrainSeconds = 1

export function runWorkerProcess(options: WorkerProcessOptions): Promise<number> {
  const target = token(options.target, 'worker target')
  const { fileAgentsOf: projectId, folder, tools = [] } = options
  return runProcess(options, `worker ${target}`, async ({ runtime, settings, log, signal, env, shutdown }) => {
    hideProcess()
    const { kernel, bell } = runtime
    const { worker } = settings
    const workerId = `${hostname()}-${process.pid}-${kernel.ids.next().slice(-6)}`
    const concurrency = options.concurrency ?? worker.concurrency
    const common = { kernel, bell, clock: systemClock, log, signal, workerId }
    const guard = openProcessGuard(systemClock, log, settings)
    const isolated = openFunctionAgents({ ...common, settings, guard, folder })
    const culprits = openCulprits()
    const { liveAgentsFile: file, control } = options
    const live =
      file === undefined || control === undefined
        ? undefined
        : await openLiveAgentsFile({ file, folder, control, clock: systemClock, log, signal })
    /** The function of the agents file with this name. The options of an agent file override its own. */
    function functionNamed(name: string, overrides: IsolationOptions = {}): AgentFunction | undefined {
      const { agents, module } = live?.current ?? options
      const definition = Object.hasOwn(agents, name) ? agents[name] : undefined
      if (definition === undefined) return undefined
      const { run, ...stated } = definition
      const wanted = { ...stated, ...defined(overrides) }
      const isolation = isolationOf(wanted, worker.isolation)
      if (isolation === 'none' || module === undefined) return culprits.watched(run)
      if (live?.isCurrent() === false)
        return unable(
          `its agents file has a change that is not accepted, and threads and processes load it from the disk`,
        )
      return isolated.of({ module, name, takesInstruction: false, ...wanted }, isolation)
    }
    const files =
      projectId === undefined
        ? undefined
        : await openFileAgents({
            ...common,
            settings,
            guard,
            isolated,
            functionNamed,
            functionProblem: (name) => live?.problemOf(name),
            hasAgentsFile: control === undefined || live !== undefined,
            projectId,
            folder,
            control: options.control,
            functions: live === undefined && tools.length === 0 ? undefined : () => live?.current?.tools ?? tools,
            env,
            chunks: runtime.chunks(),
          })
    function onBeat(turn: Fence, sentMs: number): void {
      isolated.renew(turn, sentMs)
      files?.onBeat(turn, sentMs)
    }
    // Only functions run in this process: commands, models and people cannot block its event loop.
    const { url } = settings.database
    const standby =
      (Object.keys(options.agents).length === 0 && live === undefined) || url === undefined
        ? undefined
        : openStandby({
            url,
            workerId,
            beatMs: worker.beat_seconds * 1_000,
            blockedMaxMs: worker.blocked_max_seconds * 1_000,
            role: `worker ${target}`,
            guard: standbyGuard(guard),
            log,
            onBeat,
          })
    const transcript = openTranscriptWriter({
      kernel,
      clock: systemClock,
      log,
      random: systemRandom,
      maxBytes: worker.transcript_max_bytes,
    })
    const running = await runWorker({
      ...common,
      workerTarget: target,
      agent: (turn) => {
        const ours = files?.agent(turn)
        if (ours !== undefined) return ours
        return agentFor(functionNamed, turn)
      },
      onBeat,
      guarded: (turn) => isolated.guards(turn) || files?.guarded(turn) === true,
      ...defined({ standby }),
      transcript,
      settings: workerSettings(settings, concurrency),
      loop: {
        ...workerLoopSettings(settings),
        get drainSeconds() {
          return shutdown.orphaned() ? orphanDrainSeconds : drainSeconds
        },
      },
    })
    let uncaught = false
    /** Nothing caught the error: its turn fails, and the worker drains, because the state of the process is unknown. */
    function onUncaught(error: unknown): void {
      const culprit = culprits.current()
      log.error({ err: error, agent_turn_id: culprit?.agentTurnId }, 'uncaught error; worker shuts down')
      // If no turn is known, the process ends at once, as it would without this handler; the kernel isolates the turn (W2.1).
      if (culprit === undefined) process.exit(1)
      uncaught = true
      void failAndDrain(culprit, error)
    }
    async function failAndDrain(culprit: ClaimedTurn, error: unknown): Promise<void> {
      try {
        await running.worker.fail(culprit, error)
      } catch (failed) {
        log.error({ err: failed, agent_turn_id: culprit.agentTurnId }, 'cannot end a failed turn')
      }
      shutdown.begin('uncaught_error')
    }
    process.on('uncaughtException', onUncaught)
    process.on('unhandledRejection', onUncaught)
    const telemetry = await startProcessTelemetry({
      runtime,
      settings,
      log,
      signal,
      env,
      traces: false,
      worker: () => ({ target, running: running.worker.running.size, concurrency }),
    })
    tuneForWork()
    const facts = { worker_id: workerId, target, concurrency, bell: bell.kind }
    options.onReady?.({ ready: true, role: 'worker', ...facts, pid: process.pid })
    log.info(facts, 'worker is ready')
    void collectGarbageWhenIdle({ clock: systemClock, log, signal })
    await running.ended
    await transcript.close()
    await telemetry.close()
    await standby?.close()
    await files?.close()
    await isolated.close()
    guard.guardian.close()
    process.off('uncaughtException', onUncaught)
    process.off('unhandledRejection', onUncaught)
    const left = running.worker.running.size
    if (left > 0) log.warn({ turns: left }, 'drain timed out; other workers take over the remaining turns')
    if (uncaught) return turnFailureExitCode
    return left === 0 ? 0 : 1
  })
}

/**
 * The `command` executor: a coding agent or script runs the turn as a separate program. A beat confirms the fence just before the
 * program starts; the guardian watches the turn before there is a process; no process is left when the turn ends. The program's
 * output becomes the deliverable and decides nothing else.
 */
import { defined, type Clock, type Log } from '@bellwether/base'
import { InvalidInput, Retryable, Terminal } from '@bellwether/protocol'
import { TURN } from '../../kernel/turn.js'
import type { Fence } from '../../kernel/verdict.js'
import type { Step } from '../../kernel/verbs/turn/record.js'
import { commandEnvironment } from '../../ports/processes/environment.js'
import { folderInside } from '../../ports/processes/folder.js'
import type { Guardian, Watch } from '../../ports/processes/guardian.js'
import type { Self } from '../../ports/processes/proc.js'
import { sweepOlder, sweepOrphans } from '../../ports/processes/sweep.js'
import { writeToken } from '../../ports/processes/token.js'
import { FenceLost, type AgentFunction, type TurnContext } from '../agent.js'
import { withLimits, type BudgetSettings } from '../budget-watch.js'
import { degradeOf, type Degraded } from '../degrade.js'
import { wantedFields } from '../submit-result.js'
import { degradedRun, degradeVariable } from './command-degrade.js'
import { reportOf } from './command-report.js'
import { runCommand, type CommandRun } from './command-run.js'
import { storedResult, resultCard, type Delivered } from './stored-result.js'
import { commandLine, type Recipe } from './presets.js'
import { renderPrompt } from './prompt.js'
import type { Usage } from './usage.js'

export interface CommandSpec extends Recipe {
  readonly instructions: string
  readonly cwd?: string | undefined
  /** The model of a preset in a run with the degrade action `cheaper_model`. */
  readonly cheaper_model?: string | undefined
  /** Names of the environment variables that the program may see. */
  readonly env?: readonly string[] | undefined
  readonly budget?: BudgetSettings | undefined
  /** What happens to a turn whose worker was lost while the command ran. Default: run it again, with a note in the prompt. */
  readonly on_takeover?: 'rerun' | 'fail' | undefined
}

export interface CommandExecutorOptions {
  readonly clock: Clock
  readonly log: Log
  readonly guardian: Guardian
  /** Every command's working directory must be inside this folder. */
  readonly root: string
  readonly installation: string
  readonly self: Self
  readonly graceMs: number
  /** Receives the program's output while it runs. Lossy: nothing may depend on it. */
  readonly onChunk?: (turn: Fence, stream: 'stdout' | 'stderr', text: string) => void
}

export interface CommandExecutor {
  agent(spec: CommandSpec): AgentFunction
  /** Renews the guardian's switch: a beat that was sent at `askedMs` confirmed the fence. */
  renew(turn: Fence, askedMs: number): void
  /** Whether the guardian watches this turn: then it freezes the turn's processes while no beat confirms the fence. */
  guards(turn: Fence): boolean
  /** Kills processes that dead workers left on this machine. */
  sweep(): Promise<number>
}

const keyOf = (turn: Fence) => `${turn.agentTurnId}:${turn.turnEpoch}`

export function openCommandExecutor(options: CommandExecutorOptions): CommandExecutor {
  const { clock, log, guardian, installation, self, graceMs } = options
  const watches = new Map<string, Watch>()
  /** The turns that the guardian watches, until their result is stored. */
  const guarded = new Set<string>()

  async function run(context: TurnContext, spec: CommandSpec): Promise<Delivered> {
    const { turn } = context
    const known = await context.hydrate()
    const finished = turn.takenOver ? storedResult(known.output, turn) : undefined
    if (finished !== undefined) return finished
    if (turn.takenOver && spec.on_takeover === 'fail') return effectsUnknown
    const wanted = wantedFields(known.context)
    const { degraded, ...shaped } = degradedRun(spec, known, degradeOf(turn).now)
    const { command, format } = commandLine(shaped.recipe)
    const cwd = folderInside(options.root, spec.cwd ?? '.')
    const token = writeToken({ installation, ...self, ...fenceOf(turn) })
    const variables = {
      BELLWETHER_PROJECT: turn.projectId,
      BELLWETHER_AGENT: turn.agentId,
      BELLWETHER_TURN: turn.agentTurnId,
      BELLWETHER_TAKEN_OVER: String(turn.takenOver),
      ...(degraded.length > 0 && { [degradeVariable]: degraded.map(({ action }) => action).join(',') }),
    }
    const env = commandEnvironment(spec.env ?? [], variables, token)
    const prompt = renderPrompt({
      instructions: spec.instructions,
      context: shaped.context,
      truncated: known.truncated,
      output: shaped.output,
      wanted,
      takenOver: turn.takenOver,
    })

    const name = command[0] ?? ''
    const watch = await watchTurn(context, name, token)
    watches.set(keyOf(turn), watch)
    guarded.add(keyOf(turn))
    const stepId = context.newId()
    let usage: Usage | undefined
    let ended: CommandRun | undefined
    try {
      // Processes of an older epoch of this agent must not work on the same files any more.
      const older = await sweepOlder({ clock, graceMs, installation }, turn)
      if (older > 0) {
        log.warn({ agent_turn_id: turn.agentTurnId, processes: older }, 'processes of an older epoch killed')
        await context.activity('executing_tool', name.slice(0, 100))
      }
      if (context.signal.aborted) throw new FenceLost(turn.agentTurnId)
      const stop = context.meter?.(() => runningStep(stepId, { usage, frozenMs: watch.frozenMs(), degraded }))
      ended = await runCommand({
        clock,
        command,
        cwd,
        env,
        prompt,
        token,
        name: `${turn.agentTurnId}-${turn.turnEpoch}`,
        format,
        watch,
        signal: context.signal,
        graceMs,
        onUsage: (output) => void (usage = output.usage),
        onChunk: chunks(turn),
      })
      await stop?.()
    } finally {
      watches.delete(keyOf(turn))
      if (ended === undefined || ended.survivors.length === 0) watch.release()
      else
        log.error(
          { agent_turn_id: turn.agentTurnId, pids: ended.survivors },
          'processes not killed, left to the guardian',
        )
    }
    // The turn is not failed: its next worker runs it again, or ends it, as `on_takeover` says.
    if (ended.stopped === 'canceled' || ended.stopped === 'expired') throw new FenceLost(turn.agentTurnId)
    const facts = { usage: ended.output.usage, frozenMs: watch.frozenMs(), degraded }
    return stored(context, { stepId, run: ended, facts }, reportOf(ended, command, wanted))
  }

  async function watchTurn(context: TurnContext, name: string, token: string): Promise<Watch> {
    const askedMs = clock.monotonicMs()
    await context.activity('executing_tool', name.slice(0, 100))
    return guardian.watch(token, askedMs)
  }

  function chunks(turn: Fence): ((stream: 'stdout' | 'stderr', text: string) => void) | undefined {
    const { onChunk } = options
    if (onChunk === undefined) return undefined
    let broken = false
    return (stream, text) => {
      if (broken || text === '') return
      try {
        onChunk(turn, stream, text)
      } catch (error) {
        broken = true
        log.warn({ err: error, agent_turn_id: turn.agentTurnId }, 'command output no longer streamed')
      }
    }
  }

  return {
    agent(spec) {
      const agent: AgentFunction = async (context) => {
        try {
          return await run(context, spec)
        } catch (error) {
          // A command that cannot be run ends the turn with the error's own code; any other error is a fault of this worker.
          if (!(error instanceof Terminal) && !(error instanceof Retryable)) throw error
          const hint = error.hint === undefined ? '' : ` (${error.hint})`
          return {
            deliver: { text: `The command was not run: ${error.message}${hint}.` },
            status: 'failed',
            error: error.code,
          }
        } finally {
          guarded.delete(keyOf(context.turn))
        }
      }
      return withLimits(agent, spec.budget)
    },
    renew: (turn, askedMs) => watches.get(keyOf(turn))?.renew(askedMs),
    guards: (turn) => guarded.has(keyOf(turn)),
    sweep: () => sweepOrphans({ clock, graceMs, installation }, self),
  }
}

/** Stores the result before it is delivered. A result that cannot be stored (binary, too large) fails the turn. */
async function stored(context: TurnContext, ran: RanCommand, action: Delivered): Promise<Delivered> {
  try {
    await context.record({ cards: [resultCard(action, context.turn)], step: stepOf(ran, action) })
    return action
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error
    const text = `The command ended, but its result cannot be stored: ${error.message}.`
    const failed: Delivered = { deliver: { text }, status: 'failed', error: error.code }
    await context.record({ step: stepOf(ran, failed) })
    return failed
  }
}

/** The ending of a run whose worker was lost and which must not be repeated. */
const effectsUnknown: Delivered = {
  deliver: {
    text: 'The worker was lost while the command ran. Its effects are unknown: check them before you run the task again.',
  },
  status: 'failed',
  error: 'effects_unknown',
}

function fenceOf({ projectId, agentId, agentTurnId, turnEpoch }: Fence): Fence {
  return { projectId, agentId, agentTurnId, turnEpoch }
}

interface RanCommand {
  readonly stepId: string
  readonly run: CommandRun
  readonly facts: StepFacts
}

interface StepFacts {
  readonly usage: Usage | undefined
  readonly frozenMs: number
  readonly degraded: readonly Degraded[]
}

/** Every report of a step has its totals: the kernel charges the difference to the last report. */
const metadataOf = ({ usage, frozenMs, degraded }: StepFacts) =>
  defined({
    usage,
    frozen_ms: frozenMs > 0 ? Math.round(frozenMs) : undefined,
    degraded: degraded.length === 0 ? undefined : degraded,
  })

const runningStep = (stepId: string, facts: StepFacts): Step => ({
  stepId,
  phase: 'command',
  status: TURN.start.to,
  metadata: metadataOf(facts),
})

function stepOf({ stepId, run, facts }: RanCommand, { error }: Delivered): Step {
  return {
    stepId,
    phase: 'command',
    status: error === undefined ? 'success' : 'failed',
    ...defined({ error }),
    metadata: {
      ...metadataOf(facts),
      exit: run.exit,
      duration_ms: run.durationMs,
      stdout_bytes: run.stdoutBytes,
      stderr_bytes: run.stderrBytes,
    },
  }
}

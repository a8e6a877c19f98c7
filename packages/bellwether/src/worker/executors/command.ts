/**
 * The `command` executor: any coding agent or script does the turn, as a program of its own. Always: the fence was held just
 * before the program starts; the guardian watches before there is anything to watch; nothing of the program is left when the
 * turn goes on; what the program says is the deliverable and decides nothing else.
 */
import type { Clock, Log } from '@bellwether/base'
import { InvalidInput, Retryable, Terminal } from '@bellwether/protocol'
import type { Fence } from '../../kernel/verdict.js'
import { commandEnvironment } from '../../ports/processes/environment.js'
import { folderInside } from '../../ports/processes/folder.js'
import type { Guardian, Watch } from '../../ports/processes/guardian.js'
import type { Self } from '../../ports/processes/proc.js'
import { sweepOlder, sweepOrphans } from '../../ports/processes/sweep.js'
import { writeToken } from '../../ports/processes/token.js'
import { FenceLost, type AgentFunction, type TurnContext } from '../agent.js'
import { wantedFields } from '../submit-result.js'
import { reportOf } from './command-report.js'
import { runToItsEnd, type CommandRun } from './command-run.js'
import { keptResult, resultCard, resultMark, type Delivered } from './stored-result.js'
import { recipe, type Recipe } from './presets.js'
import { renderPrompt } from './prompt.js'

export interface CommandSpec extends Recipe {
  readonly instructions: string
  readonly cwd?: string | undefined
  /** Names of variables that it may see. */
  readonly env?: readonly string[] | undefined
  readonly budget?:
    | { readonly max_tokens?: number | undefined; readonly max_wall_seconds?: number | undefined }
    | undefined
  /** What becomes of a turn whose worker was lost while the command ran; absent: it is run again, and told so. */
  readonly on_takeover?: 'rerun' | 'fail' | undefined
}

export interface CommandExecutorOptions {
  readonly clock: Clock
  readonly log: Log
  readonly guardian: Guardian
  /** The folder that no command works outside of. */
  readonly root: string
  readonly house: string
  readonly self: Self
  readonly graceMs: number
  /** What a program writes, as it writes it: lossy, and nothing may depend on it. */
  readonly onChunk?: (turn: Fence, stream: 'stdout' | 'stderr', text: string) => void
}

export interface CommandExecutor {
  agent(spec: CommandSpec): AgentFunction
  /** A fenced beat, asked for at `askedMs`, found the turn alive. */
  beaten(turn: Fence, askedMs: number): void
  /** Ends what dead workers left behind on this machine. */
  sweep(): Promise<number>
  close(): void
}

const keyOf = (turn: Fence) => `${turn.agentTurnId}:${turn.turnEpoch}`

export function openCommandExecutor(options: CommandExecutorOptions): CommandExecutor {
  const { clock, log, guardian, house, self, graceMs } = options
  const watches = new Map<string, Watch>()

  async function watched(context: TurnContext, spec: CommandSpec): Promise<Delivered> {
    const { turn } = context
    const known = await context.hydrate()
    const finished = turn.takenOver ? keptResult(known.output, turn) : undefined
    if (finished !== undefined) return finished
    if (turn.takenOver && spec.on_takeover === 'fail') return effectsUnknown
    const wanted = wantedFields(known.context)
    const { command, format } = recipe(spec)
    const cwd = folderInside(options.root, spec.cwd ?? '.')
    const token = writeToken({ installation: house, ...self, ...fenceOf(turn) })
    const attempt = turn.attempts + 1
    const facts = {
      BELLWETHER_PROJECT: turn.projectId,
      BELLWETHER_AGENT: turn.agentId,
      BELLWETHER_TURN: turn.agentTurnId,
      BELLWETHER_ATTEMPT: String(attempt),
    }
    const env = commandEnvironment(spec.env ?? [], facts, token)
    const prompt = renderPrompt({
      instructions: spec.instructions,
      context: known.context,
      output: known.output.filter((card) => card.metadata[resultMark] === undefined),
      wanted,
      attempt,
    })

    const name = command[0] ?? ''
    const watch = await vouchedFor(context, name, token)
    watches.set(keyOf(turn), watch)
    let run: CommandRun | undefined
    try {
      // Of the same agent and older: nobody may work on the same things any more.
      const older = await sweepOlder({ clock, graceMs, installation: house }, turn)
      if (older > 0) {
        log.warn({ agent_turn_id: turn.agentTurnId, processes: older }, 'processes of an older attempt were ended')
        await context.activity('executing_tool', name.slice(0, 100))
      }
      if (context.signal.aborted) throw new FenceLost(turn.agentTurnId)
      run = await runToItsEnd({
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
        maxWallMs: least(seconds(spec.budget?.max_wall_seconds), fromPayload(turn, 'max_wall_ms')),
        maxTokens: least(spec.budget?.max_tokens, fromPayload(turn, 'max_tokens')),
        onChunk: chunks(turn),
      })
    } finally {
      watches.delete(keyOf(turn))
      if (run === undefined || run.left.length === 0) watch.release()
      else
        log.error(
          { agent_turn_id: turn.agentTurnId, pids: run.left },
          'processes could not be ended; the guardian goes on',
        )
    }
    if (run.cut === 'halted') throw new FenceLost(turn.agentTurnId)
    const action = reportOf(run, command, wanted)
    return kept(context, run, action)
  }

  async function vouchedFor(context: TurnContext, name: string, token: string): Promise<Watch> {
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
        log.warn({ err: error, agent_turn_id: turn.agentTurnId }, 'what a command writes is not streamed any more')
      }
    }
  }

  return {
    agent: (spec) => async (context) => {
      try {
        return await watched(context, spec)
      } catch (error) {
        // What cannot be run is said with its own code; what is wrong with this worker is not the agent's fault.
        if (!(error instanceof Terminal) && !(error instanceof Retryable)) throw error
        const hint = error.hint === undefined ? '' : ` (${error.hint})`
        return {
          deliver: { text: `The command was not run: ${error.message}${hint}.` },
          status: 'failed',
          error: error.code,
        }
      }
    },
    beaten: (turn, askedMs) => watches.get(keyOf(turn))?.renew(askedMs),
    sweep: () => sweepOrphans({ clock, graceMs, installation: house }, self),
    close: () => guardian.close(),
  }
}

/** Written down before it is delivered; an answer that cannot be (binary, too large) fails the turn and says why. */
async function kept(context: TurnContext, run: CommandRun, action: Delivered): Promise<Delivered> {
  try {
    await context.record({ cards: [resultCard(action, context.turn)], step: stepOf(context, run, action) })
    return action
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error
    const text = `The command ended, but its answer cannot be kept: ${error.message}.`
    const failed: Delivered = { deliver: { text }, status: 'failed', error: error.code }
    await context.record({ step: stepOf(context, run, failed) })
    return failed
  }
}

/** What becomes of a run whose worker was lost, when it may not be repeated. */
const effectsUnknown: Delivered = {
  deliver: { text: 'The worker was lost while the command ran. What it had done by then is unknown: reconcile first.' },
  status: 'failed',
  error: 'effects_unknown',
}

function fenceOf({ projectId, agentId, agentTurnId, turnEpoch }: Fence): Fence {
  return { projectId, agentId, agentTurnId, turnEpoch }
}

function stepOf(context: TurnContext, run: CommandRun, { error }: Delivered) {
  return {
    stepId: context.newId(),
    phase: 'command',
    status: error === undefined ? 'success' : 'failed',
    ...(error === undefined ? {} : { error }),
    metadata: {
      ...(run.answer.usage === undefined ? {} : { usage: run.answer.usage }),
      exit: run.exit,
      duration_ms: run.durationMs,
      stdout_bytes: run.stdoutBytes,
      stderr_bytes: run.stderrBytes,
    },
  }
}

const seconds = (value: number | undefined) => (value === undefined ? undefined : value * 1_000)

/** The board gives each run a budget of its own. */
function fromPayload(turn: { readonly payload: Readonly<Record<string, unknown>> }, name: string): number | undefined {
  const budget = turn.payload['budget']
  const value: unknown =
    typeof budget === 'object' && budget !== null ? (budget as Record<string, unknown>)[name] : undefined
  return typeof value === 'number' && Number.isFinite(value) && value > 0 ? value : undefined
}

function least(...limits: readonly (number | undefined)[]): number | undefined {
  const known = limits.filter((limit) => limit !== undefined)
  return known.length === 0 ? undefined : Math.min(...known)
}

/**
 * The `command` executor: a coding agent or script runs the turn as a separate program. A beat confirms the fence just before the
 * program starts; the guardian watches the turn before there is a process; no process is left when the turn ends. The program's
 * output becomes the deliverable and decides nothing else.
 */
import { defined, linkAbort, type Clock, type Log } from '@bellwether/base'
import { InvalidInput, Retryable, Terminal } from '@bellwether/protocol'
import { turnKey, type Fence } from '../../kernel/verdict.js'
import { commandEnvironment } from '../../ports/processes/environment.js'
import { folderInside } from '../../ports/processes/folder.js'
import type { Guardian, Watch } from '../../ports/processes/guardian.js'
import type { Self } from '../../ports/processes/proc.js'
import type { RunAs } from '../../ports/processes/run-as.js'
import { noSandbox, type Sandbox, type SandboxSpec } from '../../ports/processes/sandbox/sandbox.js'
import { makeScratch, sweepScratch } from '../../ports/processes/scratch.js'
import { clearWorkspace } from '../../ports/git/stale-locks.js'
import { workspaceOf } from '../../ports/git/workspace-folder.js'
import { sweepOlder, sweepOrphans } from '../../ports/processes/sweep.js'
import { writeToken } from '../../ports/processes/token.js'
import { FenceLost, type AgentFunction, type TurnContext } from '../agent.js'
import { spendingLimit, withLimits, type BudgetSettings } from '../budget-watch.js'
import { degradeOf } from '../degrade.js'
import { wantedFields } from '../submit-result.js'
import { accountLimit, accountOf, enterCommandAccount, type CommandAccount } from './command-account.js'
import { askingRecipe } from './approvals/presets.js'
import type { Approvals, TurnSocket } from './approvals/socket.js'
import { degradedRun, degradeVariable } from './command-degrade.js'
import { reportOf } from './command-report.js'
import { continuesLater, interrupted, runCommand, sessionLost, type CommandRunOptions } from './command-run.js'
import { runningStep, stepOf, type RanCommand, type StepFacts } from './command-step.js'
import { commandTranscript } from './command-transcript.js'
import { earlierResult, resultCard, type Delivered } from './stored-result.js'
import { cliHomes, commandLine, nested, presetEnvironment, type Recipe } from './presets.js'
import { promptOf } from './prompt.js'
import { defaultMaxRepeats, guardRepeats, noProgress } from './repeats.js'
import { openRunSession, type RunSession } from './session.js'
import { firstEventMs, messageText, openingLines, steer, takenMessages } from './steering.js'
import type { Usage } from './usage.js'

export interface CommandSpec extends Recipe, SandboxSpec {
  readonly instructions: string
  /** The account to which its runs are charged. Default: the preset. */
  readonly account?: string | undefined
  readonly cwd?: string | undefined
  /** The model of a preset in a run with the degrade action `cheaper_model`. */
  readonly cheaper_model?: string | undefined
  /** Names of the environment variables that the program may see. */
  readonly env?: readonly string[] | undefined
  readonly budget?: (BudgetSettings & { readonly max_repeats?: number | undefined }) | undefined
  /** Whether a takeover, a retry and a follow-up resume the session of a preset's program. Default: auto. */
  readonly resume?: 'auto' | 'never' | undefined
  /** Whether a program that can read messages while it runs gets them through its input. Default: auto. */
  readonly steering?: 'auto' | 'off' | undefined
  /** What happens to a turn whose worker was lost while the command ran. Default: run it again, with a note in the prompt. */
  readonly on_takeover?: 'rerun' | 'fail' | undefined
  /** The program's requests for permission go to people. */
  readonly approve?: 'ask' | undefined
  readonly approve_within_seconds?: number | undefined
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
  /** The account that runs the commands. Default: that of this process. */
  readonly runAs?: RunAs | undefined
  /** Default: no command runs in a sandbox. */
  readonly sandbox?: Sandbox | undefined
  /** Asks people for the permissions that programs request. */
  readonly approvals: Approvals
  /** How long a program whose input is open may print nothing. Default: 60 s. */
  readonly firstEventMs?: number
  /** Receives the program's output while it runs. Lossy: nothing may depend on it. */
  readonly onChunk?: (turn: Fence, stream: 'stdout' | 'stderr', text: string) => void
}

export interface CommandExecutor {
  agent(spec: CommandSpec): AgentFunction
  /** Renews the guardian's timer: a beat that was sent at `sentMs` confirmed the fence. */
  renew(turn: Fence, sentMs: number): void
  /** Whether the guardian watches this turn: then it freezes the turn's processes while no beat confirms the fence. */
  guards(turn: Fence): boolean
  /** Kills processes that dead workers left on this machine. */
  sweep(): Promise<number>
}

type Search = Pick<CommandRunOptions, 'command' | 'env' | 'cwd' | 'token' | 'watch'>
// A list of sessions on a slow disk takes seconds.
const lookUpMs = 30_000

export function openCommandExecutor(options: CommandExecutorOptions): CommandExecutor {
  const { clock, log, guardian, installation, self, graceMs } = options
  const watches = new Map<string, Watch>()
  /** The turns that the guardian watches, until their result is stored. */
  const guarded = new Set<string>()

  async function run(context: TurnContext, spec: CommandSpec): Promise<Delivered> {
    const { turn } = context
    const known = await context.hydrate()
    const finished = earlierResult(turn, known.output)
    if (finished !== undefined) return finished
    if (turn.takenOver && spec.on_takeover === 'fail') return effectsUnknown
    const wanted = wantedFields(known.context)
    const { degraded, ...shaped } = degradedRun(spec, known, degradeOf(turn).now)
    const workspace = workspaceOf(options.root, turn.payload)
    const cwd = folderInside(workspace, spec.cwd ?? '.')
    const token = writeToken({ installation, ...self, ...fenceOf(turn) })
    const variables = {
      ...presetEnvironment(spec),
      BELLWETHER_PROJECT: turn.projectId,
      BELLWETHER_AGENT: turn.agentId,
      BELLWETHER_TURN: turn.agentTurnId,
      BELLWETHER_TAKEN_OVER: String(turn.takenOver),
      ...(degraded.length > 0 && { [degradeVariable]: degraded.map(({ action }) => action).join(',') }),
    }
    const { prefix, env: account } = options.runAs ?? { prefix: [], env: {} }
    const env = { ...commandEnvironment(spec.env ?? [], variables, token), ...account }
    const parts = {
      ...shaped,
      output: shaped.output.filter(({ metadata }) => metadata['message'] === undefined),
      instructions: spec.instructions,
      truncated: known.truncated,
      wanted,
      // A run that ended at a limit of its account left its changes too.
      takenOver: turn.takenOver || turn.kind === 'resume',
    }
    const charged = await enterCommandAccount(context, accountOf(spec), clock)
    const name = commandLine(shaped.recipe).command[0] ?? ''
    const watch = await watchTurn(context, name, token)
    const scratch = makeScratch(self, options.runAs?.account)
    watches.set(turnKey(turn), watch)
    guarded.add(turnKey(turn))
    const { sandbox = noSandbox } = options
    const place = { spec, agentId: turn.agentId, cwd, workspace, scratch, cli: cliHomes[spec.preset ?? 'none'] }
    let leave: (() => void) | undefined
    let survivors: readonly number[] = []
    let asks: TurnSocket | undefined
    try {
      // Processes of an older epoch of this agent must not work on the same files any more.
      const older = await sweepOlder({ clock, graceMs, installation }, turn)
      if (older > 0) {
        log.warn({ agent_turn_id: turn.agentTurnId, processes: older }, 'processes of an older epoch killed')
        await context.activity('executing_tool', name.slice(0, 100))
      }
      await clearWorkspace(options.root, workspace)
      const session = await openRunSession({
        context,
        recipe: shaped.recipe,
        folder: cwd,
        log,
        resume: spec.resume !== 'never',
        steering: spec.steering !== 'off',
        fresh: degraded.some(({ action }) => action === 'reduced_context'),
        takenOver: parts.takenOver,
        async lookUp(wanted) {
          const inside = await sandbox.enter({ ...place, command: wanted, env })
          leave = inside.close
          const search = { command: [...prefix, ...inside.command], env: inside.env, cwd, token, watch }
          return lookUp(context, search).finally(inside.close)
        },
      })
      let messages = [...takenMessages(known.output), ...(await context.messages())]
      let unread = messages.filter(({ seq }) => seq > session.messagesSeen)
      if (spec.approve === 'ask') asks = await options.approvals.listen(context, scratch, spec.approve_within_seconds)
      const asking = asks && askingRecipe(shaped.recipe, asks.bridge)
      for (;;) {
        const { command, format } = commandLine(asking?.recipe ?? shaped.recipe, session.args)
        const asked = { ...place, command, env: { ...env, ...asking?.env, ...asks?.env } }
        const inside = nested(spec, await sandbox.enter(asked))
        leave = inside.close
        if (inside.note !== undefined) context.say({ kind: 'note', content: inside.note })
        // A program that reads messages from its input knows them by their ids; in a prompt, their numbers identify them.
        const follow = session.streams && session.start !== 'messages' ? unread : []
        const inPrompt = follow.length > 0 ? [] : unread
        session.hand(Math.max(0, ...inPrompt.map(({ seq }) => seq)))
        const text = promptOf(
          session.start,
          {
            ...parts,
            mark: session.promptMark,
            mayBeKnown: session.mayKnowPrompt,
            messages: inPrompt.map(messageText).join('\n\n'),
          },
          turn,
        )
        const launched = {
          ...{ format, cwd, token },
          command: [...prefix, ...inside.command],
          env: inside.env,
          onMessage: inside.onMessage,
          prompt: session.streams ? openingLines(context, text, follow) : text,
        }
        const ran = await runProgram(context, spec, { launched, watch, session, degraded, charged })
        survivors = ran.run.survivors
        leave()
        if (session.isLost(ran.run)) {
          context.say({ kind: 'note', content: `The session could not be used. ${name} starts a new one.` })
          await context.record({ step: stepOf(ran, { error: sessionLost }) })
          unread = messages
          continue
        }
        if (ran.run.stopped === spendingLimit) await context.record({ step: stepOf(ran, { error: spendingLimit }) })
        // The turn is not failed: its next worker runs it again, or ends it, as `on_takeover` says.
        if (continuesLater(ran.run)) throw new FenceLost(turn.agentTurnId)
        const limit = charged.limitOf(ran.run)
        if (limit !== undefined) await context.record({ step: stepOf(ran, { error: accountLimit }) })
        const report = reportOf(ran.run, command, wanted)
        const mayGoOn = limit === undefined && (ran.run.stopped === interrupted || report.status !== 'failed')
        const late = ran.written.filter(({ seq }) => seq > session.messagesSeen)
        const more = mayGoOn && session.id !== undefined ? [...late, ...(await context.messages())] : []
        if (more.length > 0 && session.goOn()) {
          await context.record({ step: stepOf(ran, defined({ error: ran.run.stopped })) })
          messages = [...messages, ...more]
          unread = more
          continue
        }
        await charged.leave(limit)
        return await stored(context, ran, report)
      }
    } finally {
      leave?.()
      asks?.close()
      watches.delete(turnKey(turn))
      scratch.remove()
      if (survivors.length === 0) watch.release()
      else log.error({ agent_turn_id: turn.agentTurnId, pids: survivors }, 'processes not killed, left to the guardian')
    }
  }

  /** The output of a short command beside the program. A lookup that fails finds nothing: the program starts a new session. */
  async function lookUp(context: TurnContext, search: Search): Promise<string> {
    const { turn } = context
    const cancellation = linkAbort(context.signal)
    const late = new AbortController()
    void clock.sleep(lookUpMs, late.signal).then(() => cancellation.abort())
    const quiet = () => undefined
    try {
      const { exit, stdout, stderr } = await runCommand({
        ...{ clock, ...search, format: 'text', prompt: '', graceMs, signal: cancellation.signal },
        ...{ name: `${turn.agentTurnId}-${turn.turnEpoch}`, onParsed: quiet, onText: quiet },
      })
      if (stderr !== '') log.warn({ agent_turn_id: turn.agentTurnId, exit, stderr }, 'session lookup failed')
      return stdout
    } finally {
      late.abort()
      cancellation.release()
    }
  }

  /** One run of the program: a step of the turn. */
  async function runProgram(
    context: TurnContext,
    spec: CommandSpec,
    { launched, watch, session, degraded, charged }: ProgramRun,
  ): Promise<RanCommand> {
    const { turn } = context
    const stepId = context.newId()
    const cancellation = linkAbort(context.signal)
    const over = new AbortController()
    const steering = steer({
      ...{ context, session, clock, log, signal: over.signal, firstEventMs: options.firstEventMs ?? firstEventMs },
      stop: (reason) => cancellation.abort(reason),
    })
    const repeats = guardRepeats(spec.budget?.max_repeats ?? defaultMaxRepeats, {
      warn: (text) => steering.warn(text),
      stop: () => cancellation.abort(noProgress),
    })
    let usage: Usage | undefined
    const facts = (): StepFacts => ({ usage, frozenMs: watch.frozenMs(), degraded, session })
    try {
      if (context.signal.aborted) throw new FenceLost(turn.agentTurnId)
      await session.begin()
      await context.record({ step: runningStep(stepId, facts()) })
      if (session.resumes) context.say({ kind: 'note', content: `Resumes the session ${session.id}.` })
      const transcript = commandTranscript(launched.format, (entry) => {
        context.say(entry)
        repeats(entry)
      })
      const stop = context.meter?.(() => runningStep(stepId, facts()))
      const run = await runCommand({
        clock,
        ...launched,
        name: `${turn.agentTurnId}-${turn.turnEpoch}`,
        watch,
        signal: cancellation.signal,
        graceMs,
        onInput: steering.onInput,
        onParsed(output) {
          usage = session.used(output.usage)
          if (output.failure === undefined) charged.used(usage)
          steering.see(output)
          if (session.see(output)) cancellation.abort(sessionLost)
        },
        onChunk: chunks(turn),
        onText(stream, text) {
          steering.printed()
          transcript.add(stream, text)
        },
      })
      transcript.end(run.output)
      await stop?.()
      usage = session.used(run.output.usage)
      await session.stored()
      return { stepId, run, facts: facts(), written: steering.written }
    } finally {
      over.abort()
      cancellation.release()
    }
  }

  async function watchTurn(context: TurnContext, name: string, token: string): Promise<Watch> {
    const sentMs = clock.monotonicMs()
    await context.activity('executing_tool', name.slice(0, 100))
    return guardian.watch(token, sentMs)
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
          guarded.delete(turnKey(context.turn))
        }
      }
      return withLimits(agent, spec.budget, { model: spec.model, reserves: false })
    },
    renew: (turn, sentMs) => watches.get(turnKey(turn))?.renew(sentMs),
    guards: (turn) => guarded.has(turnKey(turn)),
    async sweep() {
      const killed = await sweepOrphans({ clock, graceMs, installation }, self)
      sweepScratch(self)
      return killed
    },
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

interface ProgramRun extends Pick<StepFacts, 'degraded'> {
  readonly launched: Pick<CommandRunOptions, 'command' | 'format' | 'cwd' | 'env' | 'onMessage' | 'token' | 'prompt'>
  readonly watch: Watch
  readonly session: RunSession
  readonly charged: CommandAccount
}

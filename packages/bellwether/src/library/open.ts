/**
 * Opens Bellwether on a PostgreSQL: connections, migrated schema, bell and ids. It needs no running server. `close` stops the
 * workers, then the connections, then an embedded database.
 */
import { defined, errorMessage, type Log, systemClock, systemRandom } from '@bellwether/base'
import { InvalidInput, subjects, type ResultStatus } from '@bellwether/protocol'
import { openTail } from '../http/tail.js'
import { openTranscriptBell } from '../http/transcript-bell.js'
import type { Kernel } from '../kernel/kernel.js'
import type { ApprovalRow as Approval, QuestionRow as Question } from '@bellwether/protocol/http'
import { readApprovals } from '../kernel/reads/approvals.js'
import type { Decision, DecisionResult } from '../kernel/verbs/approvals/approvals.js'
import { readQuestions } from '../kernel/reads/waits.js'
import { startEmbedded, type Embedded } from '../ports/database/embedded.js'
import { safeLine } from '../runtime/log-line.js'
import { openRuntime } from '../runtime/runtime.js'
import { withDefaults, type Settings } from '../settings/schema.js'
import type { AgentCode } from '../worker/isolation/isolation.js'
import { openAgents, type AgentRoster } from './agents.js'
import { readEventsOf, type BellwetherEvent, type EventOptions } from './events.js'
import { openSchedules, type Schedules } from './schedules.js'
import { openTurns, type Turns } from './turns.js'
import { startWorker, type RunningWorker, type WorkerOptions } from './worker.js'

/** A PostgreSQL URL, or a folder for an embedded database of its own. */
export type DatabaseChoice = string | { readonly embedded: string }

export interface OpenOptions {
  /** The project of all agents and turns. Default: `default`. */
  readonly project?: string
  /** NATS servers for the bell and the event stream. Default: PostgreSQL notify. */
  readonly nats?: string
  /** Default: warnings and errors as JSON lines on stderr. */
  readonly log?: Log
}

/** Answers of tool calls that no hosted tool gives: by a person, or by your own code. */
export interface ToolCalls {
  /** The open questions of agents to people (tool `ask_person`), oldest first. */
  questions(): Promise<readonly Question[]>
  /** Answers a tool call. `ignored`: no turn waits for it any more. */
  answer(toolCallId: string, result: unknown, status?: ResultStatus): Promise<'reported' | 'ignored'>
}

/** Calls that wait until a person allows or denies them. */
export interface Approvals {
  /** The open ones, oldest first. */
  list(): Promise<readonly Approval[]>
  /** Decides about a call, in the name of `by`. Throws if it was decided before, its deadline has passed or its turn is over. */
  decide(approvalId: string, decision: ApprovalDecision): Promise<void>
}

export type ApprovalDecision = Omit<Decision, 'projectId' | 'approvalId'>

/** Bellwether on one database and one project. */
export interface Bellwether {
  readonly project: string
  /** The agents of the project. */
  readonly agents: AgentRoster
  /** The turns of the project. */
  readonly turns: Turns
  /** Tool calls that wait for an answer from outside. */
  readonly toolCalls: ToolCalls
  /** Calls that wait for a person's decision. */
  readonly approvals: Approvals
  /** What the PMOs start by the clock. */
  readonly schedules: Schedules
  /** The kernel, for everything that has no method here. */
  readonly kernel: Kernel
  /** Starts a worker in this process. */
  worker(options?: WorkerOptions): Promise<RunningWorker>
  /** Events of the project, from now on or after a cursor. Leave the loop, or close, to stop. */
  events(options?: EventOptions): AsyncIterableIterator<BellwetherEvent>
  /** Drains the workers, closes the connections, and stops an embedded database. */
  close(): Promise<void>
}

/**
 * Opens a database and migrates it.
 *
 * @example
 * const bw = await open('postgresql://user:password@host:5432/name')
 * await bw.agents.define('greeter', (turn) => `Hello! You asked: ${turn.instruction}`)
 * await bw.worker()
 * console.log((await bw.turns.run('greeter', 'Good morning')).text)
 * await bw.close()
 */
export async function open(database: DatabaseChoice, options: OpenOptions = {}): Promise<Bellwether> {
  const { project: projectId = 'default', log = warningsOnly, nats } = options
  const dataDir = (database as { readonly embedded?: string } | undefined)?.embedded
  const embedded = dataDir === undefined ? undefined : await startEmbedded({ dataDir, log })
  try {
    return await openOn(embedded?.url ?? database, projectId, log, nats, embedded)
  } catch (error) {
    await embedded?.stop()
    throw error
  }
}

async function openOn(
  url: unknown,
  projectId: string,
  log: Log,
  nats: string | undefined,
  embedded: Embedded | undefined,
): Promise<Bellwether> {
  const settings = settingsFor(url, nats)
  const closing = new AbortController()
  const { signal } = closing
  const ports = { clock: systemClock, random: systemRandom }
  const runtime = await openRuntime({ ...ports, settings, log, name: 'bellwether library', signal })
  const { kernel, bell } = runtime
  const tail = openTail({ db: kernel.db, clock: systemClock, log })
  const listening = await bell.listen(subjects.anyEvent, () => tail.wake())
  const tailing = tail.run(signal)
  const functions: Record<string, AgentCode> = {}
  const workers: RunningWorker[] = []
  // `events` gets its position from the database; a turn that is started after the call must come after the position.
  let positioned: Promise<unknown> = Promise.resolve()
  let closed: Promise<void> | undefined
  return {
    project: projectId,
    kernel,
    agents: openAgents(kernel, projectId, functions),
    turns: openTurns(kernel, tail, systemClock, projectId, signal, () => positioned, openTranscriptBell(bell)),
    toolCalls: {
      questions: () => readQuestions(kernel.db, projectId, questionsMax),
      async answer(toolCallId, result, status = 'success') {
        const [what] = await kernel.report([{ projectId, toolCallId, status, result }])
        if (what === 'reported' || what === 'ignored') return what
        throw new InvalidInput(`Project "${projectId}" has no tool call "${toolCallId}"`, {
          code: 'unknown_tool_call',
          hint: 'use the toolCallId with which the agent suspended, or one of toolCalls.questions',
        })
      },
    },
    approvals: {
      list: () => readApprovals(kernel.db, { projectId, show: 'waiting', limit: questionsMax }),
      async decide(approvalId, decision) {
        const { result } = await kernel.decideApproval({ ...decision, projectId, approvalId })
        if (result === 'decided') return
        throw new InvalidInput(`Cannot decide about approval "${approvalId}": ${undecided[result]}`, {
          code: `approval_${result}`,
          hint: 'approvals.list() returns the calls that wait',
        })
      },
    },
    schedules: openSchedules(kernel, projectId, log),
    async worker(workerOptions = {}) {
      const worker = await startWorker({ runtime, settings, log, projectId, functions }, workerOptions)
      workers.push(worker)
      return worker
    },
    events(eventOptions = {}) {
      const reading = readEventsOf(tail, systemClock, projectId, signal, eventOptions)
      positioned = Promise.all([positioned, reading.positioned])
      return reading.events
    },
    close: () =>
      (closed ??= (async () => {
        await Promise.all(workers.map((worker) => worker.close()))
        closing.abort()
        await tailing
        await listening.stop()
        await runtime.close()
        await embedded?.stop()
      })()),
  }
}

const undecided = {
  already: 'it was decided before',
  expired: 'its deadline has passed, so the call was denied',
  ended: 'its turn does not wait for it any more',
  full: 'its agent has the maximum number of grants',
  unknown: 'it does not exist',
} as const satisfies Record<Exclude<DecisionResult, 'decided'>, string>

const questionsMax = 500

/** The default settings of the product, on this database. */
function settingsFor(url: unknown, nats: string | undefined): Settings {
  // A program in JavaScript may pass an unset variable.
  if (typeof url !== 'string' || !/^postgres(ql)?:\/\//.test(url))
    throw new InvalidInput(`Cannot open ${JSON.stringify(url) ?? 'undefined'}: it is not a PostgreSQL URL`, {
      code: 'invalid_database_url',
      hint: 'pass postgresql://user:password@host:5432/name, or { embedded: "./folder" } for a database of its own',
    })
  return withDefaults({ database: { url }, nats: defined({ url: nats }) })
}

const errorsAsText = (_key: string, value: unknown) => (value instanceof Error ? errorMessage(value) : value)
const print = (level: string) => (fields: object, message: string) =>
  void process.stderr.write(`${safeLine(JSON.stringify({ level, msg: message, ...fields }, errorsAsText))}\n`)
export const warningsOnly: Log = { info: () => undefined, warn: print('warn'), error: print('error') }

/**
 * `bellwether demo --chaos`: injects faults into a running server until Ctrl-C or for the given minutes, while turns and tasks
 * keep arriving. Then it waits for everything that was acknowledged and checks it in the database. A first Ctrl-C ends the
 * faults and reports; a second one exits at once. The exit code is 1 if anything is stuck or lost.
 */
import { setMaxListeners } from 'node:events'
import { linkAbort, onAbort, seededRandom, systemClock } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import { projectId, targets } from '../actors.js'
import { abortOldTasks } from '../board-scenarios.js'
import { checkTurns, countOpenTurns, markStart, turnsSince, type Mark } from '../check.js'
import { openDemoClient, type DemoClient } from '../client.js'
import { countFault, readTask, type Context } from '../context.js'
import { openDatabase, type Database } from '../database.js'
import type { Behaviour } from '../fakes/tools.js'
import { columns, openScreen, type Screen } from '../screen.js'
import { openSetup, type Setup } from '../setup.js'
import { handleShutdown } from '../shutdown.js'
import { injectFaults, type Target } from './faults.js'
import { databaseTime, recoveryTimes, turnDurations, type FaultAt } from './measurements.js'
import { traffic } from './traffic.js'
import { startWatch, type Watch } from './watch.js'

export interface ChaosOptions {
  readonly dataDir: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** Node's arguments that run the command line: flags and script. */
  readonly program: readonly string[]
  /** Absent: until Ctrl-C. */
  readonly minutes?: number
  readonly seed: number
  /** Print one object on stdout and the narration on stderr. */
  readonly json: boolean
}

export interface ChaosResult {
  readonly ok: boolean
  readonly seed: number
  readonly seconds: number
  readonly turns: number
  readonly by_outcome: Readonly<Record<string, number>>
  readonly tasks: Readonly<Record<string, number>>
  readonly faults: Readonly<Record<string, number>>
  readonly interventions: Readonly<Record<string, number>>
  readonly taken_over: number
  readonly task_events_per_turn: number
  readonly stuck: number
  readonly lost: number
  readonly violations: readonly string[]
  readonly turn_ms: { readonly p50: number; readonly p95: number; readonly worst: number }
  readonly recovery_worst_ms: Readonly<Record<string, number>>
  readonly most_mebibytes: number
  readonly watch_rounds: number
}

// A turn's deadline (90 s), a sweep, and a server that has just restarted.
const settleMs = 150_000
const pollMs = 500
const interrupted = 130
/** One call in ten each; the rest succeed. */
const misbehaviours: readonly Behaviour[] = ['hangs', 'slow', 'fails', 'twice']
const faultNames: Readonly<Record<string, string>> = {
  hangs: 'tool hung',
  slow: 'tool was slow',
  fails: 'tool failed',
  twice: 'tool reported twice',
}

export async function runChaos(options: ChaosOptions): Promise<number> {
  const startedMs = systemClock.monotonicMs()
  const screen = openScreen(
    options.json ? { write: (text) => process.stderr.write(text) } : process.stdout,
    () => systemClock.monotonicMs() - startedMs,
  )
  const say = (sentence: string) => screen.say(sentence)
  const shutdown = handleShutdown()
  onAbort(shutdown.signal, () => say('no more faults; waiting for running work (Ctrl-C again exits at once)'))
  const faults: FaultAt[] = []
  const counts: Record<string, number> = {}
  const random = seededRandom(options.seed + 1)
  let client: DemoClient | undefined
  const behaviour = (): Behaviour => {
    const next = random.next() < misbehaviours.length / 10 ? random.pick(misbehaviours) : 'succeeds'
    const name = faultNames[next]
    if (name !== undefined) countFault({ faults: counts }, name)
    return next
  }
  const reportAgain = (toolCallId: string) => {
    if (client !== undefined) void reportTwice(client, toolCallId)
  }
  // Never aborts: work that runs when the faults end is waited for.
  const never = new AbortController().signal
  setMaxListeners(0, never)
  let setup: Setup | undefined
  try {
    say(`chaos with seed ${options.seed}`)
    setup = await openSetup({
      ...options,
      model: {},
      say,
      signal: never,
      behaviour,
      reportAgain,
      stopAtOnce: () => true,
    })
    if (shutdown.signal.aborted) return interrupted
    const { info } = setup.server
    say(`the server is up (pid ${info.pid}); open the dashboard with this one-time link: ${info.loginUrl}`)
    // Its name must not start with "bellwether": the fault "connections cut" spares it.
    const db = openDatabase(info.databaseUrl, 'chaos')
    setup.onClose(() => db.close())
    client = openDemoClient(info, systemClock, never)
    const context: Context = {
      client,
      clock: systemClock,
      signal: never,
      turnIds: new Set(),
      taskIds: new Set(),
      faults: counts,
      failures: [],
      say,
    }
    const record = async (kind: string) => {
      faults.push({ kind, at: await databaseTime(db) })
      countFault(context, kind)
    }
    const result = await attack({ options, setup, db, context, faults, record, stop: shutdown.signal, startedMs })
    if (options.json) process.stdout.write(`${JSON.stringify(result)}\n`)
    else showResult(screen, result)
    return result.ok ? 0 : 1
  } finally {
    screen.clear()
    await setup?.close()
    shutdown.release()
  }
}

interface Attack {
  readonly options: ChaosOptions
  readonly setup: Setup
  readonly db: Database
  readonly context: Context
  readonly faults: readonly FaultAt[]
  readonly record: Target['record']
  readonly stop: AbortSignal
  readonly startedMs: number
}

async function attack({ options, setup, db, context, faults, record, stop, startedMs }: Attack): Promise<ChaosResult> {
  const { server, folder } = setup
  const { minutes, seed } = options
  const start = await markStart(db)
  await abortOldTasks(context)
  const attacking = linkAbort(stop)
  const { signal } = attacking
  const end = () => attacking.abort()
  setMaxListeners(0, signal)
  if (minutes !== undefined) void systemClock.sleep(minutes * 60_000, signal).then(end)
  const watching = new AbortController()
  const { logFile } = folder
  const { watch, ended } = startWatch({ server, db, clock: systemClock, logFile, signal: watching.signal })
  const target: Target = {
    server,
    db,
    clock: systemClock,
    order: seededRandom(seed),
    random: seededRandom(seed + 3),
    signal,
    say: (text) => context.say(text),
    record,
  }
  try {
    // If one fails, the other ends too: a run without faults proves nothing.
    await Promise.all([
      injectFaults(target).finally(end),
      traffic(context, seededRandom(seed + 2), signal).finally(end),
    ])
    context.say(`injected ${faults.length} faults; waiting for ${context.turnIds.size} turns`)
    await settle(context, db)
  } finally {
    end()
    watching.abort()
    await ended
  }
  return judge(context, db, start, watch, faults, seed, (systemClock.monotonicMs() - startedMs) / 1_000)
}

/** Waits until everything has ended, or until it must have; the check reports what has not. */
async function settle(context: Context, db: Database): Promise<void> {
  const untilMs = systemClock.monotonicMs() + settleMs
  while (systemClock.monotonicMs() < untilMs) {
    try {
      if ((await countOpenTurns(db, projectId)) === 0 && (await countOpenTasks(context)) === 0) return
    } catch (error) {
      if (!(error instanceof Retryable)) throw error
    }
    await systemClock.sleep(pollMs)
  }
}

const isRecovering = ({ reason }: { readonly reason: string | null }) =>
  reason?.startsWith('recovery_pending:') === true

/** Tasks that an agent still has to finish; tasks that wait for a person do not count. */
async function countOpenTasks({ client, taskIds }: Context): Promise<number> {
  const open = new Set<string>(['pending', 'claimed', 'in_progress'])
  const { tasks } = await client.ask('GET /board/tasks', { query: { done: false, limit: 1_000 } })
  return tasks.filter((task) => taskIds.has(task.taskId) && (open.has(task.status) || isRecovering(task))).length
}

async function judge(
  context: Context,
  db: Database,
  start: Mark,
  watch: Watch,
  faults: readonly FaultAt[],
  seed: number,
  seconds: number,
): Promise<ChaosResult> {
  for (const turn of await turnsSince(db, projectId, start.turnId)) context.turnIds.add(turn.agent_turn_id)
  const check = await checkTurns(db, projectId, [...context.turnIds], Object.values(targets), start.interventionId)
  const tasks: Record<string, number> = {}
  const lostTasks: string[] = []
  for (const taskId of context.taskIds) {
    const status = await readTask(context, taskId).then(
      (task) => (isRecovering(task) ? 'recovering' : task.status),
      () => 'lost',
    )
    tasks[status] = (tasks[status] ?? 0) + 1
    if (['lost', 'pending', 'claimed', 'in_progress', 'recovering'].includes(status))
      lostTasks.push(`task ${taskId} is ${status}`)
  }
  const durations = await turnDurations(db, start.turnId)
  const violations = [...watch.violations, ...lostTasks]
  const { stuck, lost } = check
  return {
    ok: stuck.length + lost.length + violations.length === 0 && check.turns > 0,
    seed,
    seconds: Math.round(seconds),
    turns: check.turns,
    by_outcome: check.outcomes,
    tasks,
    faults: context.faults,
    interventions: check.interventions,
    taken_over: check.takenOver,
    task_events_per_turn: check.turns === 0 ? 0 : check.taskEvents / check.turns,
    stuck: stuck.length,
    lost: lost.length,
    violations,
    turn_ms: { p50: durations.p50Ms, p95: durations.p95Ms, worst: durations.worstMs },
    recovery_worst_ms: await recoveryTimes(db, faults),
    most_mebibytes: watch.mostMebibytes,
    watch_rounds: watch.rounds,
  }
}

/** Reports a tool result two more times, bypassing the tool's host: neither report may change anything. */
async function reportTwice(client: DemoClient, toolCallId: string): Promise<void> {
  for (const caught of [true, false])
    await client
      .ask('POST /projects/:project/tool-calls/:call/result', {
        params: { call: toolCallId },
        body: { status: 'success', result: { caught } },
      })
      .catch((error: unknown) => String(error))
}

function showResult(screen: Screen, result: ChaosResult): void {
  const list = (value: unknown): string =>
    typeof value === 'object' && value !== null
      ? Object.entries(value)
          .map(([name, one]) => (Array.isArray(value) ? String(one) : `${name} ${String(one)}`))
          .join(', ') || 'none'
      : String(value)
  screen.clear()
  const rows = Object.entries(result).map(([name, value]) => [name.replaceAll('_', ' '), list(value)])
  process.stdout.write(`\n${columns(rows).join('\n')}\n\n`)
}

/**
 * `bellwether demo --chaos`: injects faults into a running server until Ctrl-C, or for the given minutes or rounds, while turns, tasks and
 * changes of files keep arriving. After each round of faults, and at the end, it waits for all open work and judges it. A first Ctrl-C
 * ends the faults and reports; a second one exits at once. The exit code is 1 if anything failed, is stuck, lost or left.
 */
import { setMaxListeners } from 'node:events'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { errorMessage, linkAbort, onAbort, seededRandom, systemClock } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import { projectId } from '../actors.js'
import { abortOldTasks } from '../board-scenarios.js'
import { countOpenTurns, markStart } from '../check.js'
import { openDemoClient, type DemoClient } from '../client.js'
import { countFault, type Context } from '../context.js'
import { openDatabase, type Database } from '../database.js'
import type { Behaviour } from '../fakes/tools.js'
import type { ProcessRow } from '../processes.js'
import { openScreen } from '../screen.js'
import { openSetup, type Setup } from '../setup.js'
import { handleShutdown } from '../shutdown.js'
import { startCompanions } from './companions.js'
import { injectRound, paces, type Target } from './faults.js'
import { followFeed } from './feed.js'
import { judge, missingInFeed, type Evidence } from './judge.js'
import { changeFiles } from './odd-files.js'
import { chaosFiles, overlapsFile } from './project.js'
import { buildReport, printReport, type ChaosReport, type ScheduledFault } from './report.js'
import { findProcesses } from './roles.js'
import { runForeignTransactions } from './foreign-transactions.js'
import { addFunctionAgents, rates, traffic } from './traffic.js'
import { checkView, view, type ViewCheck } from './view-check.js'
import { startWatch, type Watch } from './watch.js'

export interface ChaosOptions {
  readonly dataDir: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** Node's arguments that run the command line: flags and script. */
  readonly program: readonly string[]
  /** Absent, like `rounds`: until Ctrl-C. */
  readonly minutes?: number
  /** How many rounds of all faults. */
  readonly rounds?: number
  readonly seed: number
  /** Freeze for less than a second instead of a minute, with short gaps: for a round of less than a minute. */
  readonly quick: boolean
  /** Print one object on stdout and the narration on stderr. */
  readonly json: boolean
}

// Poison turns need several lives of a worker, and turns behind a freeze wait in their queue.
const settleMs = 600_000
const pollMs = 1_000
// A cleaner waits 4 s after the end of its worker and scans until it finds nothing.
const leftMs = 20_000
const fileEveryMs = { full: 3_000, quick: 300 } as const
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
  const elapsedMs = () => systemClock.monotonicMs() - startedMs
  const output = options.json ? { write: (text: string) => process.stderr.write(text) } : process.stdout
  const screen = openScreen(output, elapsedMs)
  const say = (sentence: string) => screen.say(sentence)
  const shutdown = handleShutdown()
  onAbort(shutdown.signal, () => say('no more faults; waiting for running work (Ctrl-C again exits at once)'))
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
    const files = chaosFiles(options.quick)
    setup = await openSetup({ ...options, files, say, signal: never, behaviour, reportAgain, stopAtOnce: () => false })
    if (shutdown.signal.aborted) return interrupted
    const { info } = setup.server
    say(`the server is up (pid ${info.pid}); open the dashboard with this one-time link: ${info.loginUrl}`)
    // Its name must not start with "bellwether": the fault "connections cut" spares it.
    const db = openDatabase(info.databaseUrl, 'chaos')
    setup.onClose(() => db.close())
    client = openDemoClient(info, systemClock, never)
    const work = { client, clock: systemClock, signal: never, turnIds: new Set<string>(), taskIds: new Set<string>() }
    const context: Context = { ...work, faults: counts, failures: [], say }
    const report = await attack({ options, setup, db, context, stop: shutdown.signal, elapsedMs })
    const file = join(setup.folder.project, '..', 'chaos-report.json')
    writeFileSync(file, `${JSON.stringify(report, undefined, 2)}\n`)
    screen.clear()
    if (options.json) process.stdout.write(`${JSON.stringify(report)}\n`)
    printReport(report, { file, logFile: setup.folder.logFile, write: (text) => void output.write(text) })
    return report.ok ? 0 : 1
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
  readonly stop: AbortSignal
  readonly elapsedMs: () => number
}

async function attack({ options, setup, db, context, stop, elapsedMs }: Attack): Promise<ChaosReport> {
  const { minutes, seed, quick } = options
  const pace = quick ? 'quick' : 'full'
  const { project } = setup.folder
  rmSync(join(project, overlapsFile), { force: true })
  const violations = new Set<string>()
  const violation = (sentence: string) => {
    if (!violations.has(sentence)) say(`VIOLATION: ${sentence}`)
    violations.add(sentence)
  }
  const say = (sentence: string) => context.say(sentence)
  const schedule: ScheduledFault[] = []
  let serverFault = false
  const record: Target['record'] = async (kind, detail, run) => {
    const fault: ScheduledFault = { kind, detail, at: new Date(systemClock.wallMs()).toISOString(), seconds: 0 }
    schedule.push(fault)
    countFault(context, kind)
    say(`${kind}: ${detail}`)
    const sinceMs = systemClock.monotonicMs()
    const killsServer = kind === 'server killed' || kind === 'all killed at once'
    if (killsServer) serverFault = true
    try {
      await run()
    } finally {
      fault.seconds = Math.round((systemClock.monotonicMs() - sinceMs) / 100) / 10
      if (killsServer) serverFault = false
    }
  }

  const start = await markStart(db)
  await abortOldTasks(context)
  await addFunctionAgents(context)
  const sensorKey = { role: 'sensor', name: 'chaos', view } as const
  const companions = startCompanions({
    sensorKey: (await context.client.insist('POST /keys', { body: sensorKey })).key,
    setup,
    program: options.program,
    clock: systemClock,
    functionWorkers: quick ? 1 : 2,
    pace,
  })
  setup.onClose(() => companions.stop())
  const processes = findProcesses(setup, companions)
  const running = new AbortController()
  const feed = followFeed(context.client, systemClock, running.signal)
  const watch = startWatch({
    setup,
    processes,
    clock: systemClock,
    signal: running.signal,
    serverMayBeDown: () => serverFault,
    violation,
  })
  const attacking = linkAbort(stop)
  const { signal } = attacking
  setMaxListeners(0, signal)
  if (minutes !== undefined) void systemClock.sleep(minutes * 60_000, signal).then(() => attacking.abort())
  const shared = { clock: systemClock, record }
  const target = {
    ...shared,
    ...{ setup, companions, processes, db, violation, say, pace: paces[pace] },
    order: seededRandom(seed),
    random: seededRandom(seed + 3),
  }
  const randoms = { traffic: seededRandom(seed + 2), files: seededRandom(seed + 4), foreign: seededRandom(seed + 5) }
  const evidence: Evidence = { context, db, start, feed, project }
  const views: ViewCheck[] = []
  let changes = 0
  let rounds = 0
  try {
    while (!signal.aborted && rounds < (options.rounds ?? Infinity)) {
      const round = linkAbort(signal)
      setMaxListeners(0, round.signal)
      const lanes = [
        injectRound({ ...target, signal: round.signal }),
        traffic(context, rates[pace], randoms.traffic, round.signal),
        runForeignTransactions({
          ...shared,
          databaseUrl: setup.server.info.databaseUrl,
          random: randoms.foreign,
          quick,
          signal: round.signal,
        }),
        changeFiles({
          project,
          clock: systemClock,
          random: randoms.files,
          everyMs: fileEveryMs[pace],
          signal: round.signal,
        }).then((count) => (changes += count)),
      ]
      // Each lane ends the round when it ends or fails: a run without faults proves nothing.
      await Promise.all(
        lanes.map((lane) =>
          lane
            .catch((error: unknown) => violation(`a part of chaos failed: ${errorMessage(error)}`))
            .finally(() => round.abort()),
        ),
      )
      rounds += 1
      say(`round ${rounds}: ${schedule.length} faults so far; waiting for all of ${context.turnIds.size} turns`)
      await settle(evidence)
      const { check, violations: found } = await judge(evidence)
      found.forEach(violation)
      const view = await checkView(context.client, project, systemClock)
      views.push(view)
      if (view.audits === 0) violation('the view completed no audit')
      for (const difference of view.differences) violation(`the view differs from the disk: ${difference}`)
      say(
        `check-point: ${check.turns} turns, ${violations.size} violations, view of ${view.entries} entries, ${watch.cores().toFixed(2)} cores`,
      )
    }
    const judgement = await judge(evidence)
    const report = await buildReport({ ...evidence, judgement, schedule, views, changes, rounds, seed, elapsedMs })
    running.abort()
    await Promise.all([watch.ended, feed.ended])
    await setup.close()
    const left = await waitUntilNoneLeft(watch)
    for (const { pid, command } of left)
      violation(`process ${pid} (${command.join(' ').trim()}) is left after the server stopped`)
    return {
      ...report,
      ok: violations.size === 0 && judgement.check.turns > 0,
      violations: [...violations],
      processes_left: left.length,
      mebibytes: watch.mebibytes,
      cpu_seconds: watch.cpuSeconds(),
      cores: Math.round(watch.cores() * 100) / 100,
    }
  } finally {
    attacking.abort()
    running.abort()
    await Promise.allSettled([watch.ended, feed.ended])
  }
}

/** A cleaner ends some seconds after its worker. */
async function waitUntilNoneLeft(watch: Watch): Promise<ProcessRow[]> {
  const untilMs = systemClock.monotonicMs() + leftMs
  while (watch.left().length > 0 && systemClock.monotonicMs() < untilMs) await systemClock.sleep(pollMs)
  return watch.left()
}

/** Waits until everything has ended and the feed has received the ends, or until the time limit; the judgement reports what is missing. */
async function settle(evidence: Evidence): Promise<void> {
  const { context, db } = evidence
  const untilMs = systemClock.monotonicMs() + settleMs
  while (systemClock.monotonicMs() < untilMs) {
    try {
      const open = (await countOpenTurns(db, projectId)) + (await countOpenTasks(context))
      if (open === 0 && (await missingInFeed(evidence)).length === 0) return
    } catch (error) {
      if (!(error instanceof Retryable)) throw error
      context.say(errorMessage(error))
    }
    await systemClock.sleep(pollMs)
  }
}

/** Tasks that an agent still has to finish. */
async function countOpenTasks({ client, taskIds }: Context): Promise<number> {
  const open = new Set<string>(['pending', 'claimed', 'in_progress'])
  const isOpen = ({ status, reason }: { readonly status: string; readonly reason: string | null }) =>
    open.has(status) || reason?.startsWith('recovery_pending:') === true
  const { tasks } = await client.ask('GET /board/tasks', { query: { done: false, limit: 1_000 } })
  return tasks.filter((task) => taskIds.has(task.taskId) && isOpen(task)).length
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

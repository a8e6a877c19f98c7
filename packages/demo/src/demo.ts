/**
 * The demo: starts `bellwether up` in a project folder as a user would, runs the scenarios over HTTP, and checks every turn in
 * the database. It stops everything it started; the exit code is 1 if a turn is stuck or lost or a scenario failed.
 */
import { createInterface } from 'node:readline'
import { aborted, errorMessage, linkAbort, onAbort, systemClock, type Log } from '@bellwether/base'
import { actors, projectFiles, projectId, targets } from './actors.js'
import { abortOldTasks, budgetRunsOut, falseClaim, ordinaryTasks } from './board-scenarios.js'
import { checkTurns, countOpenTurns, markStart, turnsSince, type Mark } from './check.js'
import { openDemoClient, type DemoClient } from './client.js'
import { readTask, stopTurn, waitFor, type Context } from './context.js'
import { openDatabase, type Database } from './database.js'
import {
  forkAndQuestion,
  hangingTool,
  killedWorker,
  steadyLoad,
  stopAndCancel,
  toolWithoutHost,
  type LoadOptions,
} from './fleet-scenarios.js'
import { chooseModel, type DemoModel } from './real-model.js'
import { finalTable, interventionsSince, liveTable } from './report.js'
import { openScreen, type Screen } from './screen.js'
import type { Server } from './server.js'
import { openSetup, type Setup } from './setup.js'
import { handleShutdown } from './shutdown.js'

export interface DemoOptions {
  readonly dataDir: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** Node's arguments that run the command line: flags and script. */
  readonly program: readonly string[]
  /** Keep the server running afterwards, until Ctrl-C. */
  readonly stay: boolean
  /** Use scripted models even if the environment has a key. */
  readonly scripted: boolean
  readonly model?: string
}

const interrupted = 130
const refreshMs = 500
// The load lasts as long as the scenarios. A real model costs money and gets fewer turns.
const scriptedLoad: LoadOptions = { turns: 48, everyMs: 250 }
const realLoad: LoadOptions = { turns: 10, everyMs: 800 }
const stayMs = 12_000
// The killed worker also hosts the hanging tool: one after the other keeps the two effects apart.
const workerScenarios = async (context: Context) => {
  await hangingTool(context)
  await killedWorker(context)
}
const scenarios = [ordinaryTasks, falseClaim, budgetRunsOut, toolWithoutHost, stopAndCancel, workerScenarios]

export async function runDemo(options: DemoOptions): Promise<number> {
  const startedMs = systemClock.monotonicMs()
  const elapsedMs = () => systemClock.monotonicMs() - startedMs
  const screen = openScreen(process.stdout, elapsedMs)
  const model = chooseModel(options.env, options.scripted, options.model)
  const shutdown = handleShutdown()
  const { signal } = shutdown
  onAbort(signal, () => screen.say('interrupted; stopping everything'))
  const say = (sentence: string) => (signal.aborted ? undefined : screen.say(sentence))
  let setup: Setup | undefined
  try {
    const tools = { behaviour: () => 'succeeds' as const, reportAgain: () => undefined }
    const files = projectFiles(model)
    setup = await openSetup({ ...options, ...tools, files, signal, say, stopAtOnce: () => signal.aborted })
    if (signal.aborted) return interrupted
    const { server, log } = setup
    const db = openDatabase(server.info.databaseUrl, 'bellwether demo')
    setup.onClose(() => db.close())
    const parts = `database ${server.databasePid() ?? 'unknown'}, workers ${server.workers().join(', ')}`
    say(`the server is up (pid ${server.info.pid}, ${parts})`)
    say(`open the dashboard with this one-time link: ${server.info.loginUrl}`)
    const code = await perform({ ...options, model, server, db, log, screen, elapsedMs, signal })
    return signal.aborted ? interrupted : code
  } catch (error) {
    if (signal.aborted) return interrupted
    throw error
  } finally {
    screen.clear()
    await setup?.close()
    if (setup !== undefined || shutdown.signal.aborted) screen.say('everything is stopped')
    shutdown.release()
  }
}

interface Performance extends Omit<DemoOptions, 'model'> {
  readonly model: DemoModel
  readonly server: Server
  readonly db: Database
  readonly log: Log
  readonly screen: Screen
  readonly elapsedMs: () => number
  readonly signal: AbortSignal
}

async function perform(options: Performance): Promise<number> {
  const { server, db, screen, signal, model, log } = options
  const client = openDemoClient(server.info, systemClock, signal)
  const start = await markStart(db)
  const context: Context = {
    client,
    clock: systemClock,
    signal,
    turnIds: new Set(),
    taskIds: new Set(),
    faults: {},
    failures: [],
    say: (sentence) => (signal.aborted ? undefined : screen.say(sentence)),
  }
  await adoptOldTurns(context, await turnsSince(db, projectId, start.turnId))
  await abortOldTasks(context)
  const live = linkAbort(signal)
  const refreshing = refresh(client, start.interventionId, screen, live.signal).catch((error: unknown) =>
    log.error({ error: errorMessage(error) }, 'live table stopped'),
  )
  const load = model.real === undefined ? scriptedLoad : { ...realLoad, maxTokens: model.real.maxTokens }
  if (model.real !== undefined) context.say(maximumCost(model.real.name, model.real.maxTokens, load.turns))
  try {
    const running = [
      steadyLoad(context, load),
      forkAndQuestion(context, process.stdout.isTTY),
      ...scenarios.map((scenario) => scenario(context)),
    ]
    for (const { reason } of (await Promise.allSettled(running)).filter((one) => one.status === 'rejected')) {
      log.error({ error: errorMessage(reason) }, 'scenario failed')
      context.failures.push(errorMessage(reason))
    }
    context.say('all turns are sent; waiting until every turn has ended')
    await waitFor(context, 'every turn has ended', async () =>
      (await countOpenTurns(db, projectId)) === 0 ? true : undefined,
    )
  } finally {
    live.abort()
    await refreshing
    screen.clear()
  }
  if (signal.aborted) return interrupted
  const code = await report(options, context, start)
  await remain(options)
  return code
}

/** Turns that a killed run left open continue and are checked too. Agents with one scenario each are freed for it. */
async function adoptOldTurns(context: Context, open: Awaited<ReturnType<typeof turnsSince>>): Promise<void> {
  if (open.length === 0) return
  context.say(`${open.length} turns of an earlier run are still open; they continue`)
  const needed = new Set<string>([actors.lead, actors.marathon, actors.sleeper])
  for (const { agent_turn_id: turnId, agent_id: agent } of open) {
    context.turnIds.add(turnId)
    if (needed.has(agent)) await stopTurn(context, turnId, 'left by an earlier run')
  }
}

/** Prints the closing table, which comes from the database. */
async function report({ db, elapsedMs }: Performance, context: Context, start: Mark): Promise<number> {
  for (const turn of await turnsSince(db, projectId, start.turnId)) context.turnIds.add(turn.agent_turn_id)
  const check = await checkTurns(db, projectId, [...context.turnIds], Object.values(targets), start.interventionId)
  const tasks: Record<string, number> = {}
  for (const taskId of context.taskIds) {
    const { status } = await readTask(context, taskId)
    tasks[status] = (tasks[status] ?? 0) + 1
  }
  const seconds = elapsedMs() / 1_000
  const { differing, exact } = await replayAll(context)
  const table = finalTable({ check, faults: context.faults, tasks, exact, seconds })
  process.stdout.write(`\n${table.join('\n')}\n\n`)
  for (const why of context.failures) process.stdout.write(`a scenario failed: ${why}\n`)
  if (check.stuck.length + check.lost.length + differing.length + context.failures.length === 0) return 0
  process.stdout.write(`stuck: ${check.stuck.join(', ')}\nlost: ${check.lost.join(', ')}\n`)
  process.stdout.write(`replays that differ: ${differing.join(', ')}\n`)
  return 1
}

/**
 * The turns that do not replay to the same deliverable, each with its first difference, and how many of each kind do. The code of a function is not
 * part of its trail: only the form of its deliverable is compared.
 */
async function replayAll({ client, turnIds }: Context) {
  const differing: string[] = []
  const exact: Record<string, number> = {}
  for (const turn of turnIds) {
    const route = 'GET /projects/:project/turns/:turn/replay'
    const { result, difference, executor, rerun } = await client.insist(route, { params: { turn } })
    const kind = rerun ? executor : `${executor} (form only)`
    if (result === 'differs') differing.push(`${turn} (${JSON.stringify(difference)})`)
    else exact[kind] = (exact[kind] ?? 0) + 1
  }
  return { differing, exact }
}

/** Keeps the server running if the user wants to look around. */
async function remain({ stay, signal, screen, server }: Performance): Promise<void> {
  const onTerminal = process.stdout.isTTY && process.stdin.isTTY
  if (!stay && !onTerminal) return
  if (!stay) {
    screen.say(`press Enter within ${stayMs / 1_000} s to keep the server running (or start with --stay)`)
    if (!(await enterPressed(signal))) return
  }
  screen.say(`the server keeps running on ${server.info.url}; Ctrl-C stops everything`)
  await aborted(signal)
}

async function enterPressed(signal: AbortSignal): Promise<boolean> {
  const lines = createInterface({ input: process.stdin })
  const waiting = linkAbort(signal)
  try {
    return await Promise.race([
      new Promise<boolean>((resolve) => lines.once('line', () => resolve(true))),
      systemClock.sleep(stayMs, waiting.signal).then(() => false),
    ])
  } finally {
    waiting.abort()
    lines.close()
  }
}

function maximumCost(name: string, maxTokens: number, turns: number): string {
  // The column is one more turn, with up to three runs.
  const most = (turns + 3) * maxTokens
  return `${name} does the writing, with at most ${most.toLocaleString('en')} tokens in total`
}

/** Prints interventions and redraws the live table until the signal aborts. */
async function refresh(client: DemoClient, since: number, screen: Screen, signal: AbortSignal): Promise<void> {
  let after = since
  while (!signal.aborted) {
    const { latest, sentences } = await interventionsSince(client, after)
    after = latest
    for (const sentence of sentences) screen.say(sentence)
    screen.show(await liveTable(client))
    await systemClock.sleep(refreshMs, signal)
  }
}

/**
 * The demo: writes a project folder, starts the whole house on it as a user would, plays on it over HTTP, and asks the database at
 * the end. Always: everything started here is stopped here, whatever happens in between; the exit code is 1 when the audit finds a
 * turn stuck or lost.
 */
import { createInterface } from 'node:readline'
import { errorMessage, type Log, systemClock, systemRandom } from '@bellwether/base'
import type { Database } from '../ports/database/database.js'
import { openDatabase } from '../ports/database/pool.js'
import { uuidv7 } from '../ports/ids.js'
import { listenForShutdown } from '../runtime/shutdown.js'
import { auditTurns, beginning, turnsSince } from './audit.js'
import { boasting, spending, tasks, tidyBoard } from './board-acts.js'
import { cast, projectId, targets } from './cast.js'
import { openClient, type Client } from './client.js'
import { crash, evening, hangingTool, load, silentTool, stopping, type LoadOptions } from './fleet-acts.js'
import type { House } from './house.js'
import { sees, stopTurn, taskOf, type Play } from './play.js'
import { chooseModel, type DemoModel } from './real-model.js'
import { deedsSince, finalTable, liveTable } from './report.js'
import { openScene, type Scene } from './scene.js'
import { openScreen, type Screen } from './screen.js'

export interface DemoOptions {
  readonly dataDir: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** What node runs to be this program again. */
  readonly program: readonly string[]
  /** Keep the house up afterwards, until Ctrl-C. */
  readonly stay: boolean
  /** Scripts only, whatever keys there are. */
  readonly scripted: boolean
  readonly model?: string
}

const interrupted = 130
const lookEveryMs = 500
// The stage stays busy from the first act to the last. A real model is asked less often: it is paid for.
const scriptedLoad: LoadOptions = { turns: 48, everyMs: 250 }
const realLoad: LoadOptions = { turns: 10, everyMs: 800 }
const stayMs = 12_000
// The worker that is killed hosts the tool that hangs: one after the other, so that each is seen for itself.
const accidents = async (play: Play) => {
  await hangingTool(play)
  await crash(play)
}
const scenes = [tasks, boasting, spending, silentTool, stopping, accidents]

export async function runDemo(options: DemoOptions): Promise<number> {
  const startedMs = systemClock.monotonicMs()
  const elapsedMs = () => systemClock.monotonicMs() - startedMs
  const screen = openScreen(process.stdout, elapsedMs)
  const model = chooseModel(options.env, options.scripted, options.model)
  const shutdown = listenForShutdown({ parentPipe: false, log: silent })
  const { signal } = shutdown
  signal.addEventListener('abort', () => screen.say('interrupted: stopping everything'), { once: true })
  const say = (sentence: string) => (signal.aborted ? undefined : screen.say(sentence))
  let scene: Scene | undefined
  try {
    scene = await openScene({ ...options, model, signal, say, mood: () => 'well', repeat: () => undefined })
    const { house, place, log, undo } = scene
    undo.push(() => house.stop(signal.aborted))
    say(`starting the house: bellwether up, in ${place.project}`)
    const facts = await house.start()
    if (signal.aborted) return interrupted
    const db = await openDatabase({ url: facts.databaseUrl, applicationName: 'bellwether demo', poolSize: 2 })
    undo.push(() => db.close())
    const parts = `database ${house.databasePid() ?? 'unknown'}, workers ${house.workers().join(', ')}`
    say(`the house is up (pid ${facts.pid}, ${parts})`)
    say(`watch it live, this link works once: ${facts.loginUrl}`)
    const code = await perform({ ...options, model, house, db, log, screen, elapsedMs, signal })
    return signal.aborted ? interrupted : code
  } catch (error) {
    if (signal.aborted) return interrupted
    throw error
  } finally {
    screen.clear()
    await scene?.close()
    if (scene !== undefined) screen.say('everything is stopped')
    shutdown.release()
  }
}

const silent: Log = { info: () => undefined, warn: () => undefined, error: () => undefined }

interface Performance extends Omit<DemoOptions, 'model'> {
  readonly model: DemoModel
  readonly house: House
  readonly db: Database
  readonly log: Log
  readonly screen: Screen
  readonly elapsedMs: () => number
  readonly signal: AbortSignal
}

async function perform(options: Performance): Promise<number> {
  const { house, db, screen, signal, model } = options
  const reach = () => ({ url: house.facts.url, key: house.facts.adminKey })
  const client = openClient({ clock: systemClock, signal, reach })
  const began = await beginning(db)
  const play: Play = {
    client,
    clock: systemClock,
    ids: uuidv7(systemClock, systemRandom),
    signal,
    turnIds: new Set(),
    taskIds: new Set(),
    faults: {},
    broken: [],
    say: (sentence) => (signal.aborted ? undefined : screen.say(sentence)),
  }
  await takeUp(play, await turnsSince(db, projectId, began.turnId))
  await tidyBoard(play)
  const over = new AbortController()
  const watching = watch(client, began.after, screen, AbortSignal.any([signal, over.signal])).catch((error: unknown) =>
    options.log.error({ err: error }, 'the live report has ended early'),
  )
  const amount = model.real === undefined ? scriptedLoad : { ...realLoad, maxTokens: model.real.maxTokens }
  if (model.real !== undefined) play.say(priceOf(model.real.name, model.real.maxTokens, amount.turns))
  try {
    const watched = process.stdout.isTTY
    const acts = [load(play, amount), evening(play, watched), ...scenes.map((act) => act(play))]
    for (const { reason } of (await Promise.allSettled(acts)).filter((one) => one.status === 'rejected')) {
      options.log.error({ err: reason as unknown }, 'an act has failed')
      play.broken.push(errorMessage(reason))
    }
    play.say('the last turn is in; waiting until every one has ended')
    await sees(play, 'every turn has ended', async () => ((await openTurns(db)) === 0 ? true : undefined))
  } finally {
    over.abort()
    await watching
    screen.clear()
  }
  if (signal.aborted) return interrupted
  const code = await tell(options, play, began)
  await remain(options)
  return code
}

/** What a run that was killed left open goes on and is audited with the rest; only those who act alone are stopped, to be free. */
async function takeUp(play: Play, left: Awaited<ReturnType<typeof turnsSince>>): Promise<void> {
  if (left.length === 0) return
  play.say(`${left.length} turns of an earlier run are still open: they are taken up`)
  const soloists = new Set<string>([cast.lead, cast.marathon, cast.sleeper])
  for (const { agent_turn_id: turnId, agent_id: agent } of left) {
    play.turnIds.add(turnId)
    if (soloists.has(agent)) await stopTurn(play, turnId, 'of an earlier run')
  }
}

/** The last table is a query, not a claim. */
async function tell(options: Performance, play: Play, began: { after: number; turnId: string }): Promise<number> {
  const { db, elapsedMs } = options
  for (const turn of await turnsSince(db, projectId, began.turnId)) play.turnIds.add(turn.agent_turn_id)
  const audit = await auditTurns(db, projectId, [...play.turnIds], Object.values(targets), began.after)
  const standings: Record<string, number> = {}
  for (const taskId of play.taskIds) {
    const { status } = await taskOf(play, taskId)
    standings[status] = (standings[status] ?? 0) + 1
  }
  const table = finalTable({ audit, faults: play.faults, tasks: standings, seconds: elapsedMs() / 1_000 })
  process.stdout.write(`\n${table.join('\n')}\n\n`)
  for (const why of play.broken) process.stdout.write(`an act has failed: ${why}\n`)
  if (audit.stuck.length + audit.lost.length + play.broken.length === 0) return 0
  process.stdout.write(`stuck: ${audit.stuck.join(', ')}\nlost: ${audit.lost.join(', ')}\n`)
  return 1
}

/** On a terminal there may be somebody who wants to look around. */
async function remain({ stay, signal, screen, house }: Performance): Promise<void> {
  const asks = process.stdout.isTTY && process.stdin.isTTY
  if (!stay && !asks) return
  if (!stay) {
    screen.say(`Enter within ${stayMs / 1_000} s keeps the house up for looking around (or start with --stay)`)
    if (!(await enter(signal))) return
  }
  screen.say(`the house stays up on ${house.facts.url}; Ctrl-C stops everything`)
  await new Promise<void>((resolve) => {
    if (signal.aborted) return resolve()
    signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

async function enter(signal: AbortSignal): Promise<boolean> {
  const lines = createInterface({ input: process.stdin })
  const done = new AbortController()
  try {
    return await Promise.race([
      new Promise<boolean>((resolve) => lines.once('line', () => resolve(true))),
      systemClock.sleep(stayMs, AbortSignal.any([signal, done.signal])).then(() => false),
    ])
  } finally {
    done.abort()
    lines.close()
  }
}

function priceOf(name: string, maxTokens: number, turns: number): string {
  // The column is one more, and may be tried three times.
  const most = (turns + 3) * maxTokens
  return `${name} does the writing; at most ${most.toLocaleString('en')} tokens in all`
}

async function openTurns(db: Database): Promise<number> {
  const [row] = await db.query<{ open: number }>({
    text: 'select count(*)::int as open from state.turns where project_id = $1 and ended_at is null',
    values: [projectId],
  })
  return row?.open ?? 0
}

/** Keeps the screen fresh until its signal fires. */
async function watch(client: Client, since: number, screen: Screen, signal: AbortSignal): Promise<void> {
  let after = since
  while (!signal.aborted) {
    const deeds = await deedsSince(client, after)
    after = deeds.after
    for (const sentence of deeds.sentences) screen.say(sentence)
    screen.show(await liveTable(client))
    await systemClock.sleep(lookEveryMs, signal)
  }
}

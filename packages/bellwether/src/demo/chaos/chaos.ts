/**
 * `bellwether demo --chaos`: the same house, under attack until it is stopped or the minutes are over, while turns and tasks keep
 * coming. Then the attacks end, everything that was acknowledged is waited for, and the database is asked what became of it. Always:
 * the first Ctrl-C ends the attacks and tells the result, the second one leaves; exit code 1 when anything is stuck or lost.
 */
import { setMaxListeners } from 'node:events'
import { systemClock, systemRandom } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import type { Database } from '../../ports/database/database.js'
import { openDatabase } from '../../ports/database/pool.js'
import { uuidv7 } from '../../ports/ids.js'
import { listenForShutdown } from '../../runtime/shutdown.js'
import { auditTurns, beginning, turnsSince, type Audit } from '../audit.js'
import { tidyBoard } from '../board-acts.js'
import { projectId, targets } from '../cast.js'
import { openClient } from '../client.js'
import { taskOf, type Play } from '../play.js'
import { openScene, type Scene } from '../scene.js'
import { columns, openScreen, type Screen } from '../screen.js'
import type { Mood } from '../stage/props.js'
import { strike, type World } from './faults.js'
import { pickUps, timeThere, turnTimes, type FaultAt } from './figures.js'
import { seededRandom } from '@bellwether/base'
import { traffic } from './traffic.js'
import { keepVigil, type Vigil } from './vigil.js'

export interface ChaosOptions {
  readonly dataDir: string
  readonly env: Readonly<Record<string, string | undefined>>
  readonly program: readonly string[]
  /** Absent: until it is stopped. */
  readonly minutes?: number
  readonly seed: number
  /** One object on stdout, the narration on stderr. */
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
  readonly pick_up_worst_ms: Readonly<Record<string, number>>
  readonly most_mebibytes: number
  readonly looks: number
}

// A turn's deadline (90 s), a sweep, and a house that has just come back.
const settleMs = 150_000
const lookMs = 500
const interrupted = 130
/** One in ten each; the rest go well. */
const moods: readonly Mood[] = ['hangs', 'slow', 'fails', 'twice']
const moodNames: Readonly<Record<string, string>> = {
  hangs: 'tool hung',
  slow: 'tool limped',
  fails: 'tool failed',
  twice: 'tool said it twice',
}

export async function runChaos(options: ChaosOptions): Promise<number> {
  const startedMs = systemClock.monotonicMs()
  const screen = openScreen(
    options.json ? { write: (text) => process.stderr.write(text) } : process.stdout,
    () => systemClock.monotonicMs() - startedMs,
  )
  const say = (sentence: string) => screen.say(sentence)
  const shutdown = listenForShutdown({
    parentPipe: false,
    log: { info: () => undefined, warn: () => undefined, error: () => undefined },
  })
  shutdown.signal.addEventListener(
    'abort',
    () => say('no more attacks; waiting for what is under way (again: leave at once)'),
    { once: true },
  )
  const faults: FaultAt[] = []
  const counts: Record<string, number> = {}
  const count = (kind: string) => (counts[kind] = (counts[kind] ?? 0) + 1)
  const tricks = seededRandom(options.seed + 1)
  let told: ((toolCallId: string) => void) | undefined
  const mood = (): Mood => {
    const now = tricks.next() < moods.length / 10 ? tricks.pick(moods)! : 'well'
    const name = moodNames[now]
    if (name !== undefined) count(name)
    return now
  }
  // Never fires: what is under way when the attacks end is waited for.
  const patient = new AbortController().signal
  setMaxListeners(0, patient)
  let scene: Scene | undefined
  try {
    scene = await openScene({ ...options, model: {}, say, signal: patient, mood, repeat: (id) => told?.(id) })
    const { house, place, undo } = scene
    undo.push(() => house.stop(true))
    say(`chaos with seed ${options.seed}; starting the house in ${place.project}`)
    const facts = await house.start()
    if (shutdown.signal.aborted) return interrupted
    say(`the house is up (pid ${facts.pid}); watch it live, this link works once: ${facts.loginUrl}`)
    const db = await openDatabase({
      url: facts.databaseUrl,
      applicationName: 'chaos',
      poolSize: 3,
      connectTimeoutMs: 2_000,
    })
    undo.push(() => db.close())
    const client = openClient({
      clock: systemClock,
      signal: patient,
      reach: () => ({ url: house.facts.url, key: house.facts.adminKey }),
    })
    told = (id) => void sayTwice(client, id)
    const play: Play = {
      client,
      clock: systemClock,
      ids: uuidv7(systemClock, systemRandom),
      signal: patient,
      turnIds: new Set(),
      taskIds: new Set(),
      faults: counts,
      broken: [],
      say,
    }
    const note = async (kind: string) => {
      faults.push({ kind, at: await timeThere(db) })
      count(kind)
    }
    const result = await attack({ options, scene, db, play, faults, note, stop: shutdown.signal, startedMs })
    if (options.json) process.stdout.write(`${JSON.stringify(result)}\n`)
    else showResult(screen, result)
    return result.ok ? 0 : 1
  } finally {
    screen.clear()
    await scene?.close()
    shutdown.release()
  }
}

interface Attack {
  readonly options: ChaosOptions
  readonly scene: Scene
  readonly db: Database
  readonly play: Play
  readonly faults: readonly FaultAt[]
  readonly note: World['note']
  readonly stop: AbortSignal
  readonly startedMs: number
}

async function attack({ options, scene, db, play, faults, note, stop, startedMs }: Attack): Promise<ChaosResult> {
  const { house, place } = scene
  const began = await beginning(db)
  await tidyBoard(play)
  const over = new AbortController()
  setMaxListeners(0, over.signal)
  const end = () => over.abort()
  stop.addEventListener('abort', end, { once: true })
  if (stop.aborted) end()
  if (options.minutes !== undefined) void systemClock.sleep(options.minutes * 60_000, over.signal).then(end)
  const watched = new AbortController()
  const { vigil, ended } = keepVigil({ house, db, clock: systemClock, logFile: place.logFile, signal: watched.signal })
  try {
    // One that fails ends the others: a chaos that has stopped attacking proves nothing.
    await Promise.all([
      strike({
        house,
        db,
        clock: systemClock,
        deck: seededRandom(options.seed),
        dice: seededRandom(options.seed + 3),
        over: over.signal,
        say: (text) => play.say(text),
        note,
      }).finally(end),
      traffic(play, seededRandom(options.seed + 2), over.signal).finally(end),
    ])
    play.say(`the attacks are over: ${faults.length} faults; waiting for ${play.turnIds.size} turns`)
    await settled(play, db)
  } finally {
    end()
    watched.abort()
    await ended
  }
  return judged(play, db, began, vigil, faults, options.seed, (systemClock.monotonicMs() - startedMs) / 1_000)
}

/** Until everything has ended, or the time in which it must have is over: the audit tells which. */
async function settled(play: Play, db: Database): Promise<void> {
  const untilMs = systemClock.monotonicMs() + settleMs
  while (systemClock.monotonicMs() < untilMs) {
    try {
      const [row] = await db.query<{ open: number }>({
        text: 'select count(*)::int as open from state.turns where project_id = $1 and ended_at is null',
        values: [projectId],
      })
      if (row?.open === 0 && (await tasksAtWork(play)) === 0) return
    } catch (error) {
      if (!(error instanceof Retryable)) throw error
    }
    await systemClock.sleep(lookMs)
  }
}

/** Tasks that an agent is still to finish; those that wait for a person stay. */
async function tasksAtWork(play: Play): Promise<number> {
  const open = new Set(['pending', 'claimed', 'in_progress'])
  const path = '/board/tasks?done=false&limit=1000'
  const { tasks } = await play.client.ask<{ tasks: { taskId: string; status: string; reason: string | null }[] }>(
    'GET',
    path,
  )
  return tasks.filter(
    ({ taskId, status, reason }) =>
      play.taskIds.has(taskId) && (open.has(status) || reason?.startsWith('recovery_pending:') === true),
  ).length
}

async function judged(
  play: Play,
  db: Database,
  began: { readonly after: number; readonly turnId: string },
  vigil: Vigil,
  faults: readonly FaultAt[],
  seed: number,
  seconds: number,
): Promise<ChaosResult> {
  for (const turn of await turnsSince(db, projectId, began.turnId)) play.turnIds.add(turn.agent_turn_id)
  const audit: Audit = await auditTurns(db, projectId, [...play.turnIds], Object.values(targets), began.after)
  const tasks: Record<string, number> = {}
  const lostTasks: string[] = []
  for (const taskId of play.taskIds) {
    const status = await taskOf(play, taskId).then(
      (task) => (task.reason?.startsWith('recovery_pending:') === true ? 'under way' : task.status),
      () => 'lost',
    )
    tasks[status] = (tasks[status] ?? 0) + 1
    if (['lost', 'pending', 'claimed', 'in_progress', 'under way'].includes(status))
      lostTasks.push(`task ${taskId} is ${status}`)
  }
  const times = await turnTimes(db, began.turnId)
  const violations = [...vigil.violations, ...lostTasks]
  const { stuck, lost } = audit
  return {
    ok: stuck.length + lost.length + violations.length === 0 && audit.turns > 0,
    seed,
    seconds: Math.round(seconds),
    turns: audit.turns,
    by_outcome: audit.outcomes,
    tasks,
    faults: play.faults,
    interventions: audit.interventions,
    taken_over: audit.takenOver,
    task_events_per_turn: audit.turns === 0 ? 0 : audit.taskEvents / audit.turns,
    stuck: stuck.length,
    lost: lost.length,
    violations,
    turn_ms: { p50: times.p50Ms, p95: times.p95Ms, worst: times.worstMs },
    pick_up_worst_ms: await pickUps(db, faults),
    most_mebibytes: vigil.mostMebibytes,
    looks: vigil.looks,
  }
}

/** A tool that says its result a second time, past the host that asked: it must change nothing. */
async function sayTwice(client: Play['client'], toolCallId: string): Promise<void> {
  const path = `/projects/${projectId}/tool-calls/${toolCallId}/result`
  for (const caught of [true, false])
    await client.ask('POST', path, { status: 'success', result: { caught } }).catch((error: unknown) => String(error))
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

/**
 * Starts the turns and tasks of schedules. A step decides about every due instant: it locks the schedules, plans, and writes the fires
 * with their turns in one transaction, by the clock of the database. Any number of PMOs may step at the same time; one that dies
 * leaves nothing or everything.
 */
import { defined, errorMessage, type Log } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { ScheduleDefinition } from '@bellwether/protocol/http'
import type { Kernel } from '../../kernel/kernel.js'
import {
  failFire,
  fireKey,
  countOpenFires,
  insertFires,
  markReplaced,
  readReplaced,
  settleTurnFires,
  type NewFire,
} from '../../kernel/verbs/schedules/fires.js'
import {
  advanceSchedules,
  lockDueSchedules,
  readScheduleWork,
  type LockedSchedule,
  type ScheduleName,
} from '../../kernel/verbs/schedules/schedules.js'
import { enqueue, turnRow } from '../../kernel/verbs/turn/enqueue.js'
import type { Ringable } from '../../kernel/verdict.js'
import type { Queryable } from '../../ports/database/database.js'
import { planFires } from './plan.js'
import { timingOf } from './timing.js'

export interface SchedulerOptions {
  readonly kernel: Pick<Kernel, 'db' | 'ids' | 'ring' | 'stop'>
  readonly log: Log
}

export interface Scheduler {
  /** Decides about every due instant. `quiet`: nothing was due, and nothing will be for some seconds. */
  step(): Promise<'quiet' | 'busy'>
}

// One transaction decides about so many; its locks are held for some 50 ms.
const schedulesMax = 100
const settleMax = 500
/** Longer than the pause of a quiet loop. */
export const soonSeconds = 12

export function openScheduler({ kernel, log }: SchedulerOptions): Scheduler {
  const { db } = kernel
  return {
    async step() {
      const work = await readScheduleWork(db, soonSeconds)
      const settle = async () => {
        while ((await settleTurnFires(db, settleMax)) === settleMax);
      }
      // First, so that a turn that has ended does not count as open.
      if (work.open) await settle()
      if (work.due) while ((await decide(kernel, log)) === schedulesMax);
      if (work.open && (await stopReplaced(kernel)) > 0) await settle()
      return work.due || work.soon || work.open ? 'busy' : 'quiet'
    },
  }
}

/** Returns how many schedules it decided about. */
async function decide(kernel: SchedulerOptions['kernel'], log: Log): Promise<number> {
  const { count, verdicts } = await kernel.db.transaction(async (tx) => {
    const schedules = await lockDueSchedules(tx, schedulesMax)
    if (schedules.length === 0) return { count: 0, verdicts: [] }
    const open = await countOpenFires(tx, schedules.map(nameOf))
    const fires: WantedFire[] = []
    const advanced = schedules.map((row) => {
      const name = nameOf(row)
      const { fires: wanted, ...next } = plansOf(row, open.get(`${name.projectId} ${name.schedule}`) ?? 0)
      fires.push(...wanted)
      if (next.problem !== null) log.error({ schedule: name.schedule, problem: next.problem }, 'schedule cannot fire')
      return { ...name, ...next }
    })
    const starting = fires.filter(({ status, definition }) => status === 'started' && definition.overlap === 'replace')
    await markReplaced(tx, starting)
    const { verdicts } = await startFires(tx, kernel, fires, log)
    await advanceSchedules(tx, advanced)
    return { count: schedules.length, verdicts }
  })
  await kernel.ring(verdicts)
  return count
}

/** Stops the turns that later ones replace, and returns their number. A step that dies before it leaves them to the next one. */
async function stopReplaced(kernel: SchedulerOptions['kernel']): Promise<number> {
  const replaced = await readReplaced(kernel.db, settleMax)
  for (const { project_id: projectId, agent_turn_id: agentTurnId, schedule_id: schedule } of replaced)
    await kernel.stop({ projectId, agentTurnId, stoppedBy: `schedule ${schedule}`, reason: 'replaced by a later turn' })
  return replaced.length
}

const nameOf = ({ project_id: projectId, schedule_id: schedule }: LockedSchedule): ScheduleName => ({
  projectId,
  schedule,
})

/** A fire that is to be stored, with what it starts. */
export interface WantedFire extends NewFire {
  readonly definition: ScheduleDefinition
}

interface Planned {
  readonly fires: readonly WantedFire[]
  readonly nextFireAt: Date | null
  readonly problem: string | null
}

function plansOf(row: LockedSchedule, open: number): Planned {
  const { definition, next_fire_at: due, now } = row
  if (definition === null || due === null) return { fires: [], nextFireAt: null, problem: null }
  const timing = timingOf(definition)
  // The zones of this machine may lack the zone of the machine that accepted it.
  if ('problem' in timing) return { fires: [], nextFireAt: null, problem: `"${timing.key}": ${timing.problem}` }
  const plan = planFires(timing, definition, { dueMs: due.getTime(), nowMs: now.getTime(), open })
  const common = { ...nameOf(row), kind: 'timer' as const, definition }
  const fires = [
    ...plan.skipped.map(({ instantMs, count, reason }) => ({
      ...common,
      ...{ instant: new Date(instantMs), status: 'skipped' as const, reason, skipped: count },
    })),
    ...plan.start.map((ms) => ({ ...common, instant: new Date(ms), status: 'started' as const })),
  ]
  return { fires, nextFireAt: plan.nextMs === undefined ? null : new Date(plan.nextMs), problem: null }
}

/** Stores the fires that are new, and enqueues their turns in the same transaction. The caller rings after the commit. */
export async function startFires(
  tx: Queryable,
  { ids }: Pick<Kernel, 'ids'>,
  fires: readonly WantedFire[],
  log: Log,
): Promise<{ readonly stored: ReadonlySet<string>; readonly verdicts: readonly Ringable[] }> {
  const rows = fires.map((fire) => ({ fire, ...rowOf(ids, fire) }))
  const stored = await insertFires(
    tx,
    rows.map(({ fire, turn, problem }) => storedFire(fire, turn?.agent_turn_id, problem)),
  )
  const turns = rows.flatMap(({ fire, turn }) =>
    turn !== undefined && stored.has(fireKey(fire)) ? [{ fire, turn }] : [],
  )
  if (turns.length === 0) return { stored, verdicts: [] }
  const { results, verdicts } = await enqueue(
    tx,
    turns.map(({ turn }) => turn),
  )
  for (const [at, result] of results.entries()) {
    const { fire } = turns[at]!
    if (!(result instanceof InvalidInput)) continue
    log.error({ schedule: fire.schedule, instant: fire.instant, err: result }, 'schedule could not start a turn')
    await failFire(tx, fire, result.message)
  }
  return { stored, verdicts }
}

function storedFire(fire: WantedFire, agentTurnId: string | undefined, problem: string | undefined): NewFire {
  const { task } = fire.definition
  if (fire.status !== 'started') return fire
  if (problem !== undefined) return { ...fire, status: 'failed', reason: problem }
  return task === undefined ? { ...fire, agentTurnId } : { ...fire, status: 'waiting', task }
}

/** The turn of a fire, checked before anything is written. */
function rowOf(
  ids: Kernel['ids'],
  { projectId, schedule, instant, status, definition }: WantedFire,
): { readonly turn?: ReturnType<typeof turnRow>; readonly problem?: string } {
  const { agent, instruction, session_id: sessionId, budget } = definition
  if (status !== 'started' || agent === undefined || instruction === undefined) return {}
  try {
    const turn = turnRow(ids, {
      ...{ projectId, agentId: agent, instruction },
      payload: { schedule, instant: instant.toISOString() },
      ...defined({ sessionId }),
      ...(budget === undefined ? {} : { budget: limitsOf(budget) }),
    })
    return { turn }
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error
    return { problem: errorMessage(error) }
  }
}

function limitsOf(budget: NonNullable<ScheduleDefinition['budget']>) {
  const { max_tokens: tokens, max_cost_micros: costMicros, max_wall_ms: wallMs } = budget
  return { ...defined({ tokens, costMicros, wallMs }) }
}

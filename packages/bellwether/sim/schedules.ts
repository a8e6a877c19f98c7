/** Two PMOs decide about the instants of one schedule while either dies and the clock jumps forward and back. */
import { scheduleFile } from '@bellwether/protocol/http'
import { openScheduler } from '../src/pmo/schedules/scheduler.js'
import { putAgents, setLimits } from '../src/kernel/verbs/roster.js'
import { changeSchedule, createSchedule } from '../src/kernel/verbs/schedules/schedules.js'
import { kernelOf, project, silent, target } from './actors.js'
import type { Body, Invariant, Plan } from './engine/index.js'
import { always } from './invariants.js'
import type { Story } from './story.js'

const minuteMs = 60_000
const rounds = 6
const name = { projectId: project, schedule: 's' }

const pmo: Body = async (fibre) => {
  const scheduler = openScheduler({ kernel: kernelOf(fibre), log: silent })
  for (let round = 1; round <= rounds; round += 1) {
    await scheduler.step()
    await fibre.clock.sleep(minuteMs)
  }
}

const onePerInstant: Invariant = {
  name: 'an instant of a schedule starts one turn',
  sql: `select payload ->> 'instant' as instant, count(*) from state.agent_inbox where payload ? 'schedule'
    group by 1 having count(*) > 1`,
}

const turnOfFire: Invariant = {
  name: 'a fire that started has its turn, and a turn of a schedule has its fire',
  sql: `select f.instant, t.agent_turn_id from (select * from state.schedule_fires where status = 'started') f
    full join (select * from state.agent_inbox where payload ? 'schedule') t on t.agent_turn_id = f.agent_turn_id
    where f.instant is null or t.agent_turn_id is null`,
}

const everyInstant: Invariant = {
  name: 'every instant between the first and the last fire was decided',
  sql: `select x.instant from generate_series((select min(instant) from state.schedule_fires),
      (select max(instant) from state.schedule_fires), interval '1 minute') as x (instant)
    where not exists (select from state.schedule_fires f where f.instant = x.instant)`,
}

/** The clock jumps back, forward or both before a statement of a PMO; every second seed also kills one. */
function plan(seed: number): Plan {
  const at = (fibre: string, nth: number) => ({ fibre, nth: 3 + ((seed * nth) % 40) })
  const jump = (nth: number, ms: number) => ({ kind: 'clock-jump' as const, at: at(`pmo${(seed % 2) + 1}`, nth), ms })
  return {
    faults: [
      ...(seed % 3 === 0 ? [] : [jump(7, -2 * minuteMs)]),
      ...(seed % 3 === 1 ? [] : [jump(11, 3 * minuteMs)]),
      ...(seed % 2 === 0 ? [{ kind: 'crash' as const, at: at('pmo1', 13) }] : []),
    ],
  }
}

export const scheduleStory: Story = {
  fibres: ['pmo1', 'pmo2'],
  yields: 60,
  always: [...always, onePerInstant, turnOfFire],
  atEnd: [everyInstant],
  plan,
  async scenario(stage) {
    await setLimits(stage.db, { turnDeadlineSeconds: 1_800, maxRecursionDepth: 20 })
    await putAgents(stage.db, stage.ids, [{ projectId: project, agentId: 'ann', workerTarget: target }])
    const keys = { agent: 'ann', instruction: 'x', every: '1m', overlap: 'queue', missed: 'all', missed_max: 100 }
    await createSchedule(stage.db, name, { source: 'api', origin: null, updatedBy: 'sim' })
    const [row] = await stage.db.query<{ now: Date }>({ text: 'select state.now() as now' })
    const definition = scheduleFile.parse(keys)
    const nextFireAt = new Date(Math.ceil(row!.now.getTime() / minuteMs) * minuteMs)
    const stored = { source: 'api', origin: null, definition, problem: null, nextFireAt, updatedBy: 'sim' } as const
    await changeSchedule(stage.db, name, stored)
    for (const fibre of ['pmo1', 'pmo2']) stage.spawn(fibre, pmo, { restart: true })
  },
}

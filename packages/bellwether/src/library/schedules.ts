/**
 * Schedules of a project, for the library: define, pause, run now, list. Every PMO on the database starts their turns and tasks
 * (`bellwether pmo`, `bellwether up`); the library only stores what is to start.
 */
import type { Log } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import {
  scheduleFile,
  scheduleName,
  type FireRow,
  type ScheduleInput,
  type ScheduleRow,
} from '@bellwether/protocol/http'
import type { Kernel } from '../kernel/kernel.js'
import { listFires, listSchedules, readFire, readSchedule } from '../kernel/reads/schedules.js'
import { defineSchedule, removeSchedule, runNow, setPaused } from '../pmo/schedules/definitions.js'

export interface Schedules {
  /** Creates the schedule, or replaces its definition. Throws if the definition is invalid or a file defines the schedule. */
  define(name: string, definition: ScheduleInput): Promise<void>
  /** In the order of names, at most 500. */
  list(): Promise<readonly ScheduleRow[]>
  /** What became of its instants, newest first. */
  fires(name: string, limit?: number): Promise<readonly FireRow[]>
  /** Instants during a pause start nothing, also later. */
  pause(name: string): Promise<void>
  resume(name: string): Promise<void>
  /** Starts the turn or task now, also during a pause. */
  run(name: string): Promise<FireRow>
  /** Its history stays. */
  remove(name: string): Promise<void>
}

const author = 'library'
const listMax = 500

export function openSchedules(kernel: Kernel, projectId: string, log: Log): Schedules {
  const { db } = kernel
  const named = (name: string) => {
    const parsed = scheduleName.safeParse(name)
    if (parsed.success) return { projectId, schedule: name }
    throw new InvalidInput(`The name of a schedule ${parsed.error.issues[0]!.message} (got ${JSON.stringify(name)})`, {
      code: 'invalid_schedule',
      hint: 'choose a name such as "nightly"',
    })
  }
  return {
    async define(name, input) {
      const schedule = named(name)
      const parsed = scheduleFile.safeParse(input)
      if (!parsed.success) {
        const problems = parsed.error.issues.map(({ path, message }) => `"${path.join('.')}" ${message}`).join('; ')
        throw new InvalidInput(`Cannot define schedule "${name}": ${problems}`, {
          code: 'invalid_schedule',
          hint: 'for example { every: "6h", agent: "coder", instruction: "Run the tests." }',
        })
      }
      const must = (await readSchedule(db, projectId, name)) === undefined ? 'create' : 'replace'
      await defineSchedule(kernel, schedule, { definition: parsed.data, by: author, must })
    },
    list: async () => (await listSchedules(db, projectId, '', listMax)).schedules,
    fires: async (name, limit = 50) => (await listFires(db, projectId, { ...named(name), before: null, limit })).fires,
    pause: (name) => setPaused(kernel, named(name), { by: author, paused: true }),
    resume: (name) => setPaused(kernel, named(name), { by: author, paused: false }),
    async run(name) {
      const schedule = named(name)
      const instant = await runNow(kernel, schedule, { by: author }, log)
      return (await readFire(db, schedule, instant))!
    },
    remove: (name) => removeSchedule(kernel, named(name)),
  }
}

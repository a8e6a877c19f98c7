/**
 * Adds the tasks of schedules to the board, and records how they ended. The id of a task follows from its schedule and instant, so
 * that a step that is repeated after a crash, or runs in two processes, finds the task instead of adding a second one.
 */
import { errorMessage, type Clock, type Log } from '@bellwether/base'
import { Terminal } from '@bellwether/protocol'
import { createRequest } from '../../../board/dispatch/requests.js'
import type { Dispatcher } from '../../../board/dispatch/dispatcher.js'
import { failFire, markTaskFire, readOpenTaskFires, type OpenTaskFire } from '../../../kernel/verbs/schedules/fires.js'
import type { Queryable } from '../../../ports/database/database.js'
import { loop } from '../../../ports/loop.js'

export interface ScheduledTasksOptions {
  readonly db: Queryable
  readonly projectId: string
  readonly dispatcher: Dispatcher
  readonly log: Log
}

// A step looks at so many; the oldest that wait come first.
const firesMax = 500
const everyMs = 2_000
const quietMaxMs = 8_000
/** Statuses after which a task starts no run by itself. */
const ended: ReadonlySet<string> = new Set(['done', 'failed'])

/** For example `nightly-20261118T023000Z`. */
function scheduledTaskId({
  schedule_id: schedule,
  instant,
  kind,
}: Pick<OpenTaskFire, 'schedule_id' | 'instant' | 'kind'>): string {
  const time = instant.toISOString().replaceAll(/[-:]/g, '')
  return `${schedule}-${kind === 'timer' ? time.replace(/\.\d+Z$/, 'Z') : time}`
}

export function openScheduledTasks({ db, projectId, dispatcher, log }: ScheduledTasksOptions) {
  async function add(fire: OpenTaskFire): Promise<void> {
    const taskId = scheduledTaskId(fire)
    try {
      await createRequest(dispatcher, { ...fire.task, taskId }, `schedule ${fire.schedule_id}`)
    } catch (error) {
      if (!(error instanceof Terminal)) throw error
      // An earlier step added it and was killed before it could say so.
      if (error.code !== 'task_exists') {
        log.error({ schedule: fire.schedule_id, instant: fire.instant, err: error }, 'schedule could not add a task')
        return failFire(db, { projectId, schedule: fire.schedule_id, ...fire }, errorMessage(error))
      }
    }
    await markTaskFire(db, projectId, fire, { taskId, outcome: null })
  }

  return {
    async step(): Promise<'quiet' | 'busy'> {
      const fires = await readOpenTaskFires(db, projectId, firesMax)
      if (fires.length === 0) return 'quiet'
      // Another process may have added the tasks.
      const { tasks } = await dispatcher.board.sync()
      for (const fire of fires) {
        if (fire.status === 'waiting') {
          await add(fire)
          continue
        }
        const status = tasks.get(fire.task_id ?? '')?.status ?? 'unknown'
        if (ended.has(status) || status === 'unknown')
          await markTaskFire(db, projectId, fire, { taskId: fire.task_id ?? scheduledTaskId(fire), outcome: status })
      }
      return 'busy'
    },
  }
}

/** Resolves after the signal aborts. */
export async function runScheduledTasks(
  options: ScheduledTasksOptions & { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<void> {
  const { clock, log, signal } = options
  const tasks = openScheduledTasks(options)
  await loop({ ...{ clock, log, signal }, name: 'scheduled tasks', intervalMs: everyMs, quietMaxMs }, () =>
    tasks.step(),
  )
}

/** `task watch ID`: follows one task until it is done, has failed or needs a person, then shows it. */
import { systemClock } from '@bellwether/base'
import { InvalidInput, Retryable } from '@bellwether/protocol'
import { taskBudget } from '../../../board/tasks/task-budget.js'
import { taskView } from '../../../board/tasks/task-view.js'
import type { Client } from '../../../client/client.js'
import { interruptedCode, untilInterrupted } from '../../shared/interrupt.js'
import { exitCodes, print, printOutage, type JsonFlags } from '../../shared/output.js'
import { rulesOf } from './queries.js'
import type { Opened } from './root.js'
import { taskText, type History, type ShownTask } from './task-text.js'

/** Where the task is read: a server, or the files of a task root. */
export interface TaskSource {
  view(): Promise<ShownTask>
  /** The task root; undefined for a server. */
  readonly root?: string
  /** Its newest events, oldest first. */
  history(): Promise<History>
}

// More than a task has between two reads.
const eventsMax = 100

export function onServer(server: Client, task: string): TaskSource {
  const params = { task }
  return {
    view: () => server.ask('GET /board/tasks/:task', { params }),
    history: () => server.ask('GET /board/tasks/:task/history', { params, query: { limit: eventsMax } }),
  }
}

export function inFiles(opened: Opened, task: string): TaskSource {
  const { board } = opened
  return {
    root: board.root,
    async view() {
      const state = await board.sync()
      const rules = await rulesOf(opened)
      const view = taskView(state, task, systemClock.wallMs(), rules)
      return { ...view, budget: taskBudget(state.tasks.get(view.taskId)!, rules.budget) }
    },
    history: () => board.history(task, eventsMax),
  }
}

// Fast enough for a person; cheap for a server.
const pollMs = 500

/** Returns the exit code: 0 if the task is done, 1 if not, 130 if Ctrl-C ended the watching. The task continues in any case. */
export async function watchTask(
  source: TaskSource,
  flags: JsonFlags & { readonly once?: boolean; readonly since?: number },
  each: (event: History['events'][number]) => void,
): Promise<number> {
  if (flags.once === true || flags.since !== undefined)
    throw new InvalidInput('--once and --since are for the events of all tasks', {
      code: 'contradicting_options',
      hint: 'omit them, or use bellwether task show ID --events N',
    })
  const { value, interrupted } = await untilInterrupted(async (signal) => {
    const seen = new Set((await source.history()).events.map(({ eventId }) => eventId))
    let readAt = ''
    for (;;) {
      const view = await orOutage(() => source.view())
      if (view !== undefined && view.updatedAt !== readAt) {
        const history = await source.history()
        readAt = view.updatedAt
        for (const event of history.events) {
          if (!seen.has(event.eventId) && flags.json !== true) each(event)
          seen.add(event.eventId)
        }
        if (view.status === 'done' || ['over', 'person'].includes(view.nextStep.what)) return { view, history }
      }
      await systemClock.sleep(pollMs, signal)
      signal.throwIfAborted()
    }
  })
  if (interrupted || value === undefined) return interruptedCode
  const { view, history } = value
  const as = { json: flags.json === true || flags.jsonl === true }
  print(as, { ...view, history }, () => `\n${taskText(view, history, source)}`)
  return view.status === 'done' ? exitCodes.ok : exitCodes.failure
}

/** Undefined while the server does not respond. */
async function orOutage<T>(read: () => Promise<T>): Promise<T | undefined> {
  try {
    return await read()
  } catch (error) {
    if (!(error instanceof Retryable)) throw error
    printOutage(error)
    return undefined
  }
}

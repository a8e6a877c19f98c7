/**
 * Scenarios on the board: tasks that the autopilot runs, a claimed file that does not exist, and a budget that runs out and
 * needs a person, whom the demo plays.
 */
import type { BoardTaskDetail, DispatchReport } from '@bellwether/protocol/http'
import { actors } from './actors.js'
import { addTask, changeTask, countFault, readTask, waitFor, type Context } from './context.js'

const settled = ['done', 'failed']

export async function ordinaryTasks(context: Context): Promise<void> {
  const page = (name: string, more: object = {}) => ({
    title: `Set the ${name} page`,
    instruction: `Set pages/${name}.txt.`,
    agent: actors.printer,
    verify: [`test -s pages/${name}.txt`],
    ...more,
  })
  const front = await addTask(context, page('front', { priority: 5 }))
  const back = await addTask(context, page('back', { dependencies: [front] }))
  const column = await addTask(context, {
    title: 'Write a column',
    instruction: 'Write about the bridge, into columns/bridge.md.',
    agent: actors.columnist,
    verify: ['test -s columns/bridge.md'],
  })
  context.say(
    `added tasks to the board: ${front}, ${back} (depends on ${front}) and ${column}; the autopilot runs them`,
  )
  for (const taskId of [front, back, column]) {
    const task = await waitUntilSettled(context, taskId)
    if (task !== undefined)
      context.say(`${taskId} “${task.title}” is ${task.status}: its files exist and its command passed`)
  }
}

export async function falseClaim(context: Context): Promise<void> {
  const taskId = await addTask(context, {
    title: 'Set the sports page',
    instruction: 'Set pages/sports.txt.',
    agent: actors.boaster,
  })
  countFault(context, 'claimed file missing')
  const caught = await waitFor(context, 'the false claim is rejected', () =>
    runEndedWith(context, taskId, 'incomplete_output'),
  )
  if (caught?.reasonCode === 'incomplete_output')
    context.say(`${taskId}: ${caught.agent} reports done; rejected: ${caught.why ?? 'a claimed file does not exist'}`)
  const task = await waitUntilSettled(context, taskId)
  if (task !== undefined)
    context.say(
      `${taskId}: the recovery chain gave it to ${lastSpawn(task).agent ?? 'another agent'}; it is ${task.status}`,
    )
}

export async function budgetRunsOut(context: Context): Promise<void> {
  const taskId = await addTask(context, {
    title: 'Write an opinion, at any price',
    instruction: 'Write an opinion into columns/opinion.md.',
    agent: actors.spender,
  })
  countFault(context, 'budget exceeded')
  const stopped = await waitFor(context, 'the budget is exceeded', () =>
    runEndedWith(context, taskId, 'budget_exceeded'),
  )
  if (stopped?.reasonCode !== 'budget_exceeded') return
  context.say(`${taskId}: ${stopped.reasonCode}; the task waits for a person`)
  await changeTask(context, taskId, { action: 'done', reason: 'accepted by the demo' })
  context.say(`${taskId}: the demo, as that person, accepts the result`)
}

interface RunEnd {
  readonly agent: string
  readonly reasonCode: string | undefined
  /** The board's explanation, if this was the latest run. */
  readonly why: string | undefined
}

/** The run of the task that ended for this reason; a value without a reason if the task was settled otherwise. */
async function runEndedWith(context: Context, taskId: string, reasonCode: string): Promise<RunEnd | undefined> {
  const task = await readTask(context, taskId)
  const run = task.runs.find((one) => one.reasonCode === reasonCode)
  const spawn = lastSpawn(task)
  const why = spawn.reasonCode === reasonCode ? (spawn.error ?? undefined) : undefined
  if (run !== undefined) return { agent: run.agent, reasonCode, why }
  return settled.includes(task.status) ? { agent: '', reasonCode: undefined, why: undefined } : undefined
}

/** The report of the latest run, as the board's log keeps it. */
const lastSpawn = ({ fields }: BoardTaskDetail) =>
  (fields['spawn'] ?? {}) as Partial<NonNullable<DispatchReport['spawn']>>

/** Aborts the tasks that a killed run left open. */
export async function abortOldTasks(context: Context): Promise<void> {
  const { tasks } = await context.client.insist('GET /board/tasks', { query: { done: false, limit: 1_000 } })
  const open = tasks.filter((task) => !settled.includes(task.status))
  for (const { taskId } of open)
    await changeTask(context, taskId, { action: 'abort', reason: 'left by an earlier run' })
  if (open.length > 0) context.say(`aborted ${open.length} tasks of an earlier run`)
}

/** If all attempts of a task failed, the task waits for a person; the demo, as that person, asks for another attempt. */
async function waitUntilSettled(context: Context, taskId: string): Promise<BoardTaskDetail | undefined> {
  return waitFor(context, `${taskId} is done`, async () => {
    const task = await readTask(context, taskId)
    if (settled.includes(task.status)) return task
    if (task.status === 'blocked' && task.reason?.startsWith('recovery_pending:') !== true) {
      const why = lastSpawn(task).error ?? task.reason ?? 'blocked'
      context.say(`${taskId}: ${why}; the task waits for a person, and the demo asks for another attempt`)
      await changeTask(context, taskId, { action: 'retry', agent: actors.printer })
    }
    return undefined
  })
}

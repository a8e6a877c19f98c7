/**
 * The acts on the board: tasks that flow by themselves, a file that is claimed and not there, and a budget that runs out and lands
 * with a person, who is played by the demo in the end.
 */
import { cast } from './cast.js'
import { addTask, fault, sees, taskOf, type Play, type TaskView } from './play.js'

const settled = ['done', 'failed']

export async function tasks(play: Play): Promise<void> {
  const page = (name: string, more: object = {}) => ({
    title: `Set the ${name} page`,
    instruction: `Set pages/${name}.txt.`,
    agent: cast.printer,
    verify: [`test -s pages/${name}.txt`],
    ...more,
  })
  const front = await addTask(play, page('front', { priority: 5 }))
  const back = await addTask(play, page('back', { dependencies: [front] }))
  const column = await addTask(play, {
    title: 'Write a column',
    instruction: 'Write about the bridge, into columns/bridge.md.',
    agent: cast.columnist,
    verify: ['test -s columns/bridge.md'],
  })
  play.say(`tasks are on the board: ${front}, ${back} after ${front}, ${column}; the autopilot picks them`)
  for (const taskId of [front, back, column]) {
    const task = await finished(play, taskId)
    if (task !== undefined)
      play.say(`${taskId} “${task.title}” is ${task.status}: its files were looked at, its command passed`)
  }
}

export async function boasting(play: Play): Promise<void> {
  const taskId = await addTask(play, {
    title: 'Set the sports page',
    instruction: 'Set pages/sports.txt.',
    agent: cast.boaster,
  })
  fault(play, 'file claimed and not there')
  const caught = await sees(play, 'the boast is caught', () => endedWith(play, taskId, 'incomplete_output'))
  if (caught?.reasonCode === 'incomplete_output')
    play.say(
      `${taskId}: ${caught.agent} says done, and is not believed: ${caught.why ?? 'a claimed file is not there'}`,
    )
  const task = await finished(play, taskId)
  if (task !== undefined)
    play.say(`${taskId}: ${task.fields.spawn?.agent ?? 'another'} was asked next; now it is ${task.status}`)
}

export async function spending(play: Play): Promise<void> {
  const taskId = await addTask(play, {
    title: 'Write an opinion, at any price',
    instruction: 'Write an opinion into columns/opinion.md.',
    agent: cast.spender,
  })
  fault(play, 'budget that runs out')
  const stopped = await sees(play, 'the budget is used up', () => endedWith(play, taskId, 'budget_exceeded'))
  if (stopped?.reasonCode !== 'budget_exceeded') return
  play.say(`${taskId}: ${stopped.reasonCode}; it waits for a person on the board`)
  await play.client.insist('PATCH', `/board/tasks/${taskId}`, { action: 'done', reason: 'worth the money, this once' })
  play.say(`${taskId}: the demo, as that person, looks at what is there and takes it`)
}

interface RunEnd {
  readonly agent: string
  readonly reasonCode: string | undefined
  /** What the board says of it, while nothing newer is to be said. */
  readonly why: string | undefined
}

/** A run of the task that ended so, be it the last one or not; or that the task is settled otherwise. */
async function endedWith(play: Play, taskId: string, reasonCode: string): Promise<RunEnd | undefined> {
  const { runs, fields, status } = await taskOf(play, taskId)
  const run = runs.find((one) => one.reasonCode === reasonCode)
  const why = fields.spawn?.reasonCode === reasonCode ? fields.spawn.error : undefined
  if (run !== undefined) return { agent: run.agent, reasonCode, why }
  return settled.includes(status) ? { agent: '', reasonCode: undefined, why: undefined } : undefined
}

/** What an earlier run that was killed left with a person, who is gone: put aside, so that nobody waits for it. */
export async function tidyBoard(play: Play): Promise<void> {
  const { tasks: left } = await play.client.insist<{ tasks: TaskView[] }>('GET', '/board/tasks?done=false&limit=1000')
  const open = left.filter((task) => !settled.includes(task.status))
  for (const { taskId } of open)
    await play.client.insist('PATCH', `/board/tasks/${taskId}`, { action: 'abort', reason: 'of an earlier run' })
  if (open.length > 0) play.say(`${open.length} tasks of an earlier run are put aside`)
}

/** Whoever's tries are used up lands with a person: the demo, which lets them try again. */
async function finished(play: Play, taskId: string): Promise<TaskView | undefined> {
  return sees(play, `${taskId} is done`, async () => {
    const task = await taskOf(play, taskId)
    if (settled.includes(task.status)) return task
    if (task.status === 'blocked' && task.reason?.startsWith('recovery_pending:') !== true) {
      play.say(
        `${taskId}: ${task.fields.spawn?.error ?? task.reason ?? 'blocked'}; it landed with a person, who asks for another try`,
      )
      await play.client.insist('PATCH', `/board/tasks/${taskId}`, { action: 'retry', agent: cast.printer })
    }
    return undefined
  })
}

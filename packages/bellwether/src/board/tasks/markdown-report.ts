/**
 * A Markdown report of the board. Every part is bounded; the same state and time give the same text; text from agents cannot
 * leave its table cell. Pure.
 */
import { shortened } from '@bellwether/protocol'
import { openRun, pausedBy } from './task-fields.js'
import { budgetsOf } from '../policies/budget.js'
import { nextTask } from './next-task.js'
import { byUrgency, readiness, type ReadyRules, type WaitCode } from './ready.js'
import { dependencyCycles } from './cycles.js'
import { taskStatuses, type BoardState, type Task, type TaskStatus } from '../log/task.js'

// One screen per section; `task list` shows all.
const rowsMax = 20
const cellMax = 160

const cell = (text: string) => {
  const line = text
    .replaceAll(/[\p{Cc}\p{Cf}]/gu, ' ')
    .replaceAll('|', '\\|')
    .replaceAll('<', '&lt;')
    .trim()
  return shortened(line, cellMax)
}

function section(title: string, headings: readonly string[], rows: readonly (readonly string[])[]): string[] {
  if (rows.length === 0) return []
  const line = (cells: readonly string[]) => `| ${cells.map(cell).join(' | ')} |`
  const more = rows.length > rowsMax ? [``, `… and ${rows.length - rowsMax} more`] : []
  return [
    `## ${title}`,
    '',
    line(headings),
    `|${headings.map(() => '---').join('|')}|`,
    ...rows.slice(0, rowsMax).map(line),
    ...more,
    '',
  ]
}

export function markdownReport(state: BoardState, nowMs: number, rules: ReadyRules) {
  const tasks = [...state.tasks.values()].sort(byUrgency)
  const counts = Object.fromEntries(taskStatuses.map((status) => [status, 0])) as Record<TaskStatus, number>
  const waiting: { task: Task; code: WaitCode; why: string }[] = []
  let ready = 0
  let tokens = 0
  let elapsedMs = 0
  for (const task of tasks) {
    counts[task.status] += 1
    for (const { tokenUsage, elapsedMs: ms } of budgetsOf(task).values()) {
      tokens += tokenUsage
      elapsedMs += ms
    }
    const found = readiness(task, state, nowMs, rules)
    if (found.ready) ready += 1
    else if (found.code !== 'done') waiting.push({ task, code: found.code, why: found.why })
  }
  const forPeople = waiting.filter(({ code }) => ['person', 'approval', 'review', 'merge', 'held'].includes(code))
  const others = waiting.filter(({ code }) => ['dependency', 'cooldown', 'claimed', 'frozen'].includes(code))
  const running = tasks.flatMap((task) => {
    const run = openRun(task)
    return run === null ? [] : [[task.taskId, task.title, run.agent, run.startedAt]]
  })
  const newest = (status: TaskStatus) =>
    tasks.filter((task) => task.status === status).sort((a, b) => (a.updatedAt < b.updatedAt ? 1 : -1))
  const paused = pausedBy(state)
  const cycles = dependencyCycles(state.tasks.values()).slice(0, rowsMax)
  const choice = nextTask(state, nowMs, rules)
  const lines = [
    `# Board report, ${state.lastEventAt ?? 'no events yet'}`,
    '',
    `${tasks.length} tasks: ${taskStatuses.map((status) => `${counts[status]} ${status}`).join(', ')}. ${ready} ready.`,
    `Used so far: ${tokens} tokens, ${Math.round(elapsedMs / 1_000)} s.`,
    ...(paused === null ? [] : ['', `**Paused** by ${cell(paused.by)} at ${paused.at}.`]),
    '',
    ...(choice.taskId === null
      ? [`Next: none, because ${cell(choice.because)}.`]
      : [`Next: ${cell(choice.taskId)}, because ${cell(choice.because)}.`]),
    '',
    ...section(
      'Waiting for a person',
      ['task', 'title', 'why'],
      forPeople.map(({ task, why }) => [task.taskId, task.title, why]),
    ),
    ...section('Running', ['task', 'title', 'agent', 'since'], running),
    ...section(
      'Waiting for other reasons',
      ['task', 'title', 'why'],
      others.map(({ task, why }) => [task.taskId, task.title, why]),
    ),
    ...section(
      'Failed',
      ['task', 'title', 'why', 'when'],
      newest('failed').map((task) => [task.taskId, task.title, task.reason ?? '', task.updatedAt]),
    ),
    ...section(
      'Recently done',
      ['task', 'title', 'when'],
      newest('done').map((task) => [task.taskId, task.title, task.updatedAt]),
    ),
    ...section(
      'Dependency cycles',
      ['tasks'],
      cycles.map((cycle) => [cycle.slice(0, 10).join(' → ')]),
    ),
  ]
  const summary = {
    tasks: tasks.length,
    counts,
    ready,
    tokens,
    elapsedMs,
    paused: paused !== null,
    waitingForPeople: forPeople.length,
  }
  return { markdown: `${lines.join('\n').trimEnd()}\n`, summary }
}

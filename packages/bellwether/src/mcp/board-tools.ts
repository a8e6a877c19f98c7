/**
 * Tools for the board: add, edit, list and read tasks. A task that is added or edited here cannot run other commands on the host, and
 * a model cannot remove the approval or the review of a person.
 */
import { defined } from '@bellwether/base'
import { taskStatuses, workspaceKinds } from '@bellwether/protocol'
import type { TaskLine } from '@bellwether/protocol/http'
import { z } from 'zod'
import { fitting, shortened } from './bounded.js'
import { tool, type Tool } from './tool.js'

const taskId = z.string().min(1).max(128)

const title = z.string().min(1).max(500)
const instruction = z.string().max(100_000)
const name = z.string().min(1).max(128)
const priority = z.number().min(-1_000_000).max(1_000_000)
const dependsOn = z.array(taskId).max(1_000)

export const boardTools: readonly Tool[] = [
  tool({
    name: 'add_task',
    title: 'Add a task',
    description: 'Adds a task to the board. The autopilot gives it to an agent; read_task shows its progress.',
    readOnly: false,
    input: z.strictObject({
      title,
      instruction: instruction.optional().describe('what to do, in full'),
      task_id: taskId.optional().describe('default: the next free id'),
      agent: name.optional().describe('the agent that runs it first'),
      role: name.optional(),
      priority: priority.optional().describe('a higher priority runs first'),
      depends_on: dependsOn.optional().describe('tasks that must be done first'),
      review: z.boolean().optional().describe('a person reviews it after acceptance'),
      workspace: z.enum(workspaceKinds).optional().describe('worktree: it works in a git worktree of its own'),
      base: name.optional().describe('the branch that the worktree is made from and merged into'),
      merge: z
        .enum(['review', 'never'])
        .optional()
        .describe('what happens to the change in the worktree after acceptance; a model cannot skip the review'),
      needs_approval: z.boolean().optional().describe('a person must approve it before it starts'),
    }),
    run: async (
      { task_id: id, depends_on: dependencies, needs_approval: requiresApproval, title: heading, ...fields },
      { client, signal },
    ) => {
      const body = { title: heading, ...defined({ ...fields, taskId: id, dependencies, requiresApproval }) }
      const task = await client.ask('POST /board/tasks', { body, signal })
      return { summary: `Added task ${task.taskId}: ${task.status}.`, data: brief(task) }
    },
  }),
  tool({
    name: 'edit_task',
    title: 'Edit a task',
    description: 'Changes fields of a task that is not done. A run that is open is not affected.',
    readOnly: false,
    input: z.strictObject({
      task: taskId,
      title: title.optional(),
      instruction: instruction.optional().describe('replaces the instruction'),
      agent: name.optional(),
      role: name.optional(),
      priority: priority.optional(),
      depends_on: dependsOn.optional().describe('replaces the dependencies'),
    }),
    run: async ({ task: id, depends_on: dependencies, ...fields }, { client, signal }) => {
      const body = defined({ ...fields, dependencies })
      const task = await client.ask('PATCH /board/tasks/:task', { params: { task: id }, body, signal })
      return { summary: `Changed task ${task.taskId}: ${Object.keys(body).join(', ')}.`, data: brief(task) }
    },
  }),
  tool({
    name: 'list_tasks',
    title: 'List tasks',
    description: 'Lists the tasks of the board in dispatch order, each with what it waits for.',
    readOnly: true,
    input: z.strictObject({
      status: z.enum(taskStatuses).optional(),
      include_done: z.boolean().default(false),
      cursor: z.number().int().min(0).max(1_000_000_000).optional().describe('how many tasks to skip'),
      limit: z.number().int().min(1).max(500).default(50),
    }),
    run: async ({ status, include_done: includeDone, cursor = 0, limit }, { client, signal }) => {
      const query = { status, limit, cursor, done: includeDone || status === 'done' }
      const page = await client.ask('GET /board/tasks', { query, signal })
      const { shown } = fitting(page.tasks.map(brief))
      const next = cursor + shown.length
      const more = next < page.total ? ` There are more: list_tasks with cursor ${next}.` : ''
      return { summary: `${shown.length} of ${page.total} tasks.${more}`, data: shown }
    },
  }),
  tool({
    name: 'read_task',
    title: 'Read a task',
    description:
      'Reads a task: what it waits for, why its last run was not accepted (failed checks with their output, the diff), what happens next, its fields, creator, newest events and runs. read_turn reads the turn of a run.',
    readOnly: true,
    input: z.strictObject({ task: taskId }),
    run: async ({ task: id }, { client, signal }) => {
      const params = { task: id }
      const { runs, ...task } = await client.ask('GET /board/tasks/:task', { params, signal })
      const query = { limit: eventsMax }
      const history = await client.ask('GET /board/tasks/:task/history', { params, query, signal })
      const { shown, left } = fitting(runs.toReversed(), runsChars)
      const events = history.events.map(({ at, actor, type, payload }) => ({ at, actor, type, payload })).toReversed()
      const note = left > 0 ? ` Its ${left} oldest runs are left out.` : ''
      return {
        summary: `Task ${task.taskId}: ${task.status}.${note}`,
        data: {
          ...(shortened(task, instructionChars) as object),
          created_by: history.createdBy,
          runs_newest_first: shown,
          events_newest_first: fitting(events, eventsChars).shown,
        },
      }
    },
  }),
]

// All together fit into a result.
const runsChars = 12_000
const eventsChars = 6_000
const instructionChars = 8_000
const eventsMax = 20

function brief(task: TaskLine): object {
  const { taskId: id, title, status, assignee, priority, reason, waitsFor: waits_for, dependencies, problem } = task
  const next_step = task.nextStep.text
  return {
    task: id,
    title,
    status,
    assignee,
    priority,
    reason,
    waits_for,
    problem,
    next_step,
    depends_on: dependencies,
  }
}

/** Tools for the board: add a task, list tasks, read one. Commands that a task could run are not taken from here. */
import { z } from 'zod'
import { fitting, shortened } from './bounded.js'
import { tool, type Tool } from './tool.js'

const statuses = ['pending', 'claimed', 'in_progress', 'review', 'done', 'blocked', 'failed'] as const
const taskId = z.string().min(1).max(128)

type Task = Readonly<Record<string, unknown>> & { readonly taskId: string; readonly status: string }

export const boardTools: readonly Tool[] = [
  tool({
    name: 'add_task',
    title: 'Add a task',
    description:
      'Puts a task on the board. The autopilot gives it to an agent when its turn comes; read_task tells what became of it.',
    readOnly: false,
    input: z.strictObject({
      title: z.string().min(1).max(500),
      instruction: z.string().max(100_000).optional().describe('what is to be done, in full'),
      task_id: taskId.optional().describe('its id; absent: the next free one'),
      agent: z.string().min(1).max(128).optional().describe('the agent that tries first'),
      role: z.string().min(1).max(128).optional(),
      priority: z.number().min(-1_000_000).max(1_000_000).optional().describe('the higher the sooner'),
      depends_on: z.array(taskId).max(1_000).optional().describe('tasks that must be done before'),
      review: z.boolean().optional().describe('a person looks at it after it was accepted'),
      needs_approval: z.boolean().optional().describe('a person must approve it before it begins'),
    }),
    run: async (
      { task_id: id, depends_on: dependencies, needs_approval: requiresApproval, ...words },
      { client, signal },
    ) => {
      const body = defined({ ...words, taskId: id, dependencies, requiresApproval })
      const task = await client.ask<Task>('POST', '/board/tasks', { body, signal })
      return { words: `Added task ${task.taskId}: ${task.status}.`, data: brief(task) }
    },
  }),
  tool({
    name: 'list_tasks',
    title: 'List tasks',
    description: 'The tasks of the board in the order in which they would be tried, each with what it waits for.',
    readOnly: true,
    input: z.strictObject({
      status: z.enum(statuses).optional(),
      include_done: z.boolean().default(false),
      cursor: z.number().int().min(0).max(1_000_000_000).optional().describe('how many to pass over'),
      limit: z.number().int().min(1).max(500).default(50),
    }),
    run: async ({ status, include_done: done, cursor = 0, limit }, { client, signal }) => {
      const query = new URLSearchParams({
        limit: String(limit),
        cursor: String(cursor),
        done: String(done || status === 'done'),
      })
      if (status !== undefined) query.set('status', status)
      const page = await client.ask<{ readonly tasks: readonly Task[]; readonly total: number }>(
        'GET',
        `/board/tasks?${query.toString()}`,
        { signal },
      )
      const { shown } = fitting(page.tasks.map(brief))
      const next = cursor + shown.length
      const more = next < page.total ? ` There are more: list_tasks with cursor ${next}.` : ''
      return { words: `${shown.length} of ${page.total} tasks.${more}`, data: shown }
    },
  }),
  tool({
    name: 'read_task',
    title: 'Read a task',
    description:
      'One task: what it says, what it waits for, its tries and what they cost. Its turns can be read with read_turn.',
    readOnly: true,
    input: z.strictObject({ task: taskId }),
    run: async ({ task: id }, { client, signal }) => {
      const task = await client.ask<Task>('GET', `/board/tasks/${encodeURIComponent(id)}`, { signal })
      const { runs, ...rest } = task
      const tries = Array.isArray(runs) ? fitting((runs as unknown[]).toReversed(), triesChars) : { shown: [], left: 0 }
      const left = tries.left > 0 ? ` Its ${tries.left} oldest tries are left out.` : ''
      return {
        words: `Task ${task.taskId}: ${task.status}.${left}`,
        data: { ...(shortened(rest, instructionChars) as object), tries_newest_first: tries.shown },
      }
    },
  }),
]

// Together they fit into an answer.
const triesChars = 15_000
const instructionChars = 8_000

function brief(task: Task): object {
  const { taskId: task_id, title, status, assignee, priority, reason, waitsFor: waits_for, dependencies } = task
  return { task: task_id, title, status, assignee, priority, reason, waits_for, depends_on: dependencies }
}

function defined(fields: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}

/** `task list` and `task show`: read the board without changing it. */
import { defined, systemClock } from '@bellwether/base'
import type { ResponseOf, TaskLine } from '@bellwether/protocol/http'
import { Option, type Command } from 'commander'
import { type BudgetPolicy } from '../../../board/policies/budget.js'
import { policiesForReading } from '../../../board/policies/reading.js'
import type { ReadyRules } from '../../../board/tasks/ready.js'
import { taskBudget } from '../../../board/tasks/task-budget.js'
import { listTasks, taskView, type TaskPage } from '../../../board/tasks/task-view.js'
import { taskStatuses, type TaskStatus } from '../../../board/log/task.js'
import { print as printResult, printList, type JsonFlags } from '../../shared/output.js'
import { sinceOption, untilOption } from '../../shared/instants.js'
import { jsonLines, wholeUpTo } from '../../shared/options.js'
import { table } from '../../shared/terminal.js'
import { boardServer, onRoot, withCommon, type CommonFlags, type Opened } from './root.js'
import { taskText, type History, type ShownTask } from './task-text.js'

// The largest page of a server.
const pageMax = 1_000

interface ReadRules extends ReadyRules {
  readonly budget: BudgetPolicy
}

export async function rulesOf({ policies, settings }: Opened): Promise<ReadRules> {
  const { recovery, runtime, budget, problem } = await policiesForReading(policies)
  return { firstAgent: settings.first_agent, recovery, agents: runtime?.agents ?? [], budget, problem }
}

export function listCommand(task: Command): void {
  withCommon(task.command('list'))
    .description('list the tasks, most urgent first')
    .addOption(new Option('-s, --status <status>', 'only tasks with this status').choices(taskStatuses))
    .option('--all', 'include done tasks')
    .option('-n, --limit <n>', 'the maximum number of tasks', wholeUpTo(pageMax, 1), 50)
    .addOption(sinceOption('tasks that changed'))
    .addOption(untilOption('tasks that changed'))
    .addOption(jsonLines())
    .action(async (flags: ListFlags) => {
      const { status } = flags
      const limit = flags.since === undefined && flags.until === undefined ? flags.limit : pageMax
      const done = flags.all === true || status === 'done'
      const print = (page: TaskPage) => {
        const found = changedWithin(page, flags)
        printList(flags, found, found.tasks, () => listText(found))
      }
      const server = await boardServer(flags)
      if (server !== undefined) {
        const query = { status, done, limit }
        return print(await server.ask('GET /board/tasks', { query }))
      }
      return onRoot(flags, 'read', async (opened) => {
        const query = { ...defined({ status }), done, limit }
        print(listTasks(opened.board.state, systemClock.wallMs(), await rulesOf(opened), query))
      })
    })
}

interface ListFlags extends CommonFlags {
  readonly status?: TaskStatus
  readonly all?: boolean
  readonly limit: number
  readonly since?: number
  readonly until?: number
  readonly jsonl?: boolean
}

/** Among the most urgent tasks, as many as a page has. */
function changedWithin(page: TaskPage, { since = -Infinity, until = Infinity, limit }: ListFlags): TaskPage {
  if (since === -Infinity && until === Infinity) return page
  const tasks = page.tasks.filter(({ updatedAt }) => Date.parse(updatedAt) >= since && Date.parse(updatedAt) <= until)
  return { tasks: tasks.slice(0, limit), total: tasks.length, cursor: null }
}

function listText(page: TaskPage): string {
  if (page.tasks.length === 0) return 'no tasks'
  const rows = page.tasks.map((task) => [
    task.taskId,
    task.status,
    String(task.priority),
    task.assignee ?? '–',
    task.title,
    waitText(task),
  ])
  const more = page.total > page.tasks.length ? `\n… and ${page.total - page.tasks.length} more (--limit)` : ''
  return `${table(['TASK', 'STATUS', 'PRIO', 'WHO', 'TITLE', 'WAITS FOR'], rows, process.stdout.columns, [0])}${more}`
}

/** A task that needs a person says why, in the words of its last run. */
function waitText({ status, waitsFor, problem, nextStep }: TaskLine): string {
  if (waitsFor === null) return status === 'done' ? '–' : 'ready'
  return problem !== null && status === 'blocked' && nextStep.what === 'person'
    ? `it needs a person: ${problem}`
    : waitsFor
}

export function checksCommand(task: Command): void {
  withCommon(task.command('checks'))
    .description('list the checks that tasks can select with --check')
    .addOption(jsonLines())
    .action(async (flags: CommonFlags & JsonFlags) => {
      const print = (checks: ResponseOf<'GET /board/checks'>['checks']) =>
        printList(flags, { checks }, checks, () =>
          checks.length === 0
            ? 'no checks: "checks" of config/acceptance-policy.json defines them'
            : table(
                ['CHECK', 'DESCRIPTION'],
                checks.map((check) => [check.name, check.description ?? '–']),
                process.stdout.columns,
              ),
        )
      const server = await boardServer(flags)
      if (server !== undefined) return print((await server.ask('GET /board/checks')).checks)
      return onRoot(flags, 'read', async ({ policies }) => {
        const { checks } = (await policies()).acceptance
        print(Object.entries(checks).map(([name, { description = null }]) => ({ name, description })))
      })
    })
}

export function showCommand(task: Command): void {
  withCommon(task.command('show <id>'))
    .description('show one task: why its last run was not accepted, what happens next, its runs, history and budget')
    .option('--events <n>', 'how many of its newest events to show, at most 1000', wholeUpTo(pageMax), 20)
    .option('--diff', 'show the whole diff of the last run, as far as it is stored')
    .action(async (id: string, flags: CommonFlags & { events: number; diff?: boolean }) => {
      const print = (view: ShownTask, history: History, root?: string) =>
        printResult(flags, { ...view, history }, () =>
          taskText(view, history, { wholeDiff: flags.diff === true, root }),
        )
      const limit = Math.max(1, flags.events)
      const server = await boardServer(flags)
      if (server !== undefined) {
        const params = { task: id }
        const view = await server.ask('GET /board/tasks/:task', { params })
        return print(view, await server.ask('GET /board/tasks/:task/history', { params, query: { limit } }))
      }
      return onRoot(flags, 'read', async (opened) => {
        const rules = await rulesOf(opened)
        const { state } = opened.board
        const view = taskView(state, id, systemClock.wallMs(), rules)
        const budget = taskBudget(state.tasks.get(view.taskId)!, rules.budget)
        print({ ...view, budget }, await opened.board.history(id, limit), opened.board.root)
      })
    })
}

/** Any number of up to 15 digits. */
export const wholeNumber = wholeUpTo(999_999_999_999_999)

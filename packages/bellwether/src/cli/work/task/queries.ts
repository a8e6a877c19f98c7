/** `task list`, `task show`, `task watch`, `task synthesize`: read the board without changing it. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { errorMessage, systemClock, systemRandom } from '@bellwether/base'
import { InvalidInput, moneySpent, tokensSpent } from '@bellwether/protocol'
import type { BoardTaskDetail, EventOf, ResponseOf } from '@bellwether/protocol/http'
import { Option, type Command } from 'commander'
import { openFeed } from '../../../board/log/feed.js'
import { defaultBudget, type BudgetPolicy } from '../../../board/policies/budget.js'
import { defaultRecovery } from '../../../board/policies/recovery.js'
import type { ReadyRules } from '../../../board/tasks/ready.js'
import { taskBudget } from '../../../board/tasks/task-budget.js'
import { listTasks, taskView, type TaskPage, type TaskView } from '../../../board/tasks/task-view.js'
import { markdownReport } from '../../../board/tasks/markdown-report.js'
import { taskStatuses, type TaskEvent, type TaskHistory, type TaskStatus } from '../../../board/log/task.js'
import { retryCall } from '../../../ports/retry.js'
import type { Client } from '../../../client/client.js'
import { block, plain } from '../../../client/sanitize.js'
import { printLine, printOutage, print as printResult } from '../../shared/output.js'
import { untilInterrupted } from '../../shared/interrupt.js'
import { wholeUpTo } from '../../shared/options.js'
import { facts, table } from '../../shared/terminal.js'
import { boardServer, onRoot, withCommon, type CommonFlags, type Opened } from './root.js'

interface ReadRules extends ReadyRules {
  readonly budget: BudgetPolicy
}

/** A mistake in a policy file does not prevent reading; `onRoot` has printed a warning. */
async function rulesOf({ policies, settings }: Opened): Promise<ReadRules> {
  try {
    const { recovery, runtime, budget } = await policies()
    return { firstAgent: settings.first_agent, recovery, agents: runtime.agents, budget }
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error
    return { firstAgent: settings.first_agent, recovery: defaultRecovery, budget: defaultBudget }
  }
}

export function listCommand(task: Command): void {
  withCommon(task.command('list'))
    .description('list the tasks, most urgent first')
    .addOption(new Option('--status <status>', 'only tasks with this status').choices(taskStatuses))
    .option('--all', 'include done tasks')
    .option('--limit <n>', 'how many tasks at most', wholeNumber, 50)
    .action(async (flags: CommonFlags & { status?: TaskStatus; all?: boolean; limit: number }) => {
      const { status, limit } = flags
      const done = flags.all === true || status === 'done'
      const print = (page: TaskPage) => printResult(flags, page, () => listText(page))
      const server = boardServer(flags)
      if (server !== undefined) {
        const query = { status, done, limit: Math.max(1, Math.min(limit, pageMax)) }
        return print(await server.ask('GET /board/tasks', { query }))
      }
      return onRoot(flags, 'read', async (opened) => {
        const query = { ...(status === undefined ? {} : { status }), done, limit }
        print(listTasks(opened.board.state, systemClock.wallMs(), await rulesOf(opened), query))
      })
    })
}

// The largest page of a server.
const pageMax = 1_000

function listText(page: TaskPage): string {
  if (page.tasks.length === 0) return 'no tasks'
  const rows = page.tasks.map((one) => [
    one.taskId,
    one.status,
    String(one.priority),
    one.assignee ?? '–',
    one.title,
    one.waitsFor ?? (one.status === 'done' ? '–' : 'ready'),
  ])
  const more = page.total > page.tasks.length ? `\n… and ${page.total - page.tasks.length} more (--limit)` : ''
  return `${table(['TASK', 'STATUS', 'PRIO', 'WHO', 'TITLE', 'WAITS FOR'], rows, process.stdout.columns, [0])}${more}`
}

export function showCommand(task: Command): void {
  withCommon(task.command('show <id>'))
    .description('show one task: what it waits for, its runs, its history, and what it has spent of its budget')
    .option('--events <n>', 'how many of its newest events to show, at most 1000', wholeUpTo(pageMax), 20)
    .action(async (id: string, flags: CommonFlags & { events: number }) => {
      const print = (view: ShownTask, history: History) =>
        printResult(flags, { ...view, history }, () => taskText(view, history))
      const limit = Math.max(1, flags.events)
      const server = boardServer(flags)
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
        print({ ...view, budget }, await opened.board.history(id, limit))
      })
    })
}

type ShownTask = (TaskView & Pick<BoardTaskDetail, 'budget'>) | BoardTaskDetail
type History = TaskHistory | ResponseOf<'GET /board/tasks/:task/history'>

function taskText(view: ShownTask, { createdBy, events, left }: History): string {
  const details = facts([
    ['status', `${view.status}${view.reason === null ? '' : ` (${view.reason})`}`],
    ['waits for', view.waitsFor ?? (view.status === 'done' ? '– (done)' : '– (ready)')],
    ...problemOf(view),
    ['assignee', view.assignee ?? '–'],
    ['priority', `${view.priority}, impact ${view.impact}`],
    ['depends on', view.dependencies.join(', ') || '–'],
    ['spent', moneySpent(view)],
    ['tokens', view.budget === null ? '–' : tokensSpent(view.budget)],
    ['created', `${view.createdAt}${createdBy === null ? '' : ` by ${createdBy}`}`],
    ['changed', view.updatedAt],
  ])
  const { instruction } = view.fields
  const text = typeof instruction === 'string' ? `\n\n${block(instruction)}` : ''
  const runs = view.runs.map((run) => [
    run.startedAt,
    run.agent,
    run.outcome ?? 'open',
    run.reasonCode ?? '',
    run.tokenUsage === undefined ? '' : `${run.tokenUsage} tokens`,
    run.elapsedMs === undefined ? '' : `${run.elapsedMs} ms`,
  ])
  const headings = ['STARTED', 'AGENT', 'OUTCOME', 'REASON', 'TOKENS', 'TIME']
  const runTable = runs.length === 0 ? '' : `\n\n${table(headings, runs, process.stdout.columns)}`
  const lines = events.map((event) => [
    event.at.slice(0, 19).replace('T', ' '),
    event.actor,
    event.type,
    aboutOf(event),
  ])
  const older = left === 0 ? '' : `\n… and ${left} older events (--events)`
  const history =
    lines.length === 0 ? '' : `\n\n${table(['AT', 'BY', 'EVENT', 'ABOUT'], lines, process.stdout.columns)}${older}`
  return `${plain(view.taskId)}  ${plain(view.title)}\n${details}${text}${runTable}${history}`
}

/** Why the board did not accept the last run. */
function problemOf({ status, fields: { spawn } }: ShownTask): [string, string][] {
  const error = typeof spawn === 'object' && spawn !== null && 'error' in spawn ? spawn.error : null
  return status !== 'done' && typeof error === 'string' ? [['problem', error]] : []
}

export function watchCommand(task: Command): void {
  withCommon(task.command('watch'))
    .description('follow the events of the board; with --json one JSON object per line')
    .option('--since <cursor>', 'start after this cursor (0: from the beginning; default: now)', wholeNumber)
    .option('--once', 'print the existing events and exit')
    .action(async (flags: CommonFlags & { since?: number; once?: boolean }) => {
      const server = boardServer(flags)
      if (server !== undefined) return watchServer(server, flags)
      const stop = new AbortController()
      for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => stop.abort())
      // The reader closed the pipe.
      process.stdout.on('error', () => stop.abort())
      return onRoot(flags, 'read', async ({ board, disk }) => {
        const feed = await openFeed(join(board.root, 'state', 'tasks.jsonl'), disk)
        try {
          let cursor: number | null = flags.since ?? (flags.once === true ? 0 : null)
          while (!stop.signal.aborted) {
            const page = await feed.since(cursor)
            if (page.reset) process.stderr.write('the log was replaced; showing it from the start:\n')
            const first = page.cursor - page.events.length
            page.events.forEach((event, at) => printEvent(flags, event, first + at + 1))
            cursor = page.cursor
            if (page.more) continue
            if (flags.once === true) break
            await systemClock.sleep(pollMs, stop.signal)
          }
        } finally {
          await feed.close()
        }
      })
    })
}

async function watchServer(server: Client, flags: CommonFlags & { since?: number; once?: boolean }): Promise<void> {
  if (flags.once === true)
    throw new InvalidInput('--once and --server cannot be combined: a server keeps sending events.', {
      code: 'contradicting_options',
      hint: 'Omit --once, or use local files.',
    })
  await untilInterrupted(async (signal) => {
    const after = flags.since === undefined ? undefined : String(flags.since)
    for await (const { id, event, data } of server.follow('GET /board/events', {
      signal,
      after,
      onOutage: printOutage,
    })) {
      if (event === 'reset') process.stderr.write('the log was replaced; showing it from the start:\n')
      else if ('eventId' in data) printEvent(flags, data, Number(id ?? 0))
    }
  })
}

// Fast enough for a person; each poll costs one stat of the log.
const pollMs = 250

function printEvent(flags: CommonFlags, event: TaskEvent | EventOf<'GET /board/events', '*'>, cursor: number): void {
  if (flags.json === true) return printLine({ cursor, ...event })
  const about = aboutOf(event)
  const words = [event.at.slice(0, 19).replace('T', ' '), event.messageType.padEnd(9), event.taskId, event.type]
  process.stdout.write(`${plain(`${words.join('  ')} by ${event.actor}${about === '' ? '' : `: ${about}`}`)}\n`)
}

function aboutOf({ type, payload }: Pick<TaskEvent, 'type' | 'payload'> | EventOf<'GET /board/events', '*'>): string {
  const word = [payload['reason'], payload['title']].find((value) => typeof value === 'string')
  // A note without a text is described by its keys.
  return word ?? (type === 'task_noted' || type === 'board_control' ? Object.keys(payload).join(', ') : '')
}

export function synthesizeCommand(task: Command): void {
  withCommon(task.command('synthesize'))
    .description('write a Markdown report of the board')
    .option('--out <file>', 'write the report to this file instead of stdout')
    .action(async (flags: CommonFlags & { out?: string }) => {
      if (boardServer(flags) !== undefined)
        throw new InvalidInput('synthesize reads local files and cannot be combined with --server.', {
          code: 'contradicting_options',
          hint: 'Omit --server.',
        })
      await onRoot(flags, 'read', async (opened) => {
        const rules = await rulesOf(opened)
        const { out } = flags
        const synthesize = async (signal: AbortSignal) => {
          const report = markdownReport(opened.board.state, systemClock.wallMs(), rules)
          if (out !== undefined) await writeFile(out, report.markdown, { signal })
          return report
        }
        const call = { kind: 'synthesis', name: 'writing the report' } as const
        const ports = { clock: systemClock, random: systemRandom }
        const { markdown, summary } = await retryCall(opened.calls, call, synthesize, ports).catch((error: unknown) => {
          throw new InvalidInput(
            `Cannot write the report${out === undefined ? '' : ` to ${out}`}: ${errorMessage(error)}.`,
            { code: 'no_report' },
          )
        })
        if (out !== undefined) return printResult(flags, { ...summary, out }, () => `written: ${out}`)
        printResult(flags, { ...summary, markdown }, () => markdown)
      })
    })
}

/** Any number of up to 15 digits. */
export const wholeNumber = wholeUpTo(999_999_999_999_999)

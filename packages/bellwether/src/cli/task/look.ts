/** `task list`, `task show`, `task watch`, `task synthesize`: what can be seen of a board without changing it. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { InvalidInput } from '@bellwether/protocol'
import { InvalidArgumentError, type Command } from 'commander'
import { openFeed } from '../../board/feed.js'
import { shippedRecovery } from '../../board/policies/recovery.js'
import type { ReadyRules } from '../../board/ready.js'
import { listTasks, taskView } from '../../board/task-view.js'
import { synthesize } from '../../board/synthesis.js'
import { taskStatuses, type TaskEvent, type TaskStatus } from '../../board/task.js'
import { systemClock } from '../../ports/clock.js'
import { systemDisk } from '../../ports/disk/disk.js'
import { printLine } from '../explain.js'
import { answer, onRoot, plain, withCommon, type CommonFlags, type Opened } from './root.js'
import { table } from './table.js'

/** Whoever only looks is not kept from it by a mistake in a policy file; `onRoot` has told them of it. */
async function rulesOf({ policies, settings }: Opened): Promise<ReadyRules> {
  try {
    return { firstAgent: settings.first_agent, recovery: (await policies()).recovery }
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error
    return { firstAgent: settings.first_agent, recovery: shippedRecovery }
  }
}

export function listCommand(task: Command): void {
  withCommon(task.command('list'))
    .description('show the tasks, the most urgent first')
    .option('--status <status>', `only these: ${taskStatuses.join(', ')}`, statusName)
    .option('--all', 'also those that are done')
    .option('--limit <n>', 'at most so many', wholeNumber, 50)
    .action(async (flags: CommonFlags & { status?: TaskStatus; all?: boolean; limit: number }) => {
      await onRoot(flags, 'look', async (opened) => {
        const page = listTasks(opened.board.state, systemClock.wallMs(), await rulesOf(opened), {
          ...(flags.status === undefined ? {} : { status: flags.status }),
          done: flags.all === true || flags.status === 'done',
          limit: flags.limit,
        })
        answer(flags, page, () => {
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
          return `${table(['TASK', 'STATUS', 'PRIO', 'WHO', 'TITLE', 'WAITS FOR'], rows, process.stdout.columns)}${more}`
        })
      })
    })
}

export function showCommand(task: Command): void {
  withCommon(task.command('show <id>'))
    .description('show one task: what it waits for, its tries, what it cost')
    .action(async (id: string, flags: CommonFlags) => {
      await onRoot(flags, 'look', async (opened) => {
        const view = taskView(opened.board.state, id, systemClock.wallMs(), await rulesOf(opened))
        answer(flags, view, () => {
          const facts: [string, string][] = [
            ['status', `${view.status}${view.reason === null ? '' : ` (${view.reason})`}`],
            ['waits for', view.waitsFor ?? (view.status === 'done' ? 'nothing: it is done' : 'nothing: it is ready')],
            ['who', view.assignee ?? '–'],
            ['priority', `${view.priority}, impact ${view.impact}`],
            ['depends on', view.dependencies.join(', ') || '–'],
            ['created', view.createdAt],
            ['changed', view.updatedAt],
          ]
          const instruction = view.fields['instruction']
          const text = typeof instruction === 'string' ? `\n\n${instruction.split('\n').map(plain).join('\n')}` : ''
          const runs = view.runs.map((run) => [
            run.startedAt,
            run.agent,
            run.outcome ?? 'under way',
            run.reasonCode ?? '',
            run.tokenUsage === undefined ? '' : `${run.tokenUsage} tokens`,
            run.elapsedMs === undefined ? '' : `${run.elapsedMs} ms`,
          ])
          const tries =
            runs.length === 0 ? '' : `\n\n${table(['STARTED', 'AGENT', 'OUTCOME', 'REASON', 'TOKENS', 'TIME'], runs)}`
          const head = `${view.taskId}  ${plain(view.title)}`
          return `${head}\n${facts.map(([name, value]) => `  ${name.padEnd(10)}  ${plain(value)}`).join('\n')}${text}${tries}`
        })
      })
    })
}

export function watchCommand(task: Command): void {
  withCommon(task.command('watch'))
    .description('show what happens, as it happens; one JSON object a line with --json')
    .option('--since <cursor>', 'begin after this cursor (0: from the start; default: now)', wholeNumber)
    .option('--once', 'show what there is and end')
    .action(async (flags: CommonFlags & { since?: number; once?: boolean }) => {
      const stop = new AbortController()
      for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => stop.abort())
      // A reader that is gone wants no more lines.
      process.stdout.on('error', () => stop.abort())
      await onRoot(flags, 'look', async ({ board }) => {
        const feed = await openFeed(join(board.root, 'state', 'tasks.jsonl'), systemDisk)
        try {
          let cursor: number | null = flags.since ?? (flags.once === true ? 0 : null)
          while (!stop.signal.aborted) {
            const page = await feed.since(cursor)
            if (page.reset) process.stderr.write('the log is another one than the cursor was of; from its start:\n')
            const first = page.cursor - page.events.length
            page.events.forEach((event, at) => tell(flags, event, first + at + 1))
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

// A person does not see a difference below this, and a look costs one stat of the log.
const pollMs = 250

function tell(flags: CommonFlags, event: TaskEvent, cursor: number): void {
  if (flags.json === true) return printLine({ cursor, ...event })
  const { payload } = event
  const word = [payload['reason'], payload['title']].find((value) => typeof value === 'string')
  // A note says what it is about by its keys.
  const about =
    word ?? (event.type === 'task_noted' || event.type === 'board_control' ? Object.keys(payload).join(', ') : '')
  const words = [event.at.slice(0, 19).replace('T', ' '), event.messageType.padEnd(9), event.taskId, event.type]
  process.stdout.write(`${plain(`${words.join('  ')} by ${event.actor}${about === '' ? '' : `: ${about}`}`)}\n`)
}

export function synthesizeCommand(task: Command): void {
  withCommon(task.command('synthesize'))
    .description('write a report of the board in Markdown')
    .option('--out <file>', 'write it there instead of to stdout')
    .action(async (flags: CommonFlags & { out?: string }) => {
      await onRoot(flags, 'look', async (opened) => {
        const { markdown, facts } = synthesize(opened.board.state, systemClock.wallMs(), await rulesOf(opened))
        if (flags.out !== undefined) {
          await writeFile(flags.out, markdown).catch((error: unknown) => {
            throw new InvalidInput(`the report cannot be written to ${flags.out}: ${messageOf(error)}`, {
              code: 'no_report',
            })
          })
          answer(flags, { ...facts, out: flags.out }, () => `written: ${flags.out}`)
          return
        }
        answer(flags, { ...facts, markdown }, () => markdown)
      })
    })
}

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error))

function statusName(text: string): TaskStatus {
  const found = taskStatuses.find((status) => status === text)
  if (found !== undefined) return found
  throw new InvalidArgumentError(`It must be one of ${taskStatuses.join(', ')}.`)
}

export function wholeNumber(text: string): number {
  const number = Number(text)
  if (/^\d{1,15}$/.test(text)) return number
  throw new InvalidArgumentError('It must be a whole number.')
}

/** `task bulk`: one action, or another priority or agent, for many tasks of a server's board. */
import { defined } from '@bellwether/base'
import { bulkTaskActions, InvalidInput, outcomes, taskStatuses, type BulkTaskAction } from '@bellwether/protocol'
import type { BodyFor, BulkTaskRow } from '@bellwether/protocol/http'
import { Argument, Option, type Command } from 'commander'
import { openClient, serverOptions, type ServerFlags } from '../../shared/client.js'
import { boundsOf, sinceOption, untilOption, type BoundFlags } from '../../shared/instants.js'
import { bulkOptions, dollarsUpTo, type BulkFlags } from '../../shared/options.js'

type Body = BodyFor<'POST /board/tasks/bulk'>
type Filter = NonNullable<Body['filter']>

interface Flags
  extends ServerFlags, BulkFlags, BoundFlags, Pick<Filter, 'status' | 'agent' | 'outcome' | 'error' | 'text'> {
  readonly reason?: string
  readonly priority?: number
  readonly to?: string
}

const changes = ['prioritize', 'assign'] as const

export function bulkCommand(task: Command, finish: (code: number) => void): void {
  const actions = [...bulkTaskActions.map((action) => action.replaceAll('_', '-')), ...changes]
  const command = task
    .command('bulk')
    .description('run one action on many tasks of a running server, or give them another priority or agent')
    .addArgument(new Argument('<action>', 'what to do').choices(actions))
    .argument('[tasks...]', 'the ids of tasks; or --all with filters')
  serverOptions(bulkOptions(command))
    .option('--json', 'print one JSON object')
    .option('--priority <n>', 'with prioritize: the new priority', Number)
    .option('--to <agent>', 'with assign: the agent that runs them next')
    .option('-r, --reason <text>', 'the reason, for the log and the next run')
    .addOption(new Option('-s, --status <status>', 'only tasks with this status').choices(taskStatuses))
    .option('-a, --agent <name>', 'only tasks of this assignee, or that name this agent')
    .addOption(new Option('--outcome <outcome>', 'only tasks whose last run ended so').choices(outcomes))
    .addOption(sinceOption('tasks that changed'))
    .addOption(untilOption('tasks that changed'))
    .option('-e, --error <text>', 'only tasks that are blocked or failed for a reason with this text')
    .option('--min-cost <dollars>', 'only tasks that cost at least this much', dollarsUpTo(1_000_000))
    .option('-t, --text <text>', 'only tasks with this text in the id, title, instruction or assignee')
    .action(async (action: string, ids: string[], flags: Flags) => finish(await bulk(action, ids, flags)))
}

async function bulk(action: string, ids: readonly string[], flags: Flags): Promise<number> {
  const { status, agent, outcome, error, text, reason } = flags
  const filter: Filter = defined({ status, agent, outcome, error, text, ...boundsOf(flags) })
  if ((ids.length === 0) !== (flags.all === true))
    throw new InvalidInput(`Cannot ${action} tasks: name tasks, or give --all for those that match the filters`, {
      code: 'no_tasks',
      hint: `for example: bellwether task bulk ${action} --all --status blocked --dry-run`,
    })
  const what = { ...whatOf(action, flags), ...defined({ reason }) }
  const client = openClient(flags)
  const ask = (rows: Pick<Body, 'tasks' | 'filter' | 'dry_run'>) =>
    client.ask('POST /board/tasks/bulk', { body: { ...what, ...rows } })
  const { runBulk } = await import('../../shared/bulk.js')
  return runBulk<BulkTaskRow>(flags, {
    action,
    noun: 'task',
    preview: () =>
      ask({ ...(ids.length > 0 ? { tasks: ids.map((taskId) => ({ taskId })) } : { filter }), dry_run: true }),
    run: (rows) =>
      ask({
        tasks: rows.map(({ taskId, updatedAt }) => ({ taskId, ...defined({ updatedAt: updatedAt ?? undefined }) })),
      }),
    cells: (row) => [row.taskId, row.title ?? '', row.status ?? ''],
  })
}

function whatOf(action: string, { priority, to }: Flags) {
  if (action === 'prioritize') return { change: { priority: needed(priority, action, '--priority N') } }
  if (action === 'assign') return { change: { agent: needed(to, action, '--to AGENT') } }
  return { action: action.replaceAll('-', '_') as BulkTaskAction }
}

function needed<T>(value: T | undefined, action: string, option: string): T {
  if (value !== undefined && !Number.isNaN(value)) return value
  throw new InvalidInput(`bellwether task bulk ${action} needs ${option}`, {
    code: 'missing_option',
    hint: 'see: bellwether task bulk --help',
  })
}

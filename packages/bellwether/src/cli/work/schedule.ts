/** `bellwether schedule`: lists, shows, adds, changes, pauses and runs schedules through the server, which checks them. */
import { defined, systemClock, systemRandom } from '@bellwether/base'
import { InvalidInput, missedPolicies, overlapPolicies } from '@bellwether/protocol'
import type { Fire, ResponseOf, Schedule, ScheduleInput } from '@bellwether/protocol/http'
import { Command, Option } from 'commander'
import type { Client } from '../../client/client.js'
import { block, plain } from '../../client/sanitize.js'
import { uuidv7 } from '../../ports/ids.js'
import { openClient, toServer, type ServerFlags } from '../shared/client.js'
import { jsonLines, wholeUpTo } from '../shared/options.js'
import { print, printList } from '../shared/output.js'
import { facts, instant, table } from '../shared/terminal.js'

interface DefinitionFlags extends ServerFlags {
  readonly cron?: string
  readonly every?: string
  readonly start?: string
  readonly timeZone?: string
  readonly missed?: (typeof missedPolicies)[number]
  readonly missedMax?: number
  readonly overlap?: (typeof overlapPolicies)[number]
  readonly queueMax?: number
  readonly agent?: string
  readonly task?: string
  readonly session?: string
  readonly maxSeconds?: number
  readonly maxTokens?: number
  readonly description?: string
}

const policyMax = 100
const historyMax = 500
const pageMax = 500
const secondsMax = 31_536_000
const tokensMax = 1_000_000_000

export function scheduleCommand(): Command {
  const schedule = new Command('schedule')
    .description('start turns and tasks by the clock: list, add, pause and run schedules')
    .helpCommand(false)
  toServer(schedule.command('list', { isDefault: true }))
    .description('list schedules with their next instants (the default)')
    .addOption(jsonLines())
    .action(async (flags: ServerFlags) => {
      const schedules = await readAll(openClient(flags))
      printList(flags, { schedules }, schedules, () => scheduleTable(schedules))
    })
  toServer(schedule.command('show <schedule>'))
    .description('show a schedule: definition, next instants, last fire')
    .action(async (name: string, flags: ServerFlags) => {
      const found = await read(openClient(flags), name)
      print(flags, found, () => scheduleText(found))
    })
  defining(schedule.command('add <schedule> [instruction]'))
    .description('add a schedule that starts turns of an agent (--agent) or tasks (--task)')
    .action(async (name: string, text: string | undefined, flags: DefinitionFlags) => {
      const body = { schedule: name, definition: definitionOf({}, text, flags) }
      const added = await openClient(flags).ask('POST /projects/:project/schedules', { body })
      print(flags, added, () => scheduleText(added))
    })
  defining(schedule.command('edit <schedule> [instruction]'))
    .description('change a schedule; options that you leave out keep their values')
    .action(async (name: string, text: string | undefined, flags: DefinitionFlags) => {
      const client = openClient(flags)
      const { definition } = await read(client, name)
      const body = { definition: definitionOf((definition ?? {}) as Partial<ScheduleInput>, text, flags) }
      const request = { params: { schedule: name }, body }
      const changed = await client.ask('PUT /projects/:project/schedules/:schedule', request)
      print(flags, changed, () => scheduleText(changed))
    })
  for (const [verb, about] of [
    ['pause', 'pause a schedule; instants during the pause start nothing'],
    ['resume', 'resume a paused schedule, from its next instant on'],
  ] as const)
    toServer(schedule.command(`${verb} <schedule>`))
      .description(about)
      .action(async (name: string, flags: ServerFlags) => {
        const params = { schedule: name }
        const client = openClient(flags)
        const found =
          verb === 'pause'
            ? await client.ask('POST /projects/:project/schedules/:schedule/pause', { params })
            : await client.ask('POST /projects/:project/schedules/:schedule/resume', { params })
        print(flags, found, () => scheduleText(found))
      })
  toServer(schedule.command('run <schedule>'))
    .description('start the turn or task of a schedule now, even if it is paused')
    .option('--idempotency-key <key>', 'a repeated request with the same key starts nothing more')
    .action(async (name: string, flags: ServerFlags & { readonly idempotencyKey?: string }) => {
      const key = flags.idempotencyKey ?? uuidv7(systemClock, systemRandom).next()
      const request = { params: { schedule: name }, idempotencyKey: key }
      const fire = await openClient(flags).ask('POST /projects/:project/schedules/:schedule/run', request)
      print(flags, fire, () => fireText(fire))
    })
  toServer(schedule.command('delete <schedule>'))
    .description('delete a schedule; its turns, tasks and history stay')
    .action(async (name: string, flags: ServerFlags) => {
      const params = { schedule: name }
      const deleted = await openClient(flags).ask('DELETE /projects/:project/schedules/:schedule', { params })
      print(flags, deleted, () => `Deleted ${plain(name)}`)
    })
  toServer(schedule.command('history <schedule>'))
    .description('list what a schedule started, newest first')
    .option('-n, --limit <n>', 'the maximum number of entries', wholeUpTo(historyMax, 1), 20)
    .addOption(jsonLines())
    .action(async (name: string, flags: ServerFlags & { readonly limit: number }) => {
      const request = { params: { schedule: name }, query: { limit: flags.limit } }
      const { fires } = await openClient(flags).ask('GET /projects/:project/schedules/:schedule/fires', request)
      printList(flags, { fires }, fires, () => fireTable(fires))
    })
  return schedule
}

function defining(command: Command): Command {
  return toServer(command)
    .option('--cron <expression>', 'five fields: minute, hour, day of month, month, day of week; or @daily and others')
    .option('--every <interval>', 'an interval such as 15m, 6h or 1d, instead of --cron')
    .option('--start <time>', 'the earliest instant, such as 2026-12-01T09:00:00Z')
    .option('-z, --time-zone <zone>', 'the time zone of --cron, such as Europe/Berlin (default: UTC)')
    .option('-a, --agent <agent>', 'the agent of the turns; with --task, the agent of the tasks')
    .option('--task <title>', 'add a task with this title instead of starting a turn')
    .addOption(new Option('--missed <policy>', 'instants that passed while no PMO ran').choices(missedPolicies))
    .option('--missed-max <n>', 'with --missed all: the newest n of them', wholeUpTo(policyMax, 1))
    .addOption(
      new Option('--overlap <policy>', 'if an earlier turn or task of the schedule is open').choices(overlapPolicies),
    )
    .option('--queue-max <n>', 'with --overlap queue: how many may be open at most', wholeUpTo(policyMax, 1))
    .option('--session <id>', 'the conversation of its turns, if the memory of the agent is "session"')
    .option('--max-seconds <n>', 'end a turn after this many seconds', wholeUpTo(secondsMax, 1))
    .option('--max-tokens <n>', 'end a turn after it has used this many tokens', wholeUpTo(tokensMax, 1))
    .option('--description <text>', 'the purpose, shown in lists')
}

/** The definition with what the flags say. The server checks it. */
function definitionOf(before: Partial<ScheduleInput>, text: string | undefined, flags: DefinitionFlags): ScheduleInput {
  const { cron, every, task, agent } = flags
  if (cron !== undefined && every !== undefined)
    throw new InvalidInput('Give either --cron or --every, not both', { code: 'contradicting_options' })
  const { task: taskBefore, agent: _agent, instruction: _instruction, ...rest } = before
  const timing = cron === undefined && every === undefined ? {} : { cron, every }
  const budget = defined({ max_wall_ms: flags.maxSeconds && flags.maxSeconds * 1_000, max_tokens: flags.maxTokens })
  const isTask = task !== undefined || (taskBefore !== undefined && before.agent === undefined)
  const target = isTask
    ? { task: { ...taskBefore, ...defined({ title: task, agent, instruction: text }) } as ScheduleInput['task'] }
    : { agent: agent ?? before.agent, instruction: text ?? before.instruction }
  return defined({
    ...rest,
    ...timing,
    ...target,
    ...defined({
      start: flags.start,
      time_zone: flags.timeZone,
      missed: flags.missed,
      missed_max: flags.missedMax,
      overlap: flags.overlap,
      queue_max: flags.queueMax,
      session_id: flags.session,
      description: flags.description,
    }),
    ...(Object.keys(budget).length === 0 ? {} : { budget: { ...before.budget, ...budget } }),
  })
}

const read = (client: Client, name: string) =>
  client.ask('GET /projects/:project/schedules/:schedule', { params: { schedule: name } })

async function readAll(client: Client): Promise<Schedule[]> {
  const all: Schedule[] = []
  for (let cursor: string | null = ''; cursor !== null;) {
    const query = { cursor, limit: pageMax }
    const page: ResponseOf<'GET /projects/:project/schedules'> = await client.ask('GET /projects/:project/schedules', {
      query,
    })
    all.push(...page.schedules)
    cursor = page.cursor
  }
  return all
}

const keysOf = ({ definition }: Schedule) => (definition ?? {}) as Partial<ScheduleInput>

function whenOf(schedule: Schedule): string {
  const { cron, every, time_zone: zone } = keysOf(schedule)
  if (every !== undefined) return `every ${every}`
  return cron === undefined ? '–' : `${cron} (${zone ?? 'UTC'})`
}

function whatOf(schedule: Schedule): string {
  const { agent, task } = keysOf(schedule)
  return task === undefined ? (agent ?? '–') : `task: ${task.title}`
}

function stateOf({ problem, definition, paused_at: paused }: Schedule): string {
  if (paused !== null) return 'paused'
  if (problem !== null) return definition === null ? 'invalid' : 'active, newest version invalid'
  return 'active'
}

const resultOf = ({ status, reason, skipped, outcome }: Fire) =>
  status === 'skipped'
    ? `skipped ${skipped} (${reason ?? ''})`
    : status === 'failed'
      ? 'failed'
      : (outcome ?? (status === 'waiting' ? 'waits for the board' : 'open'))

function scheduleTable(schedules: readonly Schedule[]): string {
  if (schedules.length === 0) return 'No schedules'
  const rows = schedules.map((one) => [
    one.schedule,
    stateOf(one),
    whenOf(one),
    whatOf(one),
    instant(one.next_fires[0]),
    one.last_fire === null ? '–' : `${resultOf(one.last_fire)} ${instant(one.last_fire.instant)}`,
  ])
  const headings = ['SCHEDULE', 'STATE', 'WHEN', 'STARTS', 'NEXT (UTC)', 'LAST']
  const problems = schedules.flatMap(({ problem }) => (problem === null ? [] : [plain(problem)]))
  return [table(headings, rows, process.stdout.columns, [0, 4]), ...problems].join('\n\n')
}

function scheduleText(schedule: Schedule): string {
  const {
    description,
    instruction,
    task,
    missed,
    missed_max: missedMax,
    overlap,
    queue_max: queueMax,
  } = keysOf(schedule)
  const { paused_at: paused, paused_by: by, last_fire: last, problem } = schedule
  const text = task === undefined ? instruction : task.instruction
  const fields = facts([
    ['state', paused === null ? stateOf(schedule) : `paused by ${by ?? ''} at ${instant(paused)}`],
    ...(problem === null ? [] : [['problem', problem] as const]),
    ['when', whenOf(schedule)],
    ['starts', whatOf(schedule)],
    ['missed', missed === 'all' ? `all, at most ${missedMax ?? ''}` : (missed ?? '–')],
    ['overlap', overlap === 'queue' ? `queue, at most ${queueMax ?? ''}` : (overlap ?? '–')],
    ['defined by', schedule.source === 'file' ? `schedules/${schedule.schedule}.toml` : schedule.updated_by],
    ['open', String(schedule.open)],
    ['last', last === null ? '–' : `${resultOf(last)} ${instant(last.instant)}`],
    ['next (UTC)', schedule.next_fires.map((at) => instant(at)).join(', ') || '–'],
  ])
  const about = description === undefined ? '' : `\n${plain(description)}`
  return `${plain(schedule.schedule)}${about}\n${fields}${text === undefined ? '' : `\n\n${block(text)}`}`
}

const linkOf = ({ agent_turn_id: turn, task_id: task }: Fire) => turn ?? task ?? '–'

function fireText(fire: Fire): string {
  const reason = fire.reason === null ? '' : `: ${fire.reason}`
  return plain(`${fire.status}${reason}  ${fire.status === 'waiting' ? 'the autopilot adds the task' : linkOf(fire)}`)
}

function fireTable(fires: readonly Fire[]): string {
  if (fires.length === 0) return 'No history'
  const rows = fires.map((fire) => [
    instant(fire.instant),
    fire.kind === 'manual' ? `by ${fire.requested_by ?? ''}` : 'timer',
    resultOf(fire),
    linkOf(fire),
    fire.status === 'failed' ? (fire.reason ?? '') : '',
  ])
  return table(['INSTANT (UTC)', 'BY', 'RESULT', 'TURN OR TASK', 'REASON'], rows, process.stdout.columns, [0, 3])
}

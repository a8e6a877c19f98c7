/** `bellwether agents`: lists agents with their state, deadline, waits and queue, once or live. */
import { systemClock } from '@bellwether/base'
import type { Agent, ResponseOf, Turn } from '@bellwether/protocol/http'
import { Command } from 'commander'
import type { Client } from '../../client/client.js'
import { openClient, toServer, withNearestAgent, type ServerFlags } from '../shared/client.js'
import { asStream, exitCodes, print, printList } from '../shared/output.js'
import { watchChanges } from '../shared/watch.js'
import { jsonLines, wholeUpTo } from '../shared/options.js'
import { plain } from '../../client/sanitize.js'
import { facts, instant, shortInstant, table } from '../shared/terminal.js'
import { turnTable } from '../work/turn-transcript.js'

interface ListFlags extends ServerFlags {
  readonly limit: number
  readonly busy?: boolean
  readonly watch?: boolean
}

// The server's maximum per page.
const pageMax = 1_000
const limitMax = 100_000

export function agentsCommand(finish: (code: number) => void): Command {
  const agents = new Command('agents').description('list and show agents').helpCommand(false)
  toServer(agents.command('list', { isDefault: true }))
    .description('list all agents and what they are doing (the default)')
    .option('--busy', 'only agents with an active or queued turn')
    .option('-n, --limit <n>', 'the maximum number of agents', wholeUpTo(limitMax, 1), 200)
    .option('-w, --watch', 'keep showing changes until Ctrl-C')
    .addOption(jsonLines())
    .action(async (flags: ListFlags) => {
      const as = flags.watch === true ? asStream(flags) : flags
      const client = openClient(flags)
      if (flags.watch !== true) {
        const found = await readAgents(client, flags)
        printList(flags, found, found.agents, () => agentTable(found, process.stdout.columns))
        return finish(exitCodes.ok)
      }
      await watchChanges({
        clock: systemClock,
        read: () => readAgents(client, flags),
        paint: (found) =>
          `${client.url}  project ${client.project}  ${found.agents.length} agents\n\n${agentTable(found, process.stdout.columns)}`,
        parts: ({ agents: all }) => new Map(all.map((agent) => [agent.agent_id, agent])),
        print: (agent) => print(as, agent, () => changeLine(agent)),
      })
      return finish(exitCodes.ok)
    })
  toServer(agents.command('show <agent>'))
    .description('show one agent: its state and its last turns')
    .action(async (id: string, flags: ServerFlags) => {
      const client = openClient(flags)
      const agent = await withNearestAgent(client, id, () =>
        client.ask('GET /projects/:project/agents/:agent', { params: { agent: id } }),
      )
      const { turns } = await client.ask('GET /projects/:project/turns', { query: { agent: id, limit: 10 } })
      print(flags, { ...agent, turns }, () => agentText(agent, turns))
      finish(exitCodes.ok)
    })
  return agents
}

interface Found {
  readonly agents: readonly Agent[]
  readonly more: boolean
}

async function readAgents(client: Client, { limit, busy }: ListFlags): Promise<Found> {
  const agents: Agent[] = []
  let cursor: string | null = ''
  while (cursor !== null && agents.length < limit) {
    const query = { limit: Math.min(pageMax, busy === true ? pageMax : limit - agents.length), cursor }
    const page: ResponseOf<'GET /projects/:project/agents'> = await client.ask('GET /projects/:project/agents', {
      query,
    })
    agents.push(...page.agents.filter((agent) => busy !== true || isBusy(agent)))
    cursor = page.cursor
  }
  return { agents: agents.slice(0, limit), more: cursor !== null || agents.length > limit }
}

const isBusy = ({ state, queued }: Agent) => queued > 0 || (state?.active_agent_turn_id ?? null) !== null
const doing = ({ status, state }: Agent) => (status === 'active' ? (state?.status ?? 'new') : status)
const deadline = ({ state }: Agent) =>
  (state?.waiting_tool_count ?? 0) > 0 ? (state?.resume_deadline ?? state?.turn_deadline) : state?.turn_deadline

function agentTable({ agents, more }: Found, columns: number | undefined): string {
  if (agents.length === 0) return 'No agents'
  const nowMs = systemClock.wallMs()
  // A narrow terminal shows short times, because a cut one is useless.
  const at = (time: string | null | undefined) =>
    columns === undefined || typeof time !== 'string' ? instant(time) : shortInstant(time, nowMs)
  const last = ({ last_turn: turn }: Agent) => (turn === null ? '–' : `${turn.outcome} ${at(turn.ended_at)}`)
  const rows = agents.map((agent) => [
    agent.agent_id,
    doing(agent),
    agent.state?.activity ?? '–',
    agent.state?.current_tool ?? '–',
    String(agent.state?.waiting_tool_count ?? 0),
    isBusy(agent) ? at(deadline(agent)) : '–',
    String(agent.queued),
    last(agent),
  ])
  const headings = [
    'AGENT',
    'STATUS',
    'ACTIVITY',
    'TOOL',
    'WAITS',
    columns === undefined ? 'DEADLINE (UTC)' : 'DEADLINE',
    'QUEUE',
    'LAST TURN',
  ]
  return `${table(headings, rows, columns, [0, 5, 7])}${more ? '\n… and more (--limit)' : ''}`
}

function changeLine(agent: Agent): string {
  const { state } = agent
  const details = [state?.activity, state?.current_tool, agent.queued > 0 ? `${agent.queued} queued` : undefined]
  return plain(
    [instant(state?.updated_at), agent.agent_id, doing(agent), ...details]
      .filter((field) => field !== undefined && field !== null)
      .join('  '),
  )
}

function agentText(agent: Agent, turns: readonly Turn[]): string {
  const { state } = agent
  const fields = facts([
    ['status', doing(agent)],
    ['turn', state?.active_agent_turn_id ?? '–'],
    ['activity', state?.activity ?? '–'],
    ['tool', state?.current_tool ?? '–'],
    ['waits', String(state?.waiting_tool_count ?? 0)],
    ['wait ends', instant(state?.resume_deadline)],
    ['deadline', instant(state?.turn_deadline)],
    ['queued', String(agent.queued)],
    ['worker target', agent.worker_target],
    ['profile', agent.profile_id ?? '–'],
    ['memory', agent.memory],
    ['changed', instant(state?.updated_at)],
  ])
  const list = turns.length === 0 ? 'No turns' : turnTable(turns, systemClock.wallMs(), process.stdout.columns)
  return `${plain(agent.agent_id)}\n${fields}\n\n${list}`
}

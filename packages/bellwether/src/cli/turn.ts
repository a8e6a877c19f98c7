/** `bellwether turn`: gives an agent a turn, shows one, follows one, stops one. Everything goes through the server. */
import { Command } from 'commander'
import { openClient, toServer, type Client, type ServerFlags } from './client.js'
import { exitCodes, printLine } from './explain.js'
import { wholeUpTo } from './numbers.js'

interface Turn {
  readonly agent_turn_id: string
  readonly agent_id: string
  readonly status: string
  readonly outcome: string | null
  readonly error: string | null
  readonly created_at: string
  readonly started_at: string | null
  readonly ended_at: string | null
  readonly deliverable?: { readonly content: unknown } | null
  readonly steps?: readonly Step[]
  readonly waits?: readonly Wait[]
  readonly interventions?: readonly {
    readonly kind: string
    readonly reason: string | null
    readonly created_at: string
  }[]
  readonly children?: readonly { readonly agent_turn_id: string; readonly agent_id: string }[]
}

interface Step {
  readonly step_id: string
  readonly phase: string
  readonly status: string
  readonly started_at: string
}

interface Wait {
  readonly tool_name: string
  readonly tool_call_id: string
  readonly wait_status: string
}

type Finish = (code: number) => void

// The server holds a question this long; then we ask again.
const waitSeconds = 30

export function turnCommand(finish: Finish): Command {
  const turn = new Command('turn').description('give an agent a turn, look at turns, stop one')
  toServer(turn.command('run <agent> <instruction>'))
    .description('give an agent a turn and wait for what it delivers')
    .option('--no-wait', 'do not wait for its end')
    .action(async (agent: string, instruction: string, flags: ServerFlags & { readonly wait: boolean }) => {
      const client = openClient(flags)
      const path = `/projects/${client.project}/agents/${encodeURIComponent(agent)}/turns`
      const begun = await client.ask<{ readonly agent_turn_id: string }>('POST', path, { instruction })
      if (!flags.wait) return tell(flags, begun, begun.agent_turn_id)
      finish(show(flags, await ended(client, begun.agent_turn_id)))
      return undefined
    })
  toServer(turn.command('list'))
    .description('turns, newest first')
    .option('--status <status>', 'only these')
    .option('--agent <agent>', 'only of this agent')
    .option('--limit <n>', 'how many', wholeUpTo(500, 1), 20)
    .action(
      async (flags: ServerFlags & { readonly status?: string; readonly agent?: string; readonly limit: number }) => {
        const client = openClient(flags)
        const query = new URLSearchParams({ limit: String(flags.limit) })
        if (flags.status !== undefined) query.set('status', flags.status)
        if (flags.agent !== undefined) query.set('agent', flags.agent)
        const { turns } = await client.ask<{ readonly turns: readonly Turn[] }>(
          'GET',
          `/projects/${client.project}/turns?${query.toString()}`,
        )
        for (const one of turns) tell(flags, one, line(one))
        if (turns.length === 0 && flags.json !== true) process.stdout.write('no turns\n')
      },
    )
  toServer(turn.command('show <turn>'))
    .description('what became of a turn: steps, tools, interventions, deliverable')
    .action(async (id: string, flags: ServerFlags) => {
      const client = openClient(flags)
      show(flags, await read(client, id, 0))
    })
  toServer(turn.command('watch <turn>'))
    .description('follow a turn until it ends')
    .action(async (id: string, flags: ServerFlags) => {
      finish(await watch(openClient(flags), flags, id))
    })
  toServer(turn.command('stop <turn>'))
    .description('stop a turn, or take it out of the line')
    .option('--reason <text>', 'why; it is kept with the turn')
    .action(async (id: string, flags: ServerFlags & { readonly reason?: string }) => {
      const client = openClient(flags)
      const path = `/projects/${client.project}/turns/${encodeURIComponent(id)}/stop`
      const body = flags.reason === undefined ? {} : { reason: flags.reason }
      const stopped = await client.ask<{ readonly status: string }>('POST', path, body)
      tell(flags, stopped, stopped.status)
    })
  return turn
}

function read(client: Client, id: string, wait: number): Promise<Turn> {
  return client.ask<Turn>('GET', `/projects/${client.project}/turns/${encodeURIComponent(id)}?wait=${wait}`)
}

async function ended(client: Client, id: string): Promise<Turn> {
  for (;;) {
    const turn = await read(client, id, waitSeconds)
    if (turn.ended_at !== null) return turn
  }
}

async function watch(client: Client, flags: ServerFlags, id: string): Promise<number> {
  const over = new AbortController()
  const end = ended(client, id).finally(() => over.abort())
  try {
    for await (const event of client.follow(`/projects/${client.project}/events`, over.signal)) {
      if (event['agent_turn_id'] !== id) continue
      const { kind = 'event', ...rest } = event as { readonly kind?: string }
      tell(flags, event, `${kind}  ${printable(JSON.stringify(rest))}`)
    }
  } catch (error) {
    // Our own end of the stream is no failure.
    if (!over.signal.aborted) throw error
  }
  return show(flags, await end)
}

function show(flags: ServerFlags, turn: Turn): number {
  tell(flags, turn, story(turn))
  return turn.outcome === null || turn.outcome === 'success' ? exitCodes.ok : exitCodes.failure
}

function line(turn: Turn): string {
  const state = turn.outcome ?? turn.status
  return `${turn.agent_turn_id}  ${state.padEnd(10)} ${turn.agent_id.padEnd(20)} ${turn.created_at}${turn.error === null ? '' : `  ${turn.error}`}`
}

function story(turn: Turn): string {
  return [
    line(turn),
    ...(turn.steps ?? []).map((step) => `  step      ${step.started_at}  ${step.phase} ${step.status}`),
    ...(turn.waits ?? []).map((wait) => `  tool      ${wait.tool_name} ${wait.wait_status}  ${wait.tool_call_id}`),
    ...(turn.interventions ?? []).map((one) => `  watchdog  ${one.created_at}  ${one.kind}: ${one.reason ?? ''}`),
    ...(turn.children ?? []).map((child) => `  child     ${child.agent_turn_id}  ${child.agent_id}`),
    ...(turn.deliverable === undefined || turn.deliverable === null ? [] : ['', delivered(turn.deliverable.content)]),
  ].join('\n')
}

function delivered(content: unknown): string {
  const { text, fields } = (content ?? {}) as { readonly text?: unknown; readonly fields?: unknown }
  if (typeof text === 'string') return printable(text)
  return printable(JSON.stringify(fields ?? content, null, 2))
}

/** What an agent wrote may hold control sequences: a terminal must not obey them. */
function printable(text: string): string {
  // eslint-disable-next-line no-control-regex -- they are what is looked for
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, '\u{fffd}')
}

function tell(flags: ServerFlags, facts: object, text: string): void {
  if (flags.json === true) printLine(facts as Readonly<Record<string, unknown>>)
  else process.stdout.write(`${text}\n`)
}

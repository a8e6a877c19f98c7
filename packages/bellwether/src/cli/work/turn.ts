/** `bellwether turn`: runs, lists, shows, watches and stops turns through the server. */
import { defined, systemClock, systemRandom } from '@bellwether/base'
import { InvalidInput, turnStatuses } from '@bellwether/protocol'
import type { ResponseOf, QueryFor, Turn, TurnDetail } from '@bellwether/protocol/http'
import { Command, Option } from 'commander'
import type { Client } from '../../client/client.js'
import { describeEvent, followTurn, readTurn, startTurn } from '../../client/turns.js'
import { uuidv7 } from '../../ports/ids.js'
import { openClient, toServer, withNearestAgent, type ServerFlags } from '../shared/client.js'
import { exitCodes, print, printLine } from '../shared/output.js'
import { interruptedCode, untilInterrupted } from '../shared/interrupt.js'
import { openProgress } from '../shared/live.js'
import { wholeUpTo } from '../shared/options.js'
import { readInstruction } from '../shared/instruction.js'
import { plain } from '../../client/sanitize.js'
import { instant } from '../shared/terminal.js'
import { turnTranscript, turnTable } from './turn-transcript.js'

type Finish = (code: number) => void

interface RunFlags extends ServerFlags {
  readonly wait: boolean
  readonly file?: string
  readonly maxSeconds?: number
  readonly maxTokens?: number
  readonly idempotencyKey?: string
}

interface ListFlags extends ServerFlags, Pick<QueryFor<'GET /projects/:project/turns'>, 'status' | 'agent'> {
  readonly limit: number
}

const listMax = 500
const secondsMax = 31_536_000
const tokensMax = 1_000_000_000
// The server's limit.
const instructionMaxBytes = 1_000_000

export function turnCommand(finish: Finish): Command {
  const turn = new Command('turn').description('run, list, show, watch and stop turns').helpCommand(false)
  toServer(turn.command('run <agent> [instruction]'))
    .description('run a turn and wait for its deliverable')
    .option('--file <file>', 'read the instruction from a file; - reads stdin')
    .option('--no-wait', 'print the id of the turn instead of waiting for its end')
    .option('--max-seconds <n>', 'end the turn after this many seconds', wholeUpTo(secondsMax, 1))
    .option('--max-tokens <n>', 'end the turn after it used this many tokens', wholeUpTo(tokensMax, 1))
    .option('--idempotency-key <key>', 'a repeated request with the same key returns the same turn')
    .action(async (agent: string, text: string | undefined, flags: RunFlags) => {
      finish(await run(agent, await instructionOf(text, flags), flags))
    })
  toServer(turn.command('list'))
    .description('list turns, newest first')
    .addOption(new Option('--status <status>', 'only turns with this status').choices(turnStatuses))
    .option('--agent <agent>', 'only turns of this agent')
    .option('--limit <n>', 'the maximum number of turns', wholeUpTo(listMax, 1), 20)
    .action(async (flags: ListFlags) => {
      const turns = await list(openClient(flags), flags)
      if (flags.json === true) turns.forEach(printLine)
      else process.stdout.write(turns.length === 0 ? 'No turns\n' : `${turnTable(turns, process.stdout.columns)}\n`)
    })
  toServer(turn.command('show <turn>'))
    .description('show a turn: steps, tools, interventions, deliverable')
    .action(async (id: string, flags: ServerFlags) => {
      const found = await readTurn(openClient(flags), id)
      finish(show(flags, found))
    })
  toServer(turn.command('watch <turn>'))
    .description('follow a turn until it ends')
    .action(async (id: string, flags: ServerFlags) => finish(await watch(openClient(flags), flags, id)))
  toServer(turn.command('stop <turn>'))
    .description('stop a turn, or cancel it while it is queued')
    .option('--reason <text>', 'the reason, stored with the turn')
    .action(async (id: string, flags: ServerFlags & { readonly reason?: string }) => {
      const request = { params: { turn: id }, body: { reason: flags.reason } }
      const stopped = await openClient(flags).ask('POST /projects/:project/turns/:turn/stop', request)
      print(flags, stopped, () => `${plain(id)}: ${plain(stopped.status)}`)
    })
  return turn
}

async function instructionOf(text: string | undefined, { file }: RunFlags): Promise<string> {
  if (text !== undefined && file !== undefined)
    throw new InvalidInput('Give either an instruction or --file, not both', { code: 'contradicting_options' })
  if (text !== undefined) return text
  if (file === undefined)
    throw new InvalidInput('A turn needs an instruction', {
      code: 'no_instruction',
      hint: 'write bellwether turn run AGENT "…", or give --file FILE (- reads stdin)',
    })
  return readInstruction(file, instructionMaxBytes)
}

async function run(agent: string, instruction: string, flags: RunFlags): Promise<number> {
  const client = openClient(flags)
  const { maxSeconds, maxTokens } = flags
  const budget = defined({ max_wall_ms: maxSeconds && maxSeconds * 1_000, max_tokens: maxTokens })
  const body = { instruction, ...(Object.keys(budget).length === 0 ? {} : { budget }) }
  const key = flags.idempotencyKey ?? uuidv7(systemClock, systemRandom).next()
  let id: string | undefined
  const progress = openProgress(flags.json !== true)
  const { value, interrupted } = await untilInterrupted(async (signal) => {
    const ports = { clock: systemClock, signal }
    const started = await withNearestAgent(client, agent, () => startTurn(client, agent, body, key, ports))
    id = started.agent_turn_id
    if (!flags.wait) {
      print(flags, started, () => started.agent_turn_id)
      return undefined
    }
    progress.show(`${id}  ${started.status}`)
    return followTurn(client, started.agent_turn_id, {
      ...ports,
      onEvent: (event) => progress.show(plain(`${id}  ${describeEvent(event)}`)),
    })
  }).finally(() => progress.clear())
  if (interrupted) return stillRunning(id)
  return value === undefined ? exitCodes.ok : show(flags, value)
}

/** Ctrl-C stops watching; the turn keeps running. */
function stillRunning(id: string | undefined): number {
  if (id !== undefined)
    process.stderr.write(
      `The turn keeps running. To follow or stop it: bellwether turn watch ${id}, bellwether turn stop ${id}\n`,
    )
  return interruptedCode
}

async function list(client: Client, flags: ListFlags): Promise<Turn[]> {
  const found: Turn[] = []
  let cursor: string | null | undefined
  // The server searches a bounded number of turns per page, so a page may be empty and still have a cursor.
  for (let pages = 0; cursor !== null && found.length < flags.limit && pages < pagesMax; pages += 1) {
    const query = { status: flags.status, agent: flags.agent, limit: flags.limit - found.length, cursor }
    const page: ResponseOf<'GET /projects/:project/turns'> = await client.ask('GET /projects/:project/turns', { query })
    found.push(...page.turns)
    cursor = page.cursor
  }
  return found
}

// At 5,000 turns per page, one command searches at most 100,000 turns.
const pagesMax = 20

async function watch(client: Client, flags: ServerFlags, id: string): Promise<number> {
  const { value, interrupted } = await untilInterrupted(async (signal) => {
    const first = await readTurn(client, id, 0, signal)
    if (first.ended_at === null && flags.json !== true) process.stdout.write(`${turnTranscript(first)}\n`)
    return followTurn(client, id, {
      clock: systemClock,
      signal,
      onEvent: (event) => print(flags, event, () => `  ${instant(event.created_at)}  ${plain(describeEvent(event))}`),
    })
  })
  return interrupted || value === undefined ? stillRunning(id) : show(flags, value)
}

function show(flags: ServerFlags, turn: TurnDetail): number {
  print(flags, turn, () => turnTranscript(turn))
  return turn.outcome === null || turn.outcome === 'success' ? exitCodes.ok : exitCodes.failure
}

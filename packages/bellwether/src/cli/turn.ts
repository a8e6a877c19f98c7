/** `bellwether turn`: gives an agent a turn, shows one, follows one, stops one. Everything goes through the server. */
import { readFile } from 'node:fs/promises'
import { errorMessage, systemClock, systemRandom } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { Command } from 'commander'
import type { Client } from '../client/client.js'
import { beginTurn, doing, followTurn, readTurn, type Turn, type TurnOrder } from '../client/turns.js'
import { uuidv7 } from '../ports/ids.js'
import { openClient, toServer, withNearestAgent, type ServerFlags } from './client.js'
import { exitCodes, printLine, tell } from './output.js'
import { interruptedCode, untilInterrupted } from './interrupt.js'
import { openProgress } from './live.js'
import { wholeUpTo } from './options.js'
import { readStdin } from './stdin.js'
import { plain } from '../client/sanitize.js'
import { instant } from './terminal.js'
import { turnStory, turnTable } from './turn-transcript.js'

type Finish = (code: number) => void

interface RunFlags extends ServerFlags {
  readonly wait: boolean
  readonly file?: string
  readonly maxSeconds?: number
  readonly maxTokens?: number
  readonly idempotencyKey?: string
}

interface ListFlags extends ServerFlags {
  readonly status?: string
  readonly agent?: string
  readonly limit: number
}

const listMax = 500
const secondsMax = 31_536_000
const tokensMax = 1_000_000_000
// What the server takes as an instruction.
const instructionMaxBytes = 1_000_000

export function turnCommand(finish: Finish): Command {
  const turn = new Command('turn').description('give an agent a turn, look at turns, stop one').helpCommand(false)
  toServer(turn.command('run <agent> [instruction]'))
    .description('give an agent a turn and wait for what it delivers')
    .option('--file <file>', 'read the instruction from a file; - for stdin')
    .option('--no-wait', 'do not wait for its end: print its id')
    .option('--max-seconds <n>', 'end it after so long', wholeUpTo(secondsMax, 1))
    .option('--max-tokens <n>', 'end it when it has used so many', wholeUpTo(tokensMax, 1))
    .option('--idempotency-key <key>', 'the same key again is the same turn')
    .action(async (agent: string, words: string | undefined, flags: RunFlags) => {
      finish(await run(agent, await instructionOf(words, flags), flags))
    })
  toServer(turn.command('list'))
    .description('turns, newest first')
    .option(
      '--status <status>',
      'only these: queued, dispatched, running, suspended, success, failed, timeout, canceled',
    )
    .option('--agent <agent>', 'only of this agent')
    .option('--limit <n>', 'how many', wholeUpTo(listMax, 1), 20)
    .action(async (flags: ListFlags) => {
      const turns = await list(openClient(flags), flags)
      if (flags.json === true) turns.forEach(printLine)
      else process.stdout.write(turns.length === 0 ? 'no turns\n' : `${turnTable(turns, process.stdout.columns)}\n`)
    })
  toServer(turn.command('show <turn>'))
    .description('what became of a turn: steps, tools, interventions, deliverable')
    .action(async (id: string, flags: ServerFlags) => {
      const found = await readTurn(openClient(flags), id)
      finish(show(flags, found))
    })
  toServer(turn.command('watch <turn>'))
    .description('follow a turn until it ends')
    .action(async (id: string, flags: ServerFlags) => finish(await watch(openClient(flags), flags, id)))
  toServer(turn.command('stop <turn>'))
    .description('stop a turn, or take it out of the line')
    .option('--reason <text>', 'why; it is kept with the turn')
    .action(async (id: string, flags: ServerFlags & { readonly reason?: string }) => {
      const client = openClient(flags)
      const body = flags.reason === undefined ? {} : { reason: flags.reason }
      const path = client.of(`/turns/${encodeURIComponent(id)}/stop`)
      const stopped = await client.ask<{ readonly status: string }>('POST', path, { body })
      tell(flags, stopped, () => `${plain(id)}: ${plain(stopped.status)}`)
    })
  return turn
}

async function instructionOf(words: string | undefined, { file }: RunFlags): Promise<string> {
  if (words !== undefined && file !== undefined)
    throw new InvalidInput('an instruction and --file cannot both be meant', { code: 'contradicting_options' })
  if (words !== undefined) return words
  if (file === undefined)
    throw new InvalidInput('what is the agent to do?', {
      code: 'no_instruction',
      hint: 'bellwether turn run AGENT "…", or --file FILE, or --file - for stdin',
    })
  try {
    const bytes = file === '-' ? await readStdin(instructionMaxBytes) : await readFile(file)
    if (bytes.length > instructionMaxBytes) throw new Error(`it is longer than ${instructionMaxBytes} bytes`)
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (error) {
    const why = errorMessage(error)
    throw new InvalidInput(`the instruction cannot be read from ${file}: ${why}`, { code: 'no_instruction' })
  }
}

async function run(agent: string, instruction: string, flags: RunFlags): Promise<number> {
  const client = openClient(flags)
  const { maxSeconds, maxTokens } = flags
  const budget = {
    ...(maxSeconds === undefined ? {} : { max_wall_ms: maxSeconds * 1_000 }),
    ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
  }
  const order: TurnOrder = { instruction, ...(Object.keys(budget).length === 0 ? {} : { budget }) }
  const key = flags.idempotencyKey ?? uuidv7(systemClock, systemRandom).next()
  let id: string | undefined
  const progress = openProgress(flags.json !== true)
  const { value, interrupted } = await untilInterrupted(async (signal) => {
    const ports = { clock: systemClock, signal }
    const begun = await withNearestAgent(client, agent, () => beginTurn(client, agent, order, key, ports))
    id = begun.agent_turn_id
    if (!flags.wait) {
      tell(flags, begun, () => begun.agent_turn_id)
      return undefined
    }
    progress.show(`${id}  ${begun.status}`)
    const onEvent = (event: Readonly<Record<string, unknown>>) => progress.show(plain(`${id}  ${doing(event)}`))
    return followTurn(client, id, { ...ports, onEvent })
  }).finally(() => progress.clear())
  if (interrupted) return leftAlone(id)
  return value === undefined ? exitCodes.ok : show(flags, value)
}

/** Whoever stops looking does not stop the turn. */
function leftAlone(id: string | undefined): number {
  if (id !== undefined)
    process.stderr.write(`the turn goes on: bellwether turn watch ${id}, or bellwether turn stop ${id}\n`)
  return interruptedCode
}

async function list(client: Client, flags: ListFlags): Promise<Turn[]> {
  const found: Turn[] = []
  let cursor: string | null = ''
  // A page may be short, even empty, and still have a cursor: rare turns are looked for in several steps.
  for (let pages = 0; cursor !== null && found.length < flags.limit && pages < pagesMax; pages += 1) {
    const query = new URLSearchParams({ limit: String(flags.limit - found.length) })
    if (flags.status !== undefined) query.set('status', flags.status)
    if (flags.agent !== undefined) query.set('agent', flags.agent)
    if (cursor !== '') query.set('cursor', cursor)
    const page: { readonly turns: readonly Turn[]; readonly cursor: string | null } = await client.ask(
      'GET',
      client.of(`/turns?${query.toString()}`),
    )
    found.push(...page.turns)
    cursor = page.cursor
  }
  return found
}

// 5,000 turns a page are looked at: a search through 100,000 is enough for one command.
const pagesMax = 20

async function watch(client: Client, flags: ServerFlags, id: string): Promise<number> {
  const { value, interrupted } = await untilInterrupted(async (signal) => {
    const first = await readTurn(client, id, 0, signal)
    if (first.ended_at === null && flags.json !== true) process.stdout.write(`${turnStory(first)}\n`)
    return followTurn(client, id, {
      clock: systemClock,
      signal,
      onEvent: (event) =>
        tell(flags, event, () => `  ${instant(event['created_at'] as string | undefined)}  ${plain(doing(event))}`),
    })
  })
  return interrupted || value === undefined ? leftAlone(id) : show(flags, value)
}

function show(flags: ServerFlags, turn: Turn): number {
  tell(flags, turn, () => turnStory(turn))
  return turn.outcome === null || turn.outcome === 'success' ? exitCodes.ok : exitCodes.failure
}

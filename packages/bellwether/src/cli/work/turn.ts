/** `bellwether turn`: runs, lists, shows, watches, steers and stops turns through the server. */
import { defined, linkAbort, systemClock, systemRandom } from '@bellwether/base'
import { InvalidInput, Terminal, transcriptText } from '@bellwether/protocol'
import type { ResponseOf, TranscriptEntry, Turn, TurnDetail } from '@bellwether/protocol/http'
import { Command } from 'commander'
import type { Client } from '../../client/client.js'
import { describeEvent, followTurn, followUp, readTurn, startTurn, type NewTurn } from '../../client/turns.js'
import { uuidv7 } from '../../ports/ids.js'
import { openClient, toServer, withNearestAgent, type ServerFlags } from '../shared/client.js'
import { print, printList } from '../shared/output.js'
import { untilInterrupted } from '../shared/interrupt.js'
import { jsonLines, wholeUpTo } from '../shared/options.js'
import { readInstruction } from '../shared/instruction.js'
import { block, plain } from '../../client/sanitize.js'
import { instant } from '../shared/terminal.js'
import { queueReason } from './queue-reason.js'
import { budgetOf, runStarted, show, stillRunning, type Finish, type RunFlags } from './run-started.js'
import { addTrailVerbs } from './trail.js'
import {
  bulkTurns,
  isOneTurn,
  turnFilterOf,
  turnFilters,
  withTurnBulk,
  type TurnBulkFlags,
  type TurnFilterFlags,
} from './turn-bulk.js'
import { turnTranscript, turnTable } from './turn-transcript.js'

interface ListFlags extends ServerFlags, TurnFilterFlags {
  readonly limit: number
}

const listMax = 500
const secondsMax = 31_536_000
const tokensMax = 1_000_000_000
// The server's limit.
const instructionMaxBytes = 1_000_000

export function turnCommand(finish: Finish): Command {
  const turn = new Command('turn')
    .description('run, list, show, watch, steer, continue, retry, replay, fork and stop turns')
    .helpCommand(false)
  toServer(turn.command('run <agent> [instruction]'))
    .description('run a turn and wait for its deliverable')
    .option('-F, --file <file>', 'read the instruction from a file; - reads stdin')
    .option('--no-wait', 'print the id of the turn instead of waiting for its end')
    .option('--max-seconds <n>', 'end the turn after this many seconds', wholeUpTo(secondsMax, 1))
    .option('--max-tokens <n>', 'end the turn after it has used this many tokens', wholeUpTo(tokensMax, 1))
    .option('--session <id>', 'continue this conversation, if the memory of the agent is "session"')
    .option('--idempotency-key <key>', 'a repeated request with the same key returns the same turn')
    .action(async (agent: string, text: string | undefined, flags: RunFlags) => {
      const instruction = await instructionOf(text, flags)
      finish(await run(openClient(flags), agent, { instruction, session_id: flags.session }, flags))
    })
  turnFilters(toServer(turn.command('list')))
    .description('list turns, newest first')
    .option('-n, --limit <n>', 'the maximum number of turns', wholeUpTo(listMax, 1), 20)
    .addOption(jsonLines())
    .action(async (flags: ListFlags) => {
      const turns = await list(openClient(flags), flags)
      printList(flags, { turns }, turns, () =>
        turns.length === 0 ? 'No turns' : turnTable(turns, systemClock.wallMs(), process.stdout.columns),
      )
    })
  toServer(turn.command('show <turn>'))
    .description('show a turn: steps, tools, interventions, deliverable')
    .option('-t, --transcript', 'also print what the agent wrote and did, entry by entry')
    .action(async (id: string, flags: ServerFlags & { readonly transcript?: boolean }) => {
      const client = openClient(flags)
      const found = await readTurn(client, id)
      const wanted = flags.transcript === true
      if (wanted && flags.json === true) {
        const transcript: TranscriptEntry[] = []
        await readTranscript(client, id, (entries) => transcript.push(...entries))
        return finish(show(flags, { ...found, transcript } as TurnDetail))
      }
      if (wanted) await printTranscript(client, id)
      finish(show(flags, found, await queueReason(client, found)))
    })
  toServer(turn.command('watch <turn>'))
    .description('follow a turn until it ends; with --json print only the ended turn')
    .addOption(jsonLines())
    .action(async (id: string, flags: ServerFlags) => finish(await watch(openClient(flags), flags, id)))
  withTurnBulk(toServer(turn.command('retry [turns...]')))
    .description(
      'run the same instruction again as a new turn, and wait for its deliverable; several turns are only started',
    )
    .option('--no-wait', 'print the id of the new turn instead of waiting for its end')
    .option('--max-seconds <n>', 'end the turn after this many seconds', wholeUpTo(secondsMax, 1))
    .option('--max-tokens <n>', 'end the turn after it has used this many tokens', wholeUpTo(tokensMax, 1))
    .action(async (ids: string[], flags: RunFlags & TurnBulkFlags) =>
      finish(await (isOneTurn(ids, flags) ? retry(openClient(flags), ids[0]!, flags) : bulkTurns('retry', ids, flags))),
    )
  toServer(turn.command('say <turn> [text]'))
    .description('send a message to a turn that has not ended; its agent gets it once, before its next step')
    .option('-F, --file <file>', 'read the message from a file; - reads stdin')
    .option('--now', 'interrupt a program that reads no messages while it runs; it is resumed with the message')
    .option('--wait', 'wait until the agent has got the message; fails if the turn ends before that')
    .action(async (id: string, text: string | undefined, flags: SayFlags) => {
      const body = {
        text: await instructionOf(text, flags, { usage: 'turn say TURN', missing: 'A message needs a text' }),
        message_id: uuidv7(systemClock, systemRandom).next(),
        ...defined({ now: flags.now }),
      }
      const route = 'POST /projects/:project/turns/:turn/messages'
      const client = openClient(flags)
      const sent = await client.ask(route, { params: { turn: id }, body })
      const status = flags.wait ? await delivered(client, id, sent.seq) : sent.status
      print(flags, { ...sent, status }, () => `${plain(id)}: message ${sent.seq} ${status}`)
    })
  toServer(turn.command('continue <turn> [instruction]'))
    .description('run a follow-up of an ended turn, with the same agent and session, and wait for its deliverable')
    .option('-F, --file <file>', 'read the instruction from a file; - reads stdin')
    .option('--no-wait', 'print the id of the new turn instead of waiting for its end')
    .option('--max-seconds <n>', 'end the turn after this many seconds', wholeUpTo(secondsMax, 1))
    .option('--max-tokens <n>', 'end the turn after it has used this many tokens', wholeUpTo(tokensMax, 1))
    .option('--idempotency-key <key>', 'a repeated request with the same key returns the same turn')
    .action(async (id: string, text: string | undefined, flags: RunFlags) =>
      finish(
        await continueTurn(
          openClient(flags),
          id,
          await instructionOf(text, flags, { usage: 'turn continue TURN', missing: 'A turn needs an instruction' }),
          flags,
        ),
      ),
    )
  withTurnBulk(toServer(turn.command('stop [turns...]')))
    .description('stop turns, or cancel them while they are queued')
    .option('-r, --reason <text>', 'the reason, stored with the turn')
    .action(async (ids: string[], flags: TurnBulkFlags) => {
      if (!isOneTurn(ids, flags)) return finish(await bulkTurns('stop', ids, flags))
      const [id = ''] = ids
      const request = { params: { turn: id }, body: { reason: flags.reason } }
      const stopped = await openClient(flags).ask('POST /projects/:project/turns/:turn/stop', request)
      print(flags, stopped, () => `${plain(id)}: ${plain(stopped.status)}`)
    })
  addTrailVerbs(turn, finish)
  return turn
}

type SayFlags = RunFlags & { readonly now?: boolean }

// A message waits for the next step of its agent; a check costs one read.
const lookMs = 1_000

/** Throws if the turn has ended without the message. Ctrl-C stops waiting; the message stays. */
async function delivered(client: Client, id: string, seq: number): Promise<'delivered' | 'waiting'> {
  const { value } = await untilInterrupted(async (signal) => {
    for (;;) {
      const { messages, outcome, ended_at: endedAt } = await readTurn(client, id)
      if (messages.some((one) => one.seq === seq && one.delivered_at !== null)) return 'delivered'
      if (endedAt !== null)
        throw new Terminal(`Message ${seq} was not delivered: turn ${id} has ended (${outcome})`, {
          code: 'turn_ended',
          hint: `start a follow-up turn: bellwether turn continue ${id} "…"`,
        })
      await systemClock.sleep(lookMs, signal)
      if (signal.aborted) return 'waiting'
    }
  })
  return value ?? 'waiting'
}

async function instructionOf(
  text: string | undefined,
  { file }: RunFlags,
  { usage, missing } = { usage: 'turn run AGENT', missing: 'A turn needs an instruction' },
): Promise<string> {
  if (text !== undefined && file !== undefined)
    throw new InvalidInput('Give either a text or --file, not both', { code: 'contradicting_options' })
  if (text !== undefined) return text
  if (file === undefined)
    throw new InvalidInput(missing, {
      code: 'no_instruction',
      hint: `write bellwether ${usage} "…", or give --file FILE (- reads stdin)`,
    })
  return readInstruction(file, instructionMaxBytes)
}

/** The new turn reads the same context box, so it also works for turns whose instruction was not a text. */
async function retry(client: Client, id: string, flags: RunFlags): Promise<number> {
  const { agent_id: agent, context_box_id: box, session_id: session, ended_at: endedAt } = await readTurn(client, id)
  if (endedAt === null)
    throw new InvalidInput(`Turn ${id} has not ended`, {
      code: 'turn_active',
      hint: `stop it first (bellwether turn stop ${id}), or follow it (bellwether turn watch ${id})`,
    })
  if (box === null)
    throw new InvalidInput(`Turn ${id} has no instruction to repeat`, {
      code: 'no_instruction',
      hint: `start another: bellwether turn run ${agent} "…"`,
    })
  return run(client, agent, { context_box_id: box, session_id: session ?? undefined }, flags)
}

/** A follow-up of an ended turn. */
async function continueTurn(client: Client, id: string, instruction: string, flags: RunFlags): Promise<number> {
  const { agent_id: agent } = await readTurn(client, id)
  const body = { instruction, ...budgetOf(flags) }
  return runStarted(client, agent, flags, (key, ports) => followUp(client, id, body, key, ports))
}

function run(client: Client, agent: string, what: NewTurn, flags: RunFlags): Promise<number> {
  const body = { ...what, ...budgetOf(flags) }
  return runStarted(client, agent, flags, (key, ports) =>
    withNearestAgent(client, agent, () => startTurn(client, agent, body, key, ports)),
  )
}

async function list(client: Client, flags: ListFlags): Promise<Turn[]> {
  const filter = turnFilterOf(flags)
  const found: Turn[] = []
  let cursor: string | null | undefined
  // The server searches a bounded number of turns per page, so a page may be empty and still have a cursor.
  for (let pages = 0; cursor !== null && found.length < flags.limit && pages < pagesMax; pages += 1) {
    const query = { ...filter, limit: flags.limit - found.length, cursor }
    const page: ResponseOf<'GET /projects/:project/turns'> = await client.ask('GET /projects/:project/turns', { query })
    found.push(...page.turns)
    cursor = page.cursor
  }
  return found
}

// At 1,000 to 5,000 turns per page, one command searches at least 20,000 turns and at most 100,000.
const pagesMax = 20

/** Prints the entries so far. */
async function printTranscript(client: Client, id: string): Promise<void> {
  const print = transcriptPrinter()
  await readTranscript(client, id, (entries) => print.entries(entries))
  print.end()
}

async function readTranscript(
  client: Client,
  id: string,
  each: (entries: readonly TranscriptEntry[]) => void,
): Promise<void> {
  for (let after: number | null = 0; after !== null;) {
    const page: ResponseOf<'GET /projects/:project/turns/:turn/transcript'> = await client.ask(
      'GET /projects/:project/turns/:turn/transcript',
      { params: { turn: id }, query: { after, limit: 500 } },
    )
    each(page.entries)
    after = page.cursor
  }
}

/** Text without characters that control the terminal. */
function transcriptPrinter() {
  const text = transcriptText()
  return {
    entries: (entries: readonly TranscriptEntry[]) => void process.stdout.write(block(text.add(entries))),
    end: () => void process.stdout.write(text.end()),
  }
}

/** Prints entries until the turn ends. A server that lacks the route, or an outage, ends it; the wait for the turn continues. */
async function followTranscript(client: Client, id: string, signal: AbortSignal): Promise<void> {
  const print = transcriptPrinter()
  try {
    const stream = client.follow('GET /projects/:project/turns/:turn/transcript/events', {
      params: { turn: id },
      signal,
    })
    for await (const { event, data } of stream) {
      if (event === 'end') break
      print.entries([data])
    }
  } catch (error) {
    if (!(error instanceof Terminal) && !signal.aborted) throw error
  } finally {
    print.end()
  }
}

// The end of the turn ends the stream at once; a server that is away must not keep the command.
const lastEntriesMs = 5_000

async function watch(client: Client, flags: ServerFlags, id: string): Promise<number> {
  const { value, interrupted } = await untilInterrupted(async (signal) => {
    const first = await readTurn(client, id, 0, signal)
    const isText = flags.json !== true && flags.jsonl !== true
    if (first.ended_at === null && isText)
      process.stdout.write(`${turnTranscript(first, systemClock.wallMs(), await queueReason(client, first))}\n`)
    const link = linkAbort(signal)
    const transcript = isText ? followTranscript(client, id, link.signal) : undefined
    const as = { json: flags.jsonl === true }
    const ended = await followTurn(client, id, {
      clock: systemClock,
      signal,
      onEvent: (event) => {
        if (flags.json !== true)
          print(as, event, () => `  ${instant(event.created_at)}  ${plain(describeEvent(event))}`)
      },
    })
    await Promise.race([transcript, systemClock.sleep(lastEntriesMs, link.signal)])
    link.abort()
    return ended
  })
  const as = { ...flags, json: flags.json === true || flags.jsonl === true }
  return interrupted || value === undefined ? stillRunning(id) : show(as, value)
}

/** `bellwether watchdog`: lists, counts and follows the interventions of the watchdogs. */
import { systemClock } from '@bellwether/base'
import { Retryable, shortened } from '@bellwether/protocol'
import type { ResponseOf, Intervention } from '@bellwether/protocol/http'
import { Command } from 'commander'
import type { Client } from '../../client/client.js'
import { openClient, toServer, type ServerFlags } from '../shared/client.js'
import { asStream, print, printList, printOutage } from '../shared/output.js'
import { untilInterrupted } from '../shared/interrupt.js'
import { jsonLines, wholeUpTo } from '../shared/options.js'
import { plain } from '../../client/sanitize.js'
import { sinceOption, untilOption } from '../shared/instants.js'
import { facts, instant, table } from '../shared/terminal.js'

interface Flags extends ServerFlags {
  readonly kind?: string
  readonly limit: number
  readonly follow?: boolean
  readonly counts?: boolean
  readonly since?: number
  readonly until?: number
}

const pageMax = 500
const limitMax = 10_000
const everyMs = 1_000

export function watchdogCommand(): Command {
  return toServer(new Command('watchdog'), 'all projects that the key can read')
    .description('list the interventions of the watchdogs, newest first')
    .option('--kind <kind>', 'only interventions of this kind')
    .option('-n, --limit <n>', 'the maximum number of interventions', wholeUpTo(limitMax, 1), 50)
    .option('--counts', 'count the newest 10000 (or --limit) by kind')
    .option('-f, --follow', 'keep printing new interventions until Ctrl-C')
    .addOption(sinceOption('interventions'))
    .addOption(untilOption('interventions'))
    .addOption(jsonLines())
    .action(async (flags: Flags, command: Command) => {
      const as = flags.follow === true ? asStream(flags) : flags
      const client = openClient(flags)
      if (flags.counts === true) {
        const isSet = command.getOptionValueSource('limit') === 'cli'
        return count(client, { ...flags, limit: isSet ? flags.limit : limitMax })
      }
      const { found, more } = await newest(client, flags)
      if (flags.follow === true) return follow(client, flags, found, as)
      return printList(flags, { interventions: found, more }, found, () => {
        const text = found.length === 0 ? 'No interventions' : interventionTable(found)
        return `${text}${more ? '\n… and more (--limit)' : ''}`
      })
    })
}

/** Newest first, down to but without `after`. */
async function newest(client: Client, flags: Flags, after = -1): Promise<{ found: Intervention[]; more: boolean }> {
  const { project, kind } = flags
  const found: Intervention[] = []
  let cursor: number | undefined
  for (;;) {
    const query = { project, kind, limit: Math.min(pageMax, flags.limit - found.length), cursor }
    const page: ResponseOf<'GET /watchdog/interventions'> = await client.ask('GET /watchdog/interventions', { query })
    const fresh = page.interventions.filter(
      (one) => one.intervention_id > after && Date.parse(one.created_at) >= (flags.since ?? -Infinity),
    )
    found.push(...fresh.filter((one) => Date.parse(one.created_at) <= (flags.until ?? Infinity)))
    if (page.cursor === null || page.cursor <= after || fresh.length < page.interventions.length)
      return { found, more: false }
    if (found.length >= flags.limit) return { found, more: true }
    cursor = page.cursor
  }
}

async function follow(
  client: Client,
  flags: Flags,
  first: readonly Intervention[],
  as: { readonly json?: boolean },
): Promise<void> {
  let last = first[0]?.intervention_id ?? 0
  await untilInterrupted(async (signal) => {
    let away = false
    for (const one of first.toReversed()) print(as, one, () => line(one))
    for (;;) {
      await systemClock.sleep(everyMs, signal)
      if (signal.aborted) return
      try {
        const { found, more } = await newest(client, { ...flags, limit: limitMax }, last)
        away = false
        if (more) process.stderr.write(`more than ${limitMax} new interventions: the oldest are not shown\n`)
        for (const one of found.toReversed()) print(as, one, () => line(one))
        last = Math.max(last, ...found.map((one) => one.intervention_id))
      } catch (error) {
        if (!(error instanceof Retryable)) throw error
        if (!away) printOutage(error)
        away = true
      }
    }
  })
}

async function count(client: Client, flags: Flags): Promise<void> {
  const { found, more } = await newest(client, flags)
  const counts: Record<string, number> = {}
  for (const { kind } of found) counts[kind] = (counts[kind] ?? 0) + 1
  const rows = Object.entries(counts).sort(([, left], [, right]) => right - left)
  const summary = {
    counts,
    total: found.length,
    more,
    from: found.at(-1)?.created_at ?? null,
    to: found[0]?.created_at ?? null,
  }
  print(flags, summary, () =>
    [
      found.length === 0
        ? 'No interventions'
        : `${found.length}${more ? ' (the newest of more)' : ''} from ${instant(summary.from)} to ${instant(summary.to)} UTC`,
      facts(rows.map(([kind, number]) => [kind, String(number)])),
    ].join('\n'),
  )
}

function interventionTable(found: readonly Intervention[]): string {
  const rows = found.map((one) => [
    instant(one.created_at),
    one.kind,
    one.agent_id ?? '–',
    one.agent_turn_id ?? '–',
    one.reason,
    difference(one),
  ])
  return table(['TIME (UTC)', 'KIND', 'AGENT', 'TURN', 'REASON', 'CHANGE'], rows, process.stdout.columns, [3])
}

function line(one: Intervention): string {
  const fields = [
    instant(one.created_at),
    one.kind,
    one.agent_id,
    one.agent_turn_id,
    `${one.reason}  ${difference(one)}`,
  ]
  return plain(fields.filter((field) => field !== null).join('  ')).trimEnd()
}

/** The changed fields, as in `status suspended → failed`. */
function difference({ before, after }: Intervention): string {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])]
  return names
    .filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]))
    .map((name) => `${name} ${short(before[name])} → ${short(after[name])}`)
    .join(', ')
}

const shortMax = 60
function short(value: unknown): string {
  const text = value === undefined || value === null ? '–' : typeof value === 'string' ? value : JSON.stringify(value)
  return shortened(text, shortMax)
}

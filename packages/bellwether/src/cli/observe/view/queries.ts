/** `bellwether view tree|search|stats|blind-spots|sessions|changes`: queries a view of a running server. File names are untrusted text. */
import { systemClock } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import type { ViewChange } from '@bellwether/protocol/http'
import type { Command } from 'commander'
import type { Client } from '../../../client/client.js'
import { plain } from '../../../client/sanitize.js'
import { backoffMs, reconnectBackoff } from '../../../ports/retry.js'
import { openClient, serverOptions, type ServerFlags } from '../../shared/client.js'
import { print, printLine } from '../../shared/output.js'
import { untilInterrupted } from '../../shared/interrupt.js'
import { wholeUpTo } from '../../shared/options.js'
import { bytes, facts, instant, table } from '../../shared/terminal.js'
import type { Entry } from '@bellwether/protocol/http'
import { entryTable, treeLines, type Node } from './entries.js'

interface QueryFlags extends Omit<ServerFlags, 'project'> {
  readonly view: string
  readonly source?: string
}

const limitMax = 10_000
const depthMax = 1_000

/** A subcommand with the options that all queries share. */
function query(view: Command, name: string, description: string): Command {
  return serverOptions(view.command(name))
    .description(description)
    .option('--view <name>', 'the view', 'project')
    .option('--source <id>', 'the source, if the view has several')
    .option('--json', 'print the JSON response of the server')
}

/** Sends a query to one view. */
function ask<T>(
  client: Client,
  flags: QueryFlags,
  name: string,
  more: Readonly<Record<string, string | undefined>> = {},
) {
  const parameters = new URLSearchParams()
  for (const [key, value] of Object.entries({ source: flags.source, ...more }))
    if (value !== undefined) parameters.set(key, value)
  return client.ask<T>('GET', `/views/${encodeURIComponent(flags.view)}/${name}?${parameters.toString()}`)
}

export function queryCommands(view: Command): void {
  query(view, 'tree [path]', 'show the files and directories under a path')
    .option('--depth <n>', 'the number of levels', wholeUpTo(depthMax, 1), 2)
    .option('--limit <n>', 'the maximum number of lines', wholeUpTo(1_000_000, 1), 500)
    .action(async (path: string | undefined, flags: QueryFlags & { depth: number; limit: number }) => {
      const more = { path: path ?? '/', max_depth: String(flags.depth) }
      const tree = await ask<Node>(openClient(flags), flags, 'tree', more)
      print(flags, tree, () => treeLines(tree, flags.limit))
    })
  query(view, 'search <pattern>', 'find entries by a part of their name, or by a glob such as "*.ts" or "/src/**/*.md"')
    .option('--path <dir>', 'search only below this directory')
    .option('--limit <n>', 'the maximum number of results', wholeUpTo(limitMax, 1), 100)
    .action(async (pattern: string, flags: QueryFlags & { path?: string; limit: number }) => {
      const more = { pattern, path: flags.path, limit: String(flags.limit) }
      const found = await ask<Found>(openClient(flags), flags, 'search', more)
      print(flags, found, () => {
        if (found.results.length === 0) return 'No results'
        return `${entryTable(found.results, process.stdout.columns)}${found.truncated ? '\n… and more (--limit)' : ''}`
      })
    })
  query(view, 'stats', 'show the number of entries, their freshness, suspects and blind spots').action(
    async (flags: QueryFlags) => {
      const stats = await ask<Stats>(openClient(flags), flags, 'stats')
      print(flags, stats, () => formatStats(stats))
    },
  )
  query(view, 'blind-spots', 'list changes that no sensor saw happen').action(async (flags: QueryFlags) => {
    const spots = await ask<BlindSpots>(openClient(flags), flags, 'blind-spots')
    print(flags, spots, () =>
      [
        `${spots.additions_count} unseen additions, ${spots.deletion_count} unseen deletions`,
        ...spots.additions.map((path) => `+ ${plain(path)}`),
        ...spots.deletions.map((path) => `- ${plain(path)}`),
      ].join('\n'),
    )
  })
  query(view, 'sessions', 'list the sensors that feed the view').action(async (flags: QueryFlags) => {
    const answer = await ask<{ readonly sessions: readonly Session[] }>(openClient(flags), flags, 'sessions')
    print(flags, answer, () => {
      if (answer.sessions.length === 0) return 'No sensor is connected'
      const rows = answer.sessions.map((one) => [
        one.agent_id ?? '–',
        one.role,
        one.source_id ?? '–',
        one.source_uri ?? '–',
        one.client_ip ?? '–',
        instant(one.created_at),
        `${one.silent_seconds.toFixed(1)} s`,
      ])
      return table(
        ['SENSOR', 'ROLE', 'SOURCE', 'ROOT', 'FROM', 'SINCE (UTC)', 'LAST CONTACT'],
        rows,
        process.stdout.columns,
      )
    })
  })
  query(view, 'changes', 'list changes since a token; without a token, print the current one')
    .option('--since <token>', 'the token of an earlier response')
    .option('--follow', 'print changes as they happen, until Ctrl-C')
    .action(async (flags: QueryFlags & { since?: string; follow?: boolean }) => {
      const client = openClient(flags)
      if (flags.follow === true) return follow(client, flags, flags.since)
      const answer = await ask<Changes>(client, flags, 'changes', { since: flags.since })
      return print(flags, answer, () => formatChanges(answer, flags.since !== undefined))
    })
}

interface Found {
  readonly results: readonly Entry[]
  readonly truncated: boolean
}

interface BlindSpots {
  readonly additions_count: number
  readonly additions: readonly string[]
  readonly deletion_count: number
  readonly deletions: readonly string[]
}

interface Session {
  readonly agent_id: string | null
  readonly role: string
  readonly source_id: string | null
  readonly source_uri: string | null
  readonly client_ip: string | null
  readonly created_at: number
  readonly silent_seconds: number
}

interface Changes {
  readonly fresh_instance: boolean
  readonly changes: readonly ViewChange[]
  readonly token: string
  readonly more: boolean
}

interface Stats {
  readonly total_files: number
  readonly total_directories: number
  readonly total_size: number
  readonly latest_mtime: number
  readonly staleness_seconds: number | null
  readonly suspect_file_count: number
  readonly has_blind_spot: boolean
  readonly last_audit_finished_at: number | null
  readonly is_auditing: boolean
  readonly full: boolean
  readonly sessions?: number
  readonly sources?: Readonly<Record<string, unknown>>
}

function formatStats(stats: Stats): string {
  const lastUpdate = stats.staleness_seconds === null ? 'never' : `${stats.staleness_seconds.toFixed(0)} s ago`
  return facts([
    ['files', String(stats.total_files)],
    ['directories', String(stats.total_directories)],
    ['size', bytes(stats.total_size)],
    ['newest file', instant(stats.latest_mtime)],
    ['last update', lastUpdate],
    ['suspects', String(stats.suspect_file_count)],
    ['blind spots', stats.has_blind_spot ? 'yes: bellwether view blind-spots' : 'none'],
    ['last audit', `${instant(stats.last_audit_finished_at)}${stats.is_auditing ? ', another is running' : ''}`],
    ['sensors', String(stats.sessions ?? '–')],
    ['sources', Object.keys(stats.sources ?? {}).join(', ') || '–'],
    ...(stats.full ? [['full', 'yes: entries were rejected, so the tree is incomplete'] as const] : []),
  ])
}

const changeLine = ({ kind, path, is_directory: isDirectory }: ViewChange) =>
  plain(`${kind === 'removed' ? '-' : '+'} ${path}${isDirectory && path !== '/' ? '/' : ''}`)

function formatChanges({ fresh_instance: fresh, changes, token, more }: Changes, hasToken: boolean): string {
  const lines = changes.map(changeLine)
  if (fresh && hasToken) lines.push('The token is too old or from another run. Read the tree again.')
  else if (hasToken && lines.length === 0) lines.push('No changes')
  if (more) lines.push('There are more changes: repeat with the next token.')
  return [...lines, `next: --since ${plain(token)}`].join('\n')
}

/** Reconnects at the last event id, so it misses no change or reports a reset. */
async function follow(client: Client, flags: QueryFlags, since: string | undefined): Promise<void> {
  const path = `/views/${encodeURIComponent(flags.view)}/events${flags.source === undefined ? '' : `?source=${encodeURIComponent(flags.source)}`}`
  let last = since
  let failures = 0
  await untilInterrupted(async (signal) => {
    while (!signal.aborted) {
      try {
        for await (const { id, event, data } of client.follow(path, signal, last)) {
          failures = 0
          last = id ?? last
          if (flags.json === true) printLine({ event, ...data })
          else if (event === 'reset') process.stdout.write('Some changes were lost. Read the tree again.\n')
          else
            for (const one of (data['changes'] ?? []) as readonly ViewChange[])
              process.stdout.write(`${changeLine(one)}\n`)
        }
      } catch (error) {
        if (!(error instanceof Retryable)) throw error
        if (failures === 0) process.stderr.write(`${plain(error.message)}; retrying\n`)
      }
      failures += 1
      await systemClock.sleep(backoffMs({ backoff: reconnectBackoff }, failures), signal)
    }
  })
}

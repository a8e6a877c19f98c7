/** `bellwether view tree|search|stats|blind-spots|sessions|changes`: questions to a view of a running server. Names of files are hostile text. */
import { systemClock } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import type { Command } from 'commander'
import type { Client } from '../../client/client.js'
import { plain } from '../../client/sanitize.js'
import { backoffMs, reconnectBackoff } from '../../ports/retry.js'
import { openClient, serverOptions, type ServerFlags } from '../client.js'
import { print, printLine } from '../output.js'
import { untilInterrupted } from '../interrupt.js'
import { wholeUpTo } from '../options.js'
import { bytes, facts, instant, table } from '../terminal.js'
import type { Entry } from '../../client/entry.js'
import { entryTable, treeLines, type Node } from './entries.js'

interface LookFlags extends Omit<ServerFlags, 'project'> {
  readonly view: string
  readonly source?: string
}

const limitMax = 10_000
const depthMax = 1_000

/** The options of a question to a view. */
function question(view: Command, name: string, description: string): Command {
  return serverOptions(view.command(name))
    .description(description)
    .option('--view <name>', 'the view', 'project')
    .option('--source <id>', 'the source, where the view has several')
    .option('--json', 'print the answer as the server gives it')
}

/** A question to one view: its path and what narrows it. */
function ask<T>(
  client: Client,
  flags: LookFlags,
  name: string,
  more: Readonly<Record<string, string | undefined>> = {},
) {
  const query = new URLSearchParams()
  for (const [key, value] of Object.entries({ source: flags.source, ...more }))
    if (value !== undefined) query.set(key, value)
  return client.ask<T>('GET', `/views/${encodeURIComponent(flags.view)}/${name}?${query.toString()}`)
}

export function lookCommands(view: Command): void {
  question(view, 'tree [path]', 'the files and directories under a path')
    .option('--depth <n>', 'how many levels', wholeUpTo(depthMax, 1), 2)
    .option('--limit <n>', 'print at most so many lines', wholeUpTo(1_000_000, 1), 500)
    .action(async (path: string | undefined, flags: LookFlags & { depth: number; limit: number }) => {
      const more = { path: path ?? '/', max_depth: String(flags.depth) }
      const tree = await ask<Node>(openClient(flags), flags, 'tree', more)
      print(flags, tree, () => treeLines(tree, flags.limit))
    })
  question(view, 'search <pattern>', 'entries by name: a part of it, or a glob such as "*.ts" or "/src/**/*.md"')
    .option('--path <dir>', 'only below this directory')
    .option('--limit <n>', 'at most so many', wholeUpTo(limitMax, 1), 100)
    .action(async (pattern: string, flags: LookFlags & { path?: string; limit: number }) => {
      const more = { pattern, path: flags.path, limit: String(flags.limit) }
      const found = await ask<Found>(openClient(flags), flags, 'search', more)
      print(flags, found, () => {
        if (found.results.length === 0) return 'nothing found'
        return `${entryTable(found.results, process.stdout.columns)}${found.truncated ? '\n… and more (--limit)' : ''}`
      })
    })
  question(view, 'stats', 'how much there is, how fresh it is, and what is doubtful').action(
    async (flags: LookFlags) => {
      const stats = await ask<Stats>(openClient(flags), flags, 'stats')
      print(flags, stats, () => statsStory(stats))
    },
  )
  question(view, 'blind-spots', 'what changed where no sensor was watching').action(async (flags: LookFlags) => {
    const spots = await ask<BlindSpots>(openClient(flags), flags, 'blind-spots')
    print(flags, spots, () =>
      [
        `${spots.additions_count} appeared unseen, ${spots.deletion_count} went unseen`,
        ...spots.additions.map((path) => `+ ${plain(path)}`),
        ...spots.deletions.map((path) => `- ${plain(path)}`),
      ].join('\n'),
    )
  })
  question(view, 'sessions', 'the sensors that feed the view').action(async (flags: LookFlags) => {
    const answer = await ask<{ readonly sessions: readonly Session[] }>(openClient(flags), flags, 'sessions')
    print(flags, answer, () => {
      if (answer.sessions.length === 0) return 'no sensor is connected'
      const rows = answer.sessions.map((one) => [
        one.agent_id ?? '–',
        one.role,
        one.source_id ?? '–',
        one.source_uri ?? '–',
        one.client_ip ?? '–',
        instant(one.created_at),
        `${one.silent_seconds.toFixed(1)} s`,
      ])
      return table(['SENSOR', 'ROLE', 'SOURCE', 'ROOT', 'FROM', 'SINCE (UTC)', 'SILENT'], rows, process.stdout.columns)
    })
  })
  question(view, 'changes', 'what changed since a token; without one, the token of now')
    .option('--since <token>', 'the token of an earlier answer')
    .option('--follow', 'show changes as they come, until Ctrl-C')
    .action(async (flags: LookFlags & { since?: string; follow?: boolean }) => {
      const client = openClient(flags)
      if (flags.follow === true) return follow(client, flags, flags.since)
      const answer = await ask<Changes>(client, flags, 'changes', { since: flags.since })
      return print(flags, answer, () => changesStory(answer, flags.since !== undefined))
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

interface Change {
  readonly path: string
  readonly kind: string
  readonly isDirectory?: boolean
}

interface Changes {
  readonly fresh_instance: boolean
  readonly changes: readonly Change[]
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

function statsStory(stats: Stats): string {
  const heard = stats.staleness_seconds === null ? 'never' : `${stats.staleness_seconds.toFixed(0)} s ago`
  return facts([
    ['files', String(stats.total_files)],
    ['directories', String(stats.total_directories)],
    ['size', bytes(stats.total_size)],
    ['newest', instant(stats.latest_mtime)],
    ['last heard of', heard],
    ['maybe unfinished', String(stats.suspect_file_count)],
    ['blind spots', stats.has_blind_spot ? 'yes: bellwether view blind-spots' : 'none'],
    ['last audit', `${instant(stats.last_audit_finished_at)}${stats.is_auditing ? ', and one is under way' : ''}`],
    ['sensors', String(stats.sessions ?? '–')],
    ['sources', Object.keys(stats.sources ?? {}).join(', ') || '–'],
    ...(stats.full ? [['full', 'yes: entries were refused, the tree is not complete'] as const] : []),
  ])
}

const changeLine = ({ kind, path, isDirectory }: Change) =>
  plain(`${kind === 'removed' ? '-' : '+'} ${path}${isDirectory === true && path !== '/' ? '/' : ''}`)

function changesStory({ fresh_instance: fresh, changes, token, more }: Changes, asked: boolean): string {
  const lines = changes.map(changeLine)
  if (fresh && asked) lines.push('the token is too old or of another run: read the tree again')
  else if (asked && lines.length === 0) lines.push('nothing changed')
  if (more) lines.push('there is more: ask again with the next token')
  return [...lines, `next: --since ${plain(token)}`].join('\n')
}

/** Goes on where it was cut; nothing is missed, or it is said. */
async function follow(client: Client, flags: LookFlags, since: string | undefined): Promise<void> {
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
          else if (event === 'reset') process.stdout.write('what lies between is gone: read the tree again\n')
          else
            for (const one of (data['changes'] ?? []) as readonly Change[]) process.stdout.write(`${changeLine(one)}\n`)
        }
      } catch (error) {
        if (!(error instanceof Retryable)) throw error
        if (failures === 0) process.stderr.write(`${plain(error.message)}; trying again\n`)
      }
      failures += 1
      await systemClock.sleep(backoffMs({ backoff: reconnectBackoff }, failures), signal)
    }
  })
}

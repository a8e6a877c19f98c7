/**
 * `bellwether view tree|scan|search|stats|blind-spots|suspects|sessions|changes|sync|diff`: queries a view of a running server. File names are
 * untrusted text.
 */
import type { ResponseOf, ViewChange } from '@bellwether/protocol/http'
import { defined } from '@bellwether/base'
import type { Command } from 'commander'
import type { Client } from '../../../client/client.js'
import { plain } from '../../../client/sanitize.js'
import { openClient, serverOptions, type ServerFlags } from '../../shared/client.js'
import { asStream, print, printLine, printList, printOutage } from '../../shared/output.js'
import { untilInterrupted } from '../../shared/interrupt.js'
import { jsonLines, wholeUpTo } from '../../shared/options.js'
import { bytes, facts, instant, table } from '../../shared/terminal.js'
import { entryTable, treeLines } from './entries.js'

interface QueryFlags extends Omit<ServerFlags, 'project'> {
  readonly view: string
  readonly source?: string
}

const limitMax = 10_000
const depthMax = 1_000
// The server lowers longer waits to this.
const waitMax = 25

interface ScanFlags {
  readonly depth: number
  readonly limit: number
  readonly recursive?: boolean
  readonly wait: number
}

/** A subcommand with the options that all queries share. */
function query(view: Command, name: string, description: string): Command {
  return serverOptions(view.command(name))
    .description(description)
    .option('--view <name>', 'the view', 'project')
    .option('--source <id>', 'the source, if the view has several')
    .option('--json', 'print one JSON object')
}

const list = (view: Command, name: string, description: string) => query(view, name, description).addOption(jsonLines())

/** The view and the source of the flags, with the rest of the query. */
const ofView = <Query extends object>({ view, source }: QueryFlags, query?: Query) => ({
  params: { view },
  query: { source, ...query } as Query & { readonly source: string | undefined },
})

export function queryCommands(view: Command): void {
  query(view, 'tree [path]', 'show the files and directories under a path')
    .option('--depth <n>', 'the number of levels', wholeUpTo(depthMax, 1), 2)
    .option('-n, --limit <n>', 'the maximum number of lines', wholeUpTo(1_000_000, 1), 500)
    .option('--fields <names>', 'with --json: the fields of an entry besides path and type, such as name,size')
    .action(async (path: string | undefined, flags: QueryFlags & { depth: number; limit: number; fields?: string }) => {
      const { fields } = flags
      const request = ofView(flags, { path: path ?? '/', max_depth: flags.depth, ...defined({ fields }) })
      const tree = await openClient(flags).ask('GET /views/:view/tree', request)
      print(flags, tree, () => treeLines(tree, flags.limit))
    })
  query(view, 'scan [path]', 'have a sensor read a path from disk now, then show it')
    .option('--depth <n>', 'the number of levels to show', wholeUpTo(depthMax, 1), 1)
    .option('-n, --limit <n>', 'the maximum number of lines', wholeUpTo(1_000_000, 1), 500)
    .option('--recursive', 'read everything below the path, too')
    .option('--wait <seconds>', 'how long to wait for the sensor', wholeUpTo(waitMax), 20)
    .action(async (path: string | undefined, flags: QueryFlags & ScanFlags) => {
      const scan = { 'force-real-time': true, recursive: flags.recursive === true, wait: flags.wait }
      const request = ofView(flags, { path: path ?? '/', max_depth: flags.depth, ...scan })
      const tree = await openClient(flags).ask('GET /views/:view/tree', request)
      print(flags, tree, () => {
        const notes = [
          ...(tree.job_pending ? ['The scan is still running; this is what the view knows so far.'] : []),
          ...('direct' in tree && tree.direct === true ? ['The pipe failed; this is what the sensor reported.'] : []),
        ]
        return [treeLines(tree, flags.limit), ...notes].join('\n')
      })
    })
  list(view, 'search <pattern>', 'find entries by a part of their name, or by a glob such as "*.ts" or "/src/**/*.md"')
    .option('--path <dir>', 'search only below this directory')
    .option('-n, --limit <n>', 'the maximum number of results', wholeUpTo(limitMax, 1), 100)
    .action(async (pattern: string, flags: QueryFlags & { path?: string; limit: number }) => {
      const request = ofView(flags, { pattern, path: flags.path, limit: flags.limit })
      const found = await openClient(flags).ask('GET /views/:view/search', request)
      printList(flags, found, found.results, () => {
        if (found.results.length === 0) return 'No results'
        return `${entryTable(found.results, process.stdout.columns)}${found.truncated ? '\n… and more (--limit)' : ''}`
      })
    })
  query(view, 'stats', 'show the number of entries, their freshness, suspects and blind spots').action(
    async (flags: QueryFlags) => {
      const stats = await openClient(flags).ask('GET /views/:view/stats', ofView(flags))
      print(flags, stats, () => formatStats(stats as Stats))
    },
  )
  list(view, 'blind-spots', 'list changes that no sensor saw happen').action(async (flags: QueryFlags) => {
    const spots = await openClient(flags).ask('GET /views/:view/blind-spots', ofView(flags))
    const items = [
      ...spots.additions.map((path) => ({ kind: 'added', path })),
      ...spots.deletions.map((path) => ({ kind: 'removed', path })),
    ]
    printList(flags, spots, items, () =>
      [
        `${spots.additions_count} unseen additions, ${spots.deletion_count} unseen deletions`,
        ...items.map(({ kind, path }) => `${kind === 'added' ? '+' : '-'} ${plain(path)}`),
      ].join('\n'),
    )
  })
  list(view, 'suspects', 'list files that may be incomplete').action(async (flags: QueryFlags) => {
    const { count, suspects } = await openClient(flags).ask('GET /views/:view/suspect-list', ofView(flags))
    printList(flags, { count, suspects }, suspects, () => {
      if (count === 0) return 'No suspects'
      const rows = suspects.map((suspect) => [
        suspect.path,
        instant(suspect.mtime),
        `${suspect.expires_in_seconds.toFixed(0)} s`,
      ])
      return table(['PATH', 'CHANGED (UTC)', 'CHECKED IN'], rows, process.stdout.columns)
    })
  })
  query(view, 'sync', 'wait until the view has applied everything that its sensors saw before now')
    .option('--wait <seconds>', 'how long to wait', wholeUpTo(waitMax), 10)
    .action(async (flags: QueryFlags & { wait: number }) => {
      const end = await openClient(flags).ask('POST /views/:view/sync', ofView(flags, { wait: flags.wait }))
      print(flags, end, () =>
        end.synced
          ? `Synced: ${end.passed} of ${end.sensors} sensors confirmed`
          : `Not synced: ${end.passed} of ${end.sensors} sensors confirmed; missing sessions: ${end.missing.join(', ')}`,
      )
    })
  list(view, 'diff <left> <right>', 'compare two sources of a view')
    .option('-n, --limit <n>', 'the maximum number of differences', wholeUpTo(limitMax, 1), 100)
    .action(async (left: string, right: string, flags: QueryFlags & { limit: number }) => {
      const request = { params: { view: flags.view }, query: { left, right, limit: flags.limit } }
      const response = await openClient(flags).ask('GET /views/:view/diff', request)
      printList(flags, response, response.differences, () => {
        if (response.differences.length === 0) return 'No differences'
        const lines = response.differences.map(({ path, kind }) => `${kind.padEnd(10)} ${plain(path)}`)
        return `${lines.join('\n')}${response.truncated ? '\n… and more (--limit)' : ''}`
      })
    })
  list(view, 'sessions', 'list the sensors that feed the view').action(async (flags: QueryFlags) => {
    const response = await openClient(flags).ask('GET /views/:view/sessions', { params: { view: flags.view } })
    printList(flags, response, response.sessions, () => {
      if (response.sessions.length === 0) return 'No sensor is connected'
      const rows = response.sessions.map((session) => [
        session.agent_id,
        session.role,
        session.source_id,
        session.source_uri ?? '–',
        session.client_ip,
        instant(session.created_at),
        `${session.silent_seconds.toFixed(1)} s`,
      ])
      return table(
        ['SENSOR', 'ROLE', 'SOURCE', 'ROOT', 'FROM', 'SINCE (UTC)', 'LAST CONTACT'],
        rows,
        process.stdout.columns,
      )
    })
  })
  list(view, 'changes', 'list changes since a token; without a token, print the current one')
    .option('--since <token>', 'the token of an earlier response')
    .option('-f, --follow', 'print changes as they happen, until Ctrl-C')
    .action(async (flags: QueryFlags & { since?: string; follow?: boolean }) => {
      const client = openClient(flags)
      if (flags.follow === true) return follow(client, flags, flags.since, asStream(flags))
      const response = await client.ask('GET /views/:view/changes', ofView(flags, { since: flags.since }))
      return printList(flags, response, response.changes, () => formatChanges(response, flags.since !== undefined))
    })
}

type Stats = Extract<ResponseOf<'GET /views/:view/stats'>, { readonly sources: unknown }>

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
    ['sensors', String(stats.sessions)],
    ['sources', Object.keys(stats.sources).join(', ') || '–'],
    ...(stats.full ? [['full', 'yes: entries were rejected, so the tree is incomplete'] as const] : []),
  ])
}

const changeLine = ({ kind, path, is_directory: isDirectory, is_symlink: isSymlink }: ViewChange) =>
  plain(
    `${kind === 'removed' ? '-' : '+'} ${path}${isDirectory && path !== '/' ? '/' : ''}${isSymlink ? '  (symlink)' : ''}`,
  )

type Changes = ResponseOf<'GET /views/:view/changes'>

function formatChanges({ fresh_instance: fresh, changes, token, more }: Changes, hasToken: boolean): string {
  const lines = changes.map(changeLine)
  if (fresh && hasToken) lines.push('The token is too old or from another run. Read the tree again.')
  else if (hasToken && lines.length === 0) lines.push('No changes')
  if (more) lines.push('There are more changes: repeat with the next token.')
  return [...lines, `next: --since ${plain(token)}`].join('\n')
}

/** No change is missed without a notice. */
async function follow(
  client: Client,
  flags: QueryFlags,
  after: string | undefined,
  as: { readonly json: boolean },
): Promise<void> {
  await untilInterrupted(async (signal) => {
    const request = { ...ofView(flags), signal, after, onOutage: printOutage }
    for await (const { event, data } of client.follow('GET /views/:view/events', request)) {
      if (as.json) printLine({ event, ...data })
      else if (event === 'reset') process.stdout.write('Some changes were lost. Read the tree again.\n')
      else if ('changes' in data) for (const one of data.changes) process.stdout.write(`${changeLine(one)}\n`)
    }
  })
}

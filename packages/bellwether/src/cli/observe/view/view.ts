/**
 * `bellwether view`: with a subcommand it queries a view of a running server; without one it runs a process that
 * serves workspace views only.
 */
import { readFileSync } from 'node:fs'
import { InvalidInput } from '@bellwether/protocol'
import { Command } from 'commander'
import { printLine } from '../../shared/output.js'
import { collect, parentPipe, portMax, viewNames, wholeUpTo } from '../../shared/options.js'
import { queryCommands } from './queries.js'

interface Flags {
  readonly view?: readonly string[]
  readonly key?: readonly string[]
  readonly keysFile?: string
  readonly host?: string
  readonly port?: number
  readonly strict?: boolean
  readonly persistent?: true | readonly string[]
  readonly entriesMax?: number
  readonly json?: boolean
  readonly parentPipe?: boolean
}

const entriesLimit = 1_000_000_000

export function viewCommand(finish: (code: number) => void): Command {
  const view = new Command('view')
    .description('query the live file tree of a running server (with a subcommand), or serve views only (--view NAME)')
    .helpCommand(false)
    // An option after a subcommand belongs to the subcommand, even if both have one of that name.
    .enablePositionalOptions()
    .option('--view <name>', 'a view to serve; repeatable', collect)
    .option(
      '--key <name=key>',
      'the API key of a view (KEY alone if there is one view); without it a new key is generated and printed',
      collect,
    )
    .option('--keys-file <file>', 'a file with one "NAME KEY" per line, which keeps keys out of process lists')
    .option('--host <address>', 'the address to listen on (default: server.host)')
    .option('--port <n>', 'the port; 0 picks a free one (default: server.port)', wholeUpTo(portMax))
    .option('--strict', 'accept one session per view')
    .option(
      '--persistent [name]',
      'a view that stays readable while a pipe is down and after its last sensor has left; repeatable; without a name: all (default: the settings view.live and view.persistent)',
      collectNames,
    )
    .option('--entries-max <n>', 'the maximum number of entries per source', wholeUpTo(entriesLimit))
    .option('--json', 'print one JSON object when ready')
    .addOption(parentPipe())
    .action(async (flags: Flags) => {
      const views = viewNames(flags.view)
      if (views.length === 0) {
        throw new InvalidInput('Cannot serve views: --view NAME is missing', {
          code: 'missing_option',
          hint: 'Name a view, or query a running server with a subcommand: bellwether view tree. See bellwether view --help.',
        })
      }
      // A query does not load the server.
      const { runViewProcess } = await import('../../../runtime/view.js')
      const code = await runViewProcess({
        folder: process.cwd(),
        views,
        keys: keysOf(flags, views),
        parentPipe: flags.parentPipe ?? false,
        onReady: flags.json === true ? printLine : printReady,
        host: flags.host,
        port: flags.port,
        strict: flags.strict,
        persistent: persistentViews(flags.persistent, views),
        entryMax: flags.entriesMax,
      })
      finish(code)
    })
  queryCommands(view)
  return view
}

/** Commander passes `true` for an option without its optional value. */
function collectNames(value: string | true, before: true | readonly string[] = []): true | readonly string[] {
  return value === true || before === true ? true : [...before, value]
}

function persistentViews(names: Flags['persistent'], views: readonly string[]): readonly string[] | true | undefined {
  if (names === undefined || names === true) return names
  const unknown = names.find((name) => !views.includes(name))
  if (unknown === undefined) return names
  throw new InvalidInput(`Cannot make view ${JSON.stringify(unknown)} persistent: this process does not serve it`, {
    code: 'unknown_view',
    hint: 'Use --persistent NAME with a NAME from --view, or --persistent for all views.',
  })
}

function keysOf(flags: Flags, views: readonly string[]): [string, string][] {
  const keys = (flags.key ?? []).map((pair): [string, string] => {
    const equals = pair.indexOf('=')
    // With a single view the name may be omitted.
    if (equals < 0 && views.length === 1) return [views[0]!, pair]
    return [pair.slice(0, Math.max(0, equals)), pair.slice(equals + 1)]
  })
  if (flags.keysFile !== undefined) keys.push(...fromFile(flags.keysFile))
  for (const [view] of keys) {
    if (views.includes(view)) continue
    throw new InvalidInput(
      `Cannot use the key of view ${JSON.stringify(view)}: this process does not serve that view`,
      { code: 'unknown_view', hint: 'Use --key NAME=KEY with a NAME from --view.' },
    )
  }
  return keys
}

function fromFile(file: string): [string, string][] {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    throw new InvalidInput(`Cannot read ${file}`, { code: 'keys_unreadable', cause: error })
  }
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line): [string, string] => {
      const [view = '', key = ''] = line.split(/\s+/)
      return [view, key]
    })
}

function printReady({ url, keys }: Readonly<Record<string, unknown>>): void {
  process.stdout.write(`serving on ${String(url)}\n`)
  for (const [view, key] of Object.entries(keys as Record<string, string>))
    process.stdout.write(`key of view ${view}: ${key}   (shown once)\n`)
}

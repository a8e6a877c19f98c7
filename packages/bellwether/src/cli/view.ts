/**
 * `bellwether view`: with a verb, questions to a view of a running server (cli/view/); without one it serves workspace views alone, for
 * sensors and readers; what was seen is in memory only.
 */
import { readFileSync } from 'node:fs'
import { InvalidInput } from '@bellwether/protocol'
import { Command } from 'commander'
import { environment } from '../runtime/serve.js'
import { serveView } from '../runtime/view.js'
import { loadSettings } from '../settings/load.js'
import { printLine } from './output.js'
import { wholeUpTo } from './numbers.js'
import { lookCommands } from './view/queries.js'
import { parentPipe } from './worker.js'

interface Flags {
  readonly view?: string[]
  readonly key?: string[]
  readonly keysFile?: string
  readonly host?: string
  readonly port?: number
  readonly strict?: boolean
  readonly persistent?: boolean
  readonly entriesMax?: number
  readonly json?: boolean
  readonly parentPipe?: boolean
}

const entriesLimit = 1_000_000_000

export function viewCommand(finish: (code: number) => void): Command {
  const view = new Command('view')
    .description(
      'ask a view of a running server what is on disk (with a verb), or serve views alone (--view NAME): one live tree, fed by sensors',
    )
    .helpCommand(false)
    // An option behind a verb is the verb’s, also where both have one of that name.
    .enablePositionalOptions()
    .option('--view <name>', 'a view to serve; say it again for more', gather)
    .option(
      '--key <name=key>',
      'the key of a view (of the only one: KEY alone); without it a new key is made and printed',
      gather,
    )
    .option('--keys-file <file>', 'the same, one "NAME KEY" a line, so that no list of processes shows them')
    .option('--host <address>', 'the address to listen on (default: server.host)')
    .option('--port <n>', 'the port; 0 picks a free one (default: server.port)', wholeUpTo(65_535))
    .option('--strict', 'each view takes one session only')
    .option('--persistent', 'stay readable when the last sensor is gone (default: as view.live says)')
    .option('--entries-max <n>', 'how many files and directories a source may have', wholeUpTo(entriesLimit))
    .option('--json', 'print one line on stdout when ready')
    .addOption(parentPipe())
    .action(async (flags: Flags) => {
      const views = [...new Set((flags.view ?? []).map(viewName))]
      if (views.length === 0) {
        throw new InvalidInput('name a view: --view NAME', {
          code: 'missing_option',
          hint: 'a verb asks a running server (bellwether view tree); see: bellwether view --help',
        })
      }
      const code = await serveView({
        settings: loadSettings({ folder: process.cwd(), env: environment() }),
        views,
        keys: keysOf(flags, views),
        parentPipe: flags.parentPipe ?? false,
        onReady: flags.json === true ? printLine : tell,
        ...(flags.host === undefined ? {} : { host: flags.host }),
        ...(flags.port === undefined ? {} : { port: flags.port }),
        ...(flags.strict === undefined ? {} : { strict: flags.strict }),
        ...(flags.persistent === true ? { live: false } : {}),
        ...(flags.entriesMax === undefined ? {} : { entryMax: flags.entriesMax }),
      })
      finish(code)
    })
  lookCommands(view)
  return view
}

const gather = (value: string, before: string[] | undefined) => [...(before ?? []), value]

function viewName(name: string): string {
  if (/^[a-z0-9][a-z0-9_.-]{0,63}$/i.test(name)) return name
  throw new InvalidInput(`${JSON.stringify(name)} cannot be the name of a view`, {
    code: 'invalid_name',
    hint: 'letters, digits, _ . and -, at most 64, beginning with a letter or digit',
  })
}

function keysOf(flags: Flags, views: readonly string[]): [string, string][] {
  const told = (flags.key ?? []).map((pair): [string, string] => {
    const equals = pair.indexOf('=')
    // Whoever serves one view need not name it.
    if (equals < 0 && views.length === 1) return [views[0]!, pair]
    return [pair.slice(0, Math.max(0, equals)), pair.slice(equals + 1)]
  })
  if (flags.keysFile !== undefined) told.push(...fromFile(flags.keysFile))
  for (const [view] of told) {
    if (views.includes(view)) continue
    throw new InvalidInput(`a key is given for view ${JSON.stringify(view)}, which is not served`, {
      code: 'unknown_view',
      hint: '--key NAME=KEY, with a NAME of --view',
    })
  }
  return told
}

function fromFile(file: string): [string, string][] {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    throw new InvalidInput(`${file} cannot be read`, { code: 'keys_unreadable', cause: error })
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

function tell({ url, keys }: Readonly<Record<string, unknown>>): void {
  process.stdout.write(`serving on ${String(url)}\n`)
  for (const [view, key] of Object.entries(keys as Record<string, string>))
    process.stdout.write(`key of view ${view}: ${key}   (shown once)\n`)
}

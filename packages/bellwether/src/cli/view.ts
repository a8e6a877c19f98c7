/**
 * `bellwether view`: with a verb, questions to a view of a running server (cli/view/); without one it serves workspace views alone, for
 * sensors and readers; what was seen is in memory only.
 */
import { readFileSync } from 'node:fs'
import { InvalidInput } from '@bellwether/protocol'
import { Command } from 'commander'
import { runViewProcess } from '../runtime/view.js'
import { printLine } from './output.js'
import { collect, parentPipe, portMax, viewNames, wholeUpTo } from './options.js'
import { lookCommands } from './view/queries.js'

interface Flags {
  readonly view?: readonly string[]
  readonly key?: readonly string[]
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
    .option('--view <name>', 'a view to serve; say it again for more', collect)
    .option(
      '--key <name=key>',
      'the key of a view (of the only one: KEY alone); without it a new key is made and printed',
      collect,
    )
    .option('--keys-file <file>', 'the same, one "NAME KEY" a line, so that no list of processes shows them')
    .option('--host <address>', 'the address to listen on (default: server.host)')
    .option('--port <n>', 'the port; 0 picks a free one (default: server.port)', wholeUpTo(portMax))
    .option('--strict', 'each view takes one session only')
    .option('--persistent', 'stay readable when the last sensor is gone (default: as view.live says)')
    .option('--entries-max <n>', 'how many files and directories a source may have', wholeUpTo(entriesLimit))
    .option('--json', 'print one line on stdout when ready')
    .addOption(parentPipe())
    .action(async (flags: Flags) => {
      const views = viewNames(flags.view)
      if (views.length === 0) {
        throw new InvalidInput('name a view: --view NAME', {
          code: 'missing_option',
          hint: 'a verb asks a running server (bellwether view tree); see: bellwether view --help',
        })
      }
      const code = await runViewProcess({
        folder: process.cwd(),
        views,
        keys: keysOf(flags, views),
        parentPipe: flags.parentPipe ?? false,
        onReady: flags.json === true ? printLine : tell,
        host: flags.host,
        port: flags.port,
        strict: flags.strict,
        live: flags.persistent === true ? false : undefined,
        entryMax: flags.entriesMax,
      })
      finish(code)
    })
  lookCommands(view)
  return view
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

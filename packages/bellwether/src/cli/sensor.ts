/** `bellwether sensor`: tells a server what is on this host's disk, until it is told to stop. Needs no database. */
import { statSync } from 'node:fs'
import { hostname } from 'node:os'
import { resolve } from 'node:path'
import { aborted, defined, environment } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { startSensor } from '@bellwether/sensor'
import { Command, InvalidArgumentError } from 'commander'
import { listenForShutdown } from '../runtime/shutdown.js'
import { openLog } from '../runtime/logger.js'
import { exitCodes, printLine } from './output.js'
import { collect, parentPipe, required } from './options.js'

interface Flags {
  readonly root?: string
  readonly server?: string
  readonly key?: readonly string[]
  readonly id?: string
  readonly source?: string
  readonly watchMax?: number
  readonly threads?: number
  readonly mounted?: boolean
  readonly polling?: boolean
  readonly exclude?: readonly string[]
  readonly json?: boolean
  readonly parentPipe?: boolean
}

export function sensorCommand(finish: (code: number) => void): Command {
  return new Command('sensor')
    .description('tell a server what is on disk under a directory')
    .option('--root <dir>', 'the directory to watch')
    .option('--server <url>', 'the server, as http://host:port')
    .option('--key <key>', 'a sensor key; once for each view to feed (default: $BELLWETHER_SENSOR_KEY)', collect)
    .option('--id <host>', 'what this sensor is called (default: the host name)')
    .option('--source <name>', 'what the filesystem is called, where a view has several')
    .option('--watch-max <n>', 'the most directories to watch (default: 50000, at most 80 % of the limit)', wholeNumber)
    .option('--threads <n>', 'threads that scan (default: 2; more for a slow network filesystem)', wholeNumber)
    .option('--mounted', 'the root must be a mount point: refuse an unmounted one')
    .option('--polling', 'list directories again and again instead of using inotify')
    .option('--exclude <glob>', 'what is not told: a name, or a path from the root; say it again for more', collect)
    .option('--json', 'print one line on stdout when started')
    .addOption(parentPipe())
    .action(async (flags: Flags) => finish(await run(flags)))
}

async function run(flags: Flags): Promise<number> {
  const root = directory(flags.root)
  const server = address(flags.server)
  const keys = flags.key ?? (environment()['BELLWETHER_SENSOR_KEY'] ?? '').split(',').filter((key) => key !== '')
  if (keys.length === 0) {
    const hint = 'bellwether keys create --role sensor --view NAME prints one; give it with --key'
    throw new InvalidInput('a sensor needs --key KEY', { code: 'missing_option', hint })
  }
  const id = flags.id ?? hostname()
  const log = openLog(`sensor ${id}`)
  const shutdown = listenForShutdown({ parentPipe: flags.parentPipe ?? false, log })
  const sensor = startSensor({
    root,
    server,
    keys,
    id,
    log,
    native: flags.polling !== true,
    mustBeMounted: flags.mounted ?? false,
    ...defined({
      exclude: flags.exclude,
      sourceId: flags.source,
      watchMax: flags.watchMax,
      scanThreads: flags.threads,
    }),
  })
  if (flags.json === true) printLine({ started: true, root, server, id, pid: process.pid })
  await aborted(shutdown.signal)
  await sensor.stop()
  shutdown.release()
  return exitCodes.ok
}

/** A root that is missing is waited for, since it may be mounted later; one that can never be a root is refused now. */
function directory(given: string | undefined): string {
  const root = resolve(required(given, 'sensor', '--root DIR'))
  if (statSync(root, { throwIfNoEntry: false })?.isDirectory() === false)
    throw new InvalidInput(`${root} is not a directory`, { code: 'bad_root' })
  return root
}

function address(given: string | undefined): string {
  const server = required(given, 'sensor', '--server URL')
  if (/^https?:\/\/[^/]/.test(server) && URL.canParse(server)) return server
  throw new InvalidInput(`${server} is not an address of a server`, {
    code: 'bad_server',
    hint: 'give it as http://host:port',
  })
}

function wholeNumber(text: string): number {
  const number = Number(text)
  if (/^\d+$/.test(text) && number >= 1) return number
  throw new InvalidArgumentError('It must be a whole number from 1.')
}

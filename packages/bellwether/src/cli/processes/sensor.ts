/** `bellwether sensor`: reports the files of a directory to a server until it gets a signal. It needs no database. */
import { statSync } from 'node:fs'
import { hostname } from 'node:os'
import { resolve } from 'node:path'
import { aborted, defined, environment, errorMessage } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { startSensor } from '@bellwether/sensor'
import { Command } from 'commander'
import { listenForShutdown } from '../../runtime/shutdown.js'
import { openLog } from '../../runtime/logger.js'
import { loadSettings } from '../../settings/load.js'
import { exitCodes, printLine } from '../shared/output.js'
import { collect, parentPipe, required, wholeUpTo } from '../shared/options.js'

interface Flags {
  readonly root?: string
  readonly server?: string
  readonly key?: readonly string[]
  readonly id?: string
  readonly source?: string
  readonly watchMax?: number
  readonly threads?: number
  readonly sessionTimeout?: number
  readonly poll?: number
  readonly stuck?: number
  readonly mounted?: boolean
  readonly polling?: boolean
  readonly exclude?: readonly string[]
  readonly json?: boolean
  readonly parentPipe?: boolean
}

const countMax = 1_000_000_000
const daySeconds = 86_400
const weekSeconds = 7 * daySeconds

export function sensorCommand(finish: (code: number) => void): Command {
  return new Command('sensor')
    .description('watch a directory and report its files to a server')
    .option('--root <dir>', 'the directory to watch')
    .option('--server <url>', 'the URL of the server, like http://host:port')
    .option('--key <key>', 'a sensor key; repeat it for each view to feed (default: $BELLWETHER_SENSOR_KEY)', collect)
    .option('--id <host>', 'the id of this sensor (default: the host name)')
    .option('--source <name>', 'the name of the filesystem, if the view has several')
    .option(
      '--watch-max <n>',
      'the maximum number of watched directories (default: 50000, at most 80 % of the kernel limit)',
      wholeUpTo(countMax, 1),
    )
    .option(
      '--threads <n>',
      'the number of scan threads (default: 2; more for a slow network filesystem)',
      wholeUpTo(countMax, 1),
    )
    .option(
      '--session-timeout <s>',
      'the session timeout to request, in seconds; the server may use a longer one (default: sensor.session_timeout_seconds)',
      wholeUpTo(weekSeconds, 1),
    )
    .option(
      '--poll <s>',
      'how often directories are listed without inotify, in seconds (default: sensor.poll_seconds)',
      wholeUpTo(daySeconds, 1),
    )
    .option(
      '--stuck <s>',
      'restart a task without progress after this many seconds (default: sensor.stuck_seconds)',
      wholeUpTo(weekSeconds, 1),
    )
    .option('--mounted', 'require the root to be a mount point')
    .option('--polling', 'list directories repeatedly instead of using inotify')
    .option('--exclude <glob>', 'a name or a path from the root to exclude; repeatable', collect)
    .option('--json', 'print one JSON object when ready')
    .addOption(parentPipe())
    .action(async (flags: Flags) => finish(await run(flags)))
}

async function run(flags: Flags): Promise<number> {
  const root = directory(flags.root)
  const server = address(flags.server)
  const keys = flags.key ?? (environment()['BELLWETHER_SENSOR_KEY'] ?? '').split(',').filter((key) => key !== '')
  if (keys.length === 0) {
    const hint = 'bellwether keys create --role sensor --view NAME prints one; give it with --key'
    throw new InvalidInput('Cannot start the sensor: --key KEY is missing', { code: 'missing_option', hint })
  }
  const id = flags.id ?? hostname()
  const log = openLog(`sensor ${id}`)
  const shutdown = listenForShutdown({ parentPipe: flags.parentPipe ?? false, log })
  const { sensor } = loadSettings({ folder: process.cwd(), env: environment() })
  const started = startSensor({
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
      sessionTimeoutSeconds: flags.sessionTimeout ?? sensor.session_timeout_seconds,
      pollSeconds: flags.poll ?? sensor.poll_seconds,
      stuckSeconds: flags.stuck ?? sensor.stuck_seconds,
    }),
  })
  if (flags.json === true) printLine({ started: true, root, server, id, pid: process.pid })
  await aborted(shutdown.signal)
  await started.stop()
  shutdown.release()
  return exitCodes.ok
}

/** A missing root is allowed, because it may be mounted later; a root that is a file is rejected. */
function directory(value: string | undefined): string {
  const root = resolve(required(value, 'sensor', '--root DIR'))
  if (readRoot(root)?.isDirectory() === false)
    throw new InvalidInput(`Cannot watch ${root}: it is not a directory`, { code: 'bad_root' })
  return root
}

/** A broken mount, for example of a FUSE or NFS server that is gone, fails here instead of with a stack trace. */
function readRoot(root: string) {
  try {
    return statSync(root, { throwIfNoEntry: false })
  } catch (error) {
    throw new InvalidInput(`Cannot watch ${root}: ${errorMessage(error)}`, {
      code: 'bad_root',
      hint: 'Check the mount and the permissions of its parent directories, then start the sensor again.',
      cause: error,
    })
  }
}

function address(value: string | undefined): string {
  const server = required(value, 'sensor', '--server URL')
  if (/^https?:\/\/[^/]/.test(server) && URL.canParse(server)) return server
  throw new InvalidInput(`"--server" must be an http or https URL (got ${JSON.stringify(server)})`, {
    code: 'bad_server',
    hint: 'Use http://host:port.',
  })
}

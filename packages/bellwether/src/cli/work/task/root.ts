/**
 * Shared by every `bellwether task` command: options, the task root, the actor and the output. With --json stdout gets one
 * object and nothing else. The task root is always closed.
 */
import { userInfo } from 'node:os'
import { join, resolve } from 'node:path'
import { defined, environment, type Log, systemClock } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { Command } from 'commander'
import type { Client } from '../../../client/client.js'
import { explainDisk } from '../../../board/log/root.js'
import type { OperatorPorts } from '../../../board/tasks/operator-commands.js'
import { systemDisk } from '../../../ports/disk/disk.js'
import { openTaskRoot, type OpenRoot } from '../../../runtime/parts/board/task-root.js'
import { loadSettings } from '../../../settings/load.js'
import type { Settings } from '../../../settings/schema.js'
import { plain } from '../../../client/sanitize.js'

export interface CommonFlags {
  readonly root?: string
  readonly server?: string
  readonly key?: string
  readonly json?: boolean
  readonly as?: string
}

export function withCommon(command: Command): Command {
  return command
    .option('--root <dir>', 'the task root (default: [board] root, else this folder)')
    .option('--server <url>', 'use the board of a running server instead of local files')
    .option('--key <key>', 'with --server: an API key (default: $BELLWETHER_KEY, else the key that `up` stored here)')
    .option('--as <name>', 'your name in the log (default: your user name; with --server the name of the key)')
    .option('--json', 'print one JSON object')
}

/** The server of --server; undefined: the command uses local files and does not load the client. */
export async function boardServer(flags: CommonFlags): Promise<Client | undefined> {
  const { server, key, root, as } = flags
  if (server === undefined) return undefined
  if (root !== undefined || as !== undefined) {
    throw new InvalidInput(`--${root === undefined ? 'as' : 'root'} and --server cannot be combined.`, {
      code: 'contradicting_options',
      hint: 'A server has its own task root and uses the name of the key.',
    })
  }
  const { openClient } = await import('../../shared/client.js')
  return openClient({ server, ...defined({ key }) })
}

export function whoAmI(flags: CommonFlags): string {
  return flags.as ?? userInfo().username
}

function rootSettings(flags: CommonFlags) {
  const settings = loadSettings({ folder: process.cwd(), env: environment() })
  const root = resolve(flags.root ?? settings.board.root ?? '.')
  return { root, settings: settings.board, notify: settings.notify, all: settings }
}

// One line on a terminal.
const detailsMaxChars = 500

/** Only warnings and errors, on stderr: the result goes to stdout. */
const commandLog: Log = {
  info: () => undefined,
  warn: (fields, message) => printStderr('warning', fields, message),
  error: (fields, message) => printStderr('error', fields, message),
}

function printStderr(word: string, fields: object, message: string): void {
  const { err, ...rest } = fields as Record<string, unknown>
  const cause = err instanceof Error ? `: ${err.message}` : ''
  const details = Object.keys(rest).length === 0 ? '' : ` ${JSON.stringify(rest).slice(0, detailsMaxChars)}`
  process.stderr.write(`${word}: ${plain(`${message}${cause}${details}`)}\n`)
}

export interface Opened extends OpenRoot {
  readonly operator: OperatorPorts
  /** All settings, of which `settings` are those of the board. */
  readonly all: Settings
}

/** Opens the root, runs `work` and closes the root. `read`, `write`: the root must have tasks; `read` cannot write. */
export async function onRoot<T>(
  flags: CommonFlags,
  use: 'read' | 'write' | 'create',
  work: (opened: Opened) => Promise<T>,
): Promise<T> {
  const { root, settings, notify, all } = rootSettings(flags)
  if (use !== 'create') await checkTasks(root)
  const owner = `task:${whoAmI(flags)}`
  const opened = await openTaskRoot({ root, owner, settings, notify, log: commandLog, readOnly: use === 'read' })
  try {
    return await work({ ...opened, all, operator: { board: opened.board, nowMs: () => systemClock.wallMs() } })
  } finally {
    await opened.alerts.settled()
    await opened.board.close()
  }
}

async function checkTasks(root: string): Promise<void> {
  const log = join(root, 'state', 'tasks.jsonl')
  if ((await explainDisk(log, () => systemDisk.stat(log))) !== 'missing') return
  const isMissing = (await explainDisk(root, () => systemDisk.stat(root))) === 'missing'
  throw new InvalidInput(isMissing ? `The task root ${root} does not exist.` : `There are no tasks in ${root}.`, {
    code: 'no_such_root',
    hint: isMissing
      ? 'Name an existing folder with --root DIR.'
      : 'Add the first with bellwether task add "…", or name another folder with --root DIR.',
  })
}

/**
 * What every `bellwether task` verb shares: its options, the task root it works on, who it speaks for, and how it answers.
 * Always: with --json one object on stdout and nothing else; on a terminal sentences; a root is closed again whatever happens.
 */
import { userInfo } from 'node:os'
import { join, resolve } from 'node:path'
import { environment, type Log, systemClock } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { Command } from 'commander'
import type { Client } from '../../client/client.js'
import type { OperatorPorts } from '../../board/tasks/operator-commands.js'
import { systemDisk } from '../../ports/disk/disk.js'
import { openTaskRoot, type OpenRoot } from '../../runtime/parts/board.js'
import { loadSettings } from '../../settings/load.js'
import type { Settings } from '../../settings/schema.js'
import { openClient } from '../client.js'
import { plain } from '../../client/sanitize.js'

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
    .option('--server <url>', 'a running server whose board is meant, instead of files here')
    .option('--key <key>', 'with --server: an API key (default: $BELLWETHER_KEY, else the one that `up` has left here)')
    .option('--as <name>', 'who you are, for the log (default: your user name; with --server the key’s name)')
    .option('--json', 'print one object on stdout')
}

/** The server whose board is meant; undefined: the files of a task root. */
export function boardServer(flags: CommonFlags): Client | undefined {
  const { server, key, root, as } = flags
  if (server === undefined) return undefined
  if (root !== undefined || as !== undefined) {
    throw new InvalidInput(`--${root === undefined ? 'as' : 'root'} and --server exclude each other`, {
      code: 'contradicting_options',
      hint: 'a server has its own task root, and signs with the name of the key',
    })
  }
  return openClient({ server, ...(key === undefined ? {} : { key }) })
}

export function whoAmI(flags: CommonFlags): string {
  return flags.as ?? userInfo().username
}

interface RootSettings {
  readonly root: string
  readonly settings: Settings['board']
}

export function rootSettings(flags: CommonFlags): RootSettings {
  const { board } = loadSettings({ folder: process.cwd(), env: environment() })
  return { root: resolve(flags.root ?? board.root ?? '.'), settings: board }
}

/** Only what somebody should do something about: a command answers on stdout, and its exit code says the rest. */
export const commandLog: Log = {
  info: () => undefined,
  warn: (fields, message) => printStderr('warning', fields, message),
  error: (fields, message) => printStderr('error', fields, message),
}

function printStderr(word: string, fields: object, message: string): void {
  const cause = 'err' in fields && fields.err instanceof Error ? `: ${fields.err.message}` : ''
  process.stderr.write(`${word}: ${plain(`${message}${cause}`)}\n`)
}

export interface Opened extends OpenRoot {
  readonly operator: OperatorPorts
}

/** Opens the root, works, closes it. Verbs that only look do not make a root out of any folder. */
export async function onRoot<T>(
  flags: CommonFlags,
  use: 'look' | 'write',
  work: (opened: Opened) => Promise<T>,
): Promise<T> {
  const { root, settings } = rootSettings(flags)
  if (use === 'look' && (await systemDisk.stat(join(root, 'state', 'tasks.jsonl'))) === 'missing') {
    throw new InvalidInput(`${root} has no tasks yet`, {
      code: 'no_such_root',
      hint: 'bellwether task add "…" makes the first; --root names another folder',
    })
  }
  const owner = `task:${whoAmI(flags)}`
  const opened = await openTaskRoot({ root, owner, settings, log: commandLog, readOnly: use === 'look' })
  try {
    return await work({ ...opened, operator: { board: opened.board, nowMs: () => systemClock.wallMs() } })
  } finally {
    await opened.alerts.settled()
    await opened.board.close()
  }
}

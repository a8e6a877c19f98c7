/**
 * What every `bellwether task` verb shares: its options, the task root it works on, who it speaks for, and how it answers.
 * Always: with --json one object on stdout and nothing else; on a terminal sentences; a root is closed again whatever happens.
 */
import { userInfo } from 'node:os'
import { join, resolve } from 'node:path'
import { InvalidInput } from '@bellwether/protocol'
import type { Command } from 'commander'
import type { OperatorPorts } from '../../board/operators.js'
import { systemClock } from '../../ports/clock.js'
import { systemDisk } from '../../ports/disk/disk.js'
import type { Log } from '../../ports/log.js'
import { environment } from '../../serve.js'
import { openTaskRoot, type OpenRoot } from '../../serve/board.js'
import { loadSettings } from '../../settings/load.js'
import type { Settings } from '../../settings/schema.js'
import { printLine } from '../explain.js'

export interface CommonFlags {
  readonly root?: string
  readonly json?: boolean
  readonly as?: string
}

export function withCommon(command: Command): Command {
  return command
    .option('--root <dir>', 'the task root (default: [board] root, else this folder)')
    .option('--as <name>', 'who you are, for the log (default: your user name)')
    .option('--json', 'print one object on stdout')
}

export function whoAmI(flags: CommonFlags): string {
  return flags.as ?? userInfo().username
}

interface Place {
  readonly root: string
  readonly settings: Settings['board']
}

export function placeOf(flags: CommonFlags): Place {
  const { board } = loadSettings({ folder: process.cwd(), env: environment() })
  return { root: resolve(flags.root ?? board.root ?? '.'), settings: board }
}

/** Only what somebody should do something about: a command answers on stdout, and its exit code says the rest. */
export const commandLog: Log = {
  info: () => undefined,
  warn: (fields, message) => tellStderr('warning', fields, message),
  error: (fields, message) => tellStderr('error', fields, message),
}

function tellStderr(word: string, fields: object, message: string): void {
  const cause = 'err' in fields && fields.err instanceof Error ? `: ${fields.err.message}` : ''
  process.stderr.write(`${word}: ${plain(`${message}${cause}`)}\n`)
}

export interface Opened extends OpenRoot {
  readonly hands: OperatorPorts
}

/** Opens the root, works, closes it. Verbs that only look do not make a root out of any folder. */
export async function onRoot<T>(
  flags: CommonFlags,
  use: 'look' | 'write',
  work: (opened: Opened) => Promise<T>,
): Promise<T> {
  const { root, settings } = placeOf(flags)
  if (use === 'look' && (await systemDisk.look(join(root, 'state', 'tasks.jsonl'))) === 'missing') {
    throw new InvalidInput(`${root} has no tasks yet`, {
      code: 'no_such_root',
      hint: 'bellwether task add "…" makes the first; --root names another folder',
    })
  }
  const owner = `task:${whoAmI(flags)}`
  const opened = await openTaskRoot({ root, owner, settings, log: commandLog, look: use === 'look' })
  try {
    return await work({ ...opened, hands: { board: opened.board, nowMs: () => systemClock.wallMs() } })
  } finally {
    await opened.alerts.settled()
    await opened.board.close()
  }
}

export function answer(flags: CommonFlags, facts: Readonly<Record<string, unknown>>, words: () => string): void {
  if (flags.json === true) printLine(facts)
  else process.stdout.write(`${words().replace(/\n+$/, '')}\n`)
}

/** Titles and reasons come from agents: what a terminal would obey is not printed. */
export function plain(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}]/gu, (found) => (found === '\n' || found === '\t' ? ' ' : '?'))
}

/** `bellwether logs`: prints the log of the `up` of this folder, the newest lines or all since a time, and follows it. */
import { resolve } from 'node:path'
import { systemClock } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { Command, Option } from 'commander'
import { statsOf } from '../../runtime/data-folder.js'
import { logFileOf, olderLogFile } from '../../runtime/parts/log-file.js'
import { safeJson } from '../../client/sanitize.js'
import { parsedLine, readableLine, safeLine } from '../../runtime/log-line.js'
import { sinceOption, untilOption } from '../shared/instants.js'
import { untilInterrupted } from '../shared/interrupt.js'
import { findLocalUp, findLogFile, isUnsafe } from '../shared/local-up.js'
import { followLines, readLines } from '../shared/log-lines.js'
import { jsonLines, wholeUpTo } from '../shared/options.js'
import { asStream, printLine, type JsonFlags } from '../shared/output.js'

interface Flags extends JsonFlags {
  readonly follow?: boolean
  readonly since?: number
  readonly until?: number
  readonly lines?: number
  readonly level?: keyof typeof levels
  readonly data?: string
}

const levels = { info: 30, warn: 40, error: 50 } as const
const linesMax = 1_000_000
const linesDefault = 100

export function logsCommand(): Command {
  return new Command('logs')
    .description('show the log of the `up` of this folder')
    .option('-f, --follow', 'keep printing new lines until Ctrl-C')
    .addOption(sinceOption('lines'))
    .addOption(untilOption('lines'))
    .option(
      '-n, --lines <n>',
      `the maximum number of lines (default: ${linesDefault}; all with --since)`,
      wholeUpTo(linesMax),
    )
    .addOption(new Option('-l, --level <level>', 'only lines of this level and above').choices(Object.keys(levels)))
    .option('--data <dir>', 'the data folder, if `up` was started with --data')
    .option('--json', 'print one JSON object')
    .addOption(jsonLines())
    .action(async (flags: Flags) => {
      if (flags.follow === true) asStream(flags)
      const file = logFile(flags.data)
      const isWanted = filterOf(flags)
      const print = (line: string) =>
        void process.stdout.write(`${flags.jsonl === true ? jsonLine(line) : readableLine(line)}\n`)
      const max = flags.lines ?? (flags.since === undefined ? linesDefault : linesMax)
      const newest: string[] = []
      const keep = (line: string) => {
        if (!isWanted(line)) return
        newest.push(line)
        // Twice the number, so that dropping the oldest is cheap.
        if (newest.length > max * 2) newest.splice(0, newest.length - max)
      }
      const older = olderLogFile(file)
      if (statsOf(older) !== undefined) readLines(older, 0, keep)
      const end = readLines(file, 0, keep)
      const shown = newest.slice(Math.max(0, newest.length - max))
      if (flags.json === true) return printLine({ lines: shown.map(objectOf) })
      shown.forEach(print)
      if (flags.follow !== true) return
      const each = (line: string) => {
        if (isWanted(line)) print(line)
      }
      await untilInterrupted((signal) => followLines(file, end, each, { clock: systemClock, signal }))
    })
}

function logFile(data: string | undefined): string {
  const up = findLocalUp(process.cwd())
  const named = data === undefined ? undefined : logFileOf(resolve(data))
  if (named === undefined && up !== undefined && !isUnsafe(up) && up.logFile === null)
    throw new InvalidInput('The `up` of this folder writes its log to stderr, because it does not run on a terminal', {
      code: 'no_log_file',
      hint: 'read what started it (journalctl, docker logs, or the file that stderr goes to)',
    })
  const running = up === undefined || isUnsafe(up) ? undefined : (up.logFile ?? undefined)
  const file = named ?? running ?? findLogFile(process.cwd())
  if (file !== undefined && statsOf(file) !== undefined) return file
  throw new InvalidInput(`There is no log of \`up\` for ${process.cwd()}`, {
    code: 'no_log_file',
    hint: 'start `bellwether up` in a terminal in this folder; with --data DIR, name that folder here too',
  })
}

const objectOf = (line: string) => parsedLine(line) ?? { msg: line }
const jsonLine = (line: string) => (parsedLine(line) === undefined ? safeJson(objectOf(line)) : safeLine(line))

/** Lines that are not JSON, such as the stack of a crash, pass the filter of the level. */
function filterOf({ since = -Infinity, until = Infinity, level = 'info' }: Flags): (line: string) => boolean {
  let atMs = 0
  return (line) => {
    const [, found, time] = /^\{"level":(\d+),"time":(\d+)/.exec(line) ?? []
    atMs = time === undefined ? atMs : Number(time)
    return atMs >= since && atMs <= until && Number(found ?? levels.error) >= levels[level]
  }
}

/**
 * `bellwether up` on a terminal: five lines and the link when it is ready, then one line per turn or task that starts, ends or needs a
 * person, and what it waits for when it stops. Text of agents and tasks is sanitized.
 */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { errorMessage, hasCode, type Clock } from '@bellwether/base'
import { duration, reasonInWords } from '@bellwether/protocol'
import { plain } from '../../client/sanitize.js'
import { agentsFolder } from '../../runtime/paths.js'
import type { RunningTurn } from '../../runtime/parts/activity.js'
import type { Activity } from '../../runtime/parts/task-activity.js'
import type { LogFile } from '../../runtime/parts/log-file.js'
import type { UpTerminal } from '../../runtime/parts/up-terminal.js'
import { isAgentFile } from '../../worker/roster/agent-file.js'
import { type Paint, paintFor } from '../shared/colour.js'
import { openProgress } from '../shared/live.js'
import { cut } from '../shared/terminal.js'
import { asTyped, programName } from '../shared/output.js'

export interface UpScreen extends UpTerminal {
  readonly ready: (facts: Readonly<Record<string, unknown>>) => void
}

export interface UpScreenOptions {
  readonly folder: string
  readonly version: string
  readonly logFile: LogFile
  readonly clock: Clock
  /** Whether the log itself is shown, so that its warnings must not be repeated. */
  readonly verbose: boolean
  readonly out?: Output
}

interface Output {
  readonly isTTY?: boolean
  readonly columns?: number
  write(text: string): unknown
}

// More lines per second than a person can read.
const linesPerSecond = 20

export function openUpScreen(options: UpScreenOptions): UpScreen {
  const { folder, version, logFile, clock, verbose, out = process.stdout } = options
  const paint = paintFor(out)
  const progress = openProgress(!verbose)
  let state: 'starting' | 'ready' | 'stopping' = 'starting'
  let [second, lines, left] = [0, 0, 0]

  function print(text: string): void {
    progress.clear()
    out.write(`${text}\n`)
  }

  /** A line about a turn or task. Counts the lines that are too many, and reports their number with the next line. */
  function printActivity(line: string): void {
    const now = Math.floor(clock.monotonicMs() / 1_000)
    if (now !== second) {
      if (left > 0) print(paint('dim', `         … and ${left.toLocaleString('en')} more changes: see the dashboard`))
      ;[second, lines, left] = [now, 0, 0]
    }
    lines += 1
    if (lines > linesPerSecond) left += 1
    else print(line)
  }

  return {
    logFile,
    log(level, fields, message) {
      if (level === 'info' && state === 'starting') progress.show(`Starting: ${plain(message)}`)
      // At a stop, the lines of parts that end before others are not news.
      if (level === 'info' || verbose || state === 'stopping' || hasOwnLine(fields)) return
      const mark = level === 'warn' ? paint('yellow', '!') : paint('red', '✗')
      const end = endOf(nextOf(fields))
      const text = plain(`${message}${detailOf(fields)}`)
      print(`${time(clock)} ${mark} ${ended(text, end, (out.columns ?? 120) - 11)}`)
    },
    ready(facts) {
      state = 'ready'
      print(readyText({ facts, folder, version, logFile: logFile.path, paint, columns: out.columns ?? 120 }))
    },
    report: (activity) => printActivity(activityLine(activity, clock, paint, out.columns ?? 120)),
    stopping(running, drainSeconds) {
      state = 'stopping'
      // The terminal shows ^C without a line break.
      print(`\n${stoppingText(running, drainSeconds, clock.wallMs())}`)
    },
    exiting() {
      print(
        '\nExiting now. Turns that ran continue at the next start, after about a minute; their programs are being killed.',
      )
    },
    stopped(unfinished) {
      const turns = unfinished.length === 1 ? '1 turn has' : `${unfinished.length} turns have`
      print(
        unfinished.length === 0
          ? asTyped('Stopped. Everything is stored; `bellwether up` continues here.')
          : asTyped(`Stopped. ${turns} not ended and will continue at the next \`bellwether up\`.`),
      )
    },
  }
}

/** The line of the task says the same. */
const hasOwnLine = (fields: object) =>
  'alert' in fields && ['approval', 'review', 'handoff', 'escalated'].includes(String(fields.alert))

const time = (clock: Clock) => new Date(clock.wallMs()).toTimeString().slice(0, 8)

function detailOf(fields: object): string {
  const { err, file, problems = [], agent_id: agent, part, end } = fields as Readonly<Record<string, unknown>>
  const parts = [agent, part, file, ...[problems].flat(), end].filter((value) => typeof value === 'string')
  if (err !== undefined) parts.push(errorMessage(err))
  return parts.length === 0 ? '' : `: ${parts.join(': ')}`
}

/** The command that says more about a warning, or accepts what it is about. */
function nextOf(fields: object): string | undefined {
  const { accept, problems } = fields as Readonly<Record<string, unknown>>
  if (typeof accept === 'string') return plain(accept)
  return problems === undefined ? undefined : 'bellwether doctor'
}

const endOf = (command: string | undefined) => (command === undefined ? '' : `See: ${asTyped(command)}`)

/** What to type is never cut. */
function ended(text: string, end: string, columns: number): string {
  return end === '' ? cut(text, columns) : `${cut(`${text}.`, Math.max(20, columns - end.length - 1))} ${end}`
}

interface ReadyOptions {
  readonly facts: Readonly<Record<string, unknown>>
  readonly folder: string
  readonly version: string
  readonly logFile: string
  readonly paint: Paint
  readonly columns: number
}

/** Five lines and the link, which stands alone so that it can be copied. */
function readyText({ facts, folder, version, logFile, paint, columns }: ReadyOptions): string {
  const { url, loginUrl } = facts as Readonly<Record<string, string | undefined>>
  const agents = agentNames(folder)
  const example = agents.includes('greeter') ? 'greeter' : agents[0]
  const name = `Bellwether ${version}`
  const program = programName()
  const line = (label: string, text: string) => cut(`  ${label.padEnd(8)} ${text}`, columns)
  return [
    `${paint('bold', name)}${cut(` runs on ${url} (Ctrl-C stops it) in ${plain(folder)}`, columns - name.length)}`,
    line('Agents', agents.length === 0 ? `none yet: write agents/NAME.md, or run ${program} init` : agents.join(', ')),
    line(
      'Try',
      `in another terminal: ${program} ${example === undefined ? 'init' : `turn run ${example} "Good morning"`}`,
    ),
    line('Logs', `${program} logs --follow (${plain(logFile)})`),
    ...(loginUrl === undefined
      ? []
      : [line('Browser', `the link works once; ${program} open makes another`), paint('cyan', loginUrl)]),
  ].join('\n')
}

function agentNames(folder: string): string[] {
  try {
    return readdirSync(join(folder, agentsFolder))
      .filter(isAgentFile)
      .map((name) => plain(name.slice(0, -3)))
      .sort()
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return []
    throw error
  }
}

/** The subject, what happened to it, and what to type for more. */
export function activityLine(activity: Activity, clock: Clock, paint: Paint, columns: number): string {
  const { what, id, agent, change, outcome, about, elapsedMs } = activity
  const isTurn = what === 'turn'
  const subject = plain(isTurn ? (agent ?? '–') : id).padEnd(10)
  const text = about === undefined ? '' : plain(reasonInWords(about))
  const isGood = outcome === 'success' || outcome === 'done'
  const colour =
    change === 'needs_person' || change === 'needs_approval' || change === 'parked'
      ? 'yellow'
      : change === 'started'
        ? 'cyan'
        : isGood
          ? 'green'
          : 'red'
  const mark = { cyan: '▶', yellow: '●', green: '✓', red: '✗' }[colour]
  const took = elapsedMs === undefined ? '' : ` in ${duration(elapsedMs)}`
  const details = {
    needs_approval: `needs you to allow ${text}`,
    ...(isTurn
      ? {
          started: `turn started  ${id}`,
          ended: `turn ended: ${plain(outcome ?? '')}${took}${text === '' ? '' : ` (${text})`}  ${id}`,
          needs_person: `needs you: ${text}`,
          parked: `waits for ${text}`,
        }
      : {
          started: `task started by ${plain(agent ?? '–')}: ${text}`,
          ended: `task ${plain(outcome ?? '')}: ${text}`,
          needs_person: `task needs you: ${text}`,
          parked: `task waits for ${text}`,
        }),
  }
  const next = {
    needs_person: isTurn ? 'bellwether questions' : `bellwether task show ${plain(id)}`,
    needs_approval: 'bellwether approvals',
    parked: isTurn ? 'bellwether quotas' : undefined,
    started: undefined,
    ended: undefined,
  }[change]
  const head = `${time(clock)} `
  const shown = ended(`${subject} ${details[change]}`, endOf(next), columns - head.length - 2)
  return `${paint('dim', head)}${paint(colour, mark)} ${shown}`
}

// Enough names for one line.
const namesMax = 5

function stoppingText(running: readonly RunningTurn[], drainSeconds: number, nowMs: number): string {
  if (running.length === 0) return 'Stopping: no turn runs; this takes a second or two.'
  const names = running
    .slice(0, namesMax)
    .map(({ agent, sinceMs }) => `${plain(agent)} (running for ${duration(Math.max(0, nowMs - sinceMs))})`)
  const more = running.length > namesMax ? ` and ${running.length - namesMax} more` : ''
  const turns = running.length === 1 ? '1 turn' : `${running.length} turns`
  return [
    `Stopping: waits up to ${drainSeconds} s for ${turns}: ${names.join(', ')}${more}.`,
    'A turn that has not ended by then continues at the next start. Ctrl-C again exits at once.',
  ].join('\n')
}

/**
 * Turns the run of a command into the ending of its turn: the outcome, and a deliverable that explains it. Pure. Only the exit, the
 * declared format and the reason for an early stop decide the outcome, whatever else the program prints.
 */
import { constants } from 'node:os'
import { budgetExceeded } from '@bellwether/protocol'
import type { FieldSpec } from '../../kernel/verbs/cards.js'
import { fieldsByName } from '../submit-result.js'
import { interrupted, sessionLost, type CommandRun, type StopReason } from './command-run.js'
import { lastObject } from './formats.js'
import { parseObject } from './parsed-output.js'
import { noProgress } from './repeats.js'
import type { Delivered } from './stored-result.js'

// Fits into a card even if every character takes several bytes.
const textMaxChars = 200_000
const tailMaxChars = 4_000
const lineMaxChars = 300

export function reportOf(run: CommandRun, command: readonly string[], wanted: readonly FieldSpec[]): Delivered {
  const failure = failureOf(run)
  if (failure !== undefined) {
    return { deliver: { text: failureReport(failure, run, command) }, status: 'failed', error: failure.error }
  }
  const { text, fields } = run.output
  if (fields !== undefined) return { deliver: { fields } }
  const found = wanted.length === 0 || text === undefined ? undefined : fieldsIn(text, wanted)
  if (found !== undefined) return { deliver: { fields: found } }
  const clean = printable(text ?? '')
  return { deliver: { text: clean.trim() === '' ? 'The command succeeded and printed nothing.' : clean } }
}

interface Failure {
  readonly error: string
  readonly sentence: string
  /** What to do. */
  readonly hint?: string
}

const stops: Readonly<Partial<Record<StopReason, Failure>>> = {
  budget: { error: budgetExceeded, sentence: 'was stopped because its turn exceeded the budget' },
  guardian_lost: {
    error: 'guardian_lost',
    sentence: 'was stopped because its guardian died and could not be replaced',
  },
  interrupted: { error: interrupted, sentence: 'was interrupted by a message and could not be resumed' },
  session_lost: { error: sessionLost, sentence: 'did not resume its session' },
  no_progress: {
    error: noProgress,
    sentence: 'was stopped because it repeated the same tool calls with the same results',
  },
}

const notFound: Failure = {
  error: 'command_not_found',
  sentence: 'could not be started: the program was not found',
  hint: 'Install it (`bellwether doctor` shows how), or correct the agent file. If you installed it after `up` was started, or changed the PATH, restart `up`.',
}
const notExecutable: Failure = {
  error: 'command_not_started',
  sentence: 'could not be started: the file is not executable',
  hint: 'Make it executable with chmod +x, or correct the agent file.',
}
// Claude names a command of its terminal interface, and an agent has no terminal.
const signIn =
  'Start claude in a terminal as the account that runs `up`, and enter /login there. Or set ANTHROPIC_API_KEY, name it under "env" in the agent file, and restart `up`.'
// Codex and gemini without a key.
const missingKey =
  /^.*(?:you must specify|specify one of|Missing environment variable).*?\b([A-Z][A-Z\d_]*_(?:KEY|TOKEN))\b.*$/m
const keyHint = (name: string) =>
  `Set ${name} in the terminal of \`up\`, name it under "env" in the agent file, and restart \`up\`. Or sign in with the program itself; \`bellwether doctor\` shows how.`
// What the shell and the program that enter the sandbox print if there is nothing to run in it.
const entered =
  /^(?:bellwether-network: .*\bexec: .*|bwrap: execvp .*): (?:(not found|No such file)|Permission denied)/m

function failureOf({ stopped, exit, output, stderr }: CommandRun): Failure | undefined {
  const stop = stopped && stops[stopped]
  if (stop !== undefined) return stop
  if (exit.how === 'not_started') {
    if (exit.code === 'EACCES') return notExecutable
    return exit.code === 'ENOENT'
      ? notFound
      : { error: 'command_not_started', sentence: `could not be started: ${exit.message}` }
  }
  if (exit.how === 'signalled')
    return {
      error: `command_signal_${exit.signal}`,
      sentence: `was ended by ${exit.signal}, which Bellwether did not send`,
    }
  const [outside, missing] = (exit.code === 0 ? null : entered.exec(stderr)) ?? []
  if (outside !== undefined) return missing === undefined ? notExecutable : notFound
  // A program that reports no failure usually says on stderr why it ended.
  const [keyLine, key] = missingKey.exec(output.failure ?? stderr) ?? []
  const words = keyLine?.trim() ?? output.failure ?? lastLineOf(stderr)
  const reason = words === '' ? '' : `: ${printable(words).slice(0, tailMaxChars)}`
  const hint = key !== undefined ? { hint: keyHint(key) } : /Please run \/login/.test(words) ? { hint: signIn } : {}
  if (exit.code !== 0)
    return {
      error: `command_exit_${exit.code}`,
      // With a failure of its own, a large code does not stand for a signal: gemini exits with the HTTP status of its API.
      sentence: `exited with ${exit.code}${output.failure === undefined ? asAfter(exit.code) : ''}${reason}`,
      ...hint,
    }
  if (output.failure !== undefined) return { error: 'command_error', sentence: `reported a failure${reason}`, ...hint }
  if (output.text === undefined && output.fields === undefined)
    return { error: 'no_answer', sentence: 'ended without a result' }
  return undefined
}

// What a shell, or the program that enters the sandbox, reports if a signal ended the program.
const signalBase = 128

function asAfter(code: number): string {
  const [name] = Object.entries(constants.signals).find(([, number]) => number === code - signalBase) ?? []
  if (name === undefined) return ''
  return name === 'SIGKILL' ? ', as after SIGKILL: the machine may have run out of memory' : `, as after ${name}`
}

function failureReport({ sentence, hint }: Failure, run: CommandRun, command: readonly string[]): string {
  const parts = [
    `The agent ${sentence} (command ${JSON.stringify(command[0] ?? '')}, ${(run.durationMs / 1_000).toFixed(1)} s).`,
  ]
  if (hint !== undefined) return `${parts[0]}\n\n${hint}`
  if (run.survivors.length > 0)
    parts.push(`${run.survivors.length} of its processes could not be killed: ${run.survivors.join(', ')}.`)
  const stdout = tailOf(run.stdout)
  const result = tailOf(run.output.text ?? '')
  // For a program that prints plain text, both are the same.
  if (result !== '' && !stdout.endsWith(result)) parts.push(`The end of its result so far:\n${result}`)
  const stderr = tailOf(run.stderr)
  if (stderr !== '') parts.push(`The end of its stderr (${run.stderrBytes} bytes):\n${stderr}`)
  // The transcript shows the events of a coding agent; their JSON says little about why it ended by itself.
  if (stdout !== '' && (run.stopped !== undefined || !isEvents(stdout)))
    parts.push(`The end of its stdout (${run.stdoutBytes} bytes):\n${stdout}`)
  return parts.join('\n\n')
}

/** Lines of JSON; the first may be cut. */
const isEvents = (text: string) => {
  const lines = text.split('\n').slice(1)
  return lines.length > 0 && lines.every((line) => parseObject(line) !== undefined)
}

const lastLineOf = (text: string) => printable(text).trim().split('\n').at(-1)!.trim().slice(-lineMaxChars)
const tailOf = (text: string) => printable(text).trim().slice(-tailMaxChars).toWellFormed()

/** The wanted fields of the JSON object at the end of the text. Undefined if the text does not end with an object. */
function fieldsIn(text: string, wanted: readonly FieldSpec[]): ReturnType<typeof fieldsByName> | undefined {
  const object = lastObject(text.trim().replace(/\n?```$/, ''))
  return object && fieldsByName(object, wanted)
}

// oxlint-disable-next-line no-control-regex
const colours = /\u001B\[[0-9;?]*[ -/]*[@-~]/g
// oxlint-disable-next-line no-control-regex
const controls = /[\u0000-\u0008\u000B-\u001F\u007F]/g

/** The text without colours and control characters, cut to what a card can hold. */
function printable(text: string): string {
  const clean = text.replace(colours, '').replaceAll('\r\n', '\n').replace(controls, '').toWellFormed()
  if (clean.length <= textMaxChars) return clean
  return `${clean.slice(0, textMaxChars).toWellFormed()}\n[cut: ${clean.length - textMaxChars} more characters]`
}

/**
 * What a run of a command means for its turn: the outcome, and a deliverable that says what happened in words. Pure. Whatever
 * a program prints, only its exit, its declared format and what cut it short decide the outcome.
 */
import type { FieldSpec } from '../../kernel/verbs/cards.js'
import type { CommandRun, Cut } from './command-run.js'
import { lastObject } from './formats.js'
import type { Delivered } from './stored-result.js'

// A card holds this with room to spare, whatever the characters are.
const textMaxChars = 200_000
const endMaxChars = 4_000

export function reportOf(run: CommandRun, command: readonly string[], wanted: readonly FieldSpec[]): Delivered {
  const trouble = troubleOf(run)
  if (trouble !== undefined) {
    const { status = 'failed', error, sentence } = trouble
    return { deliver: { text: told(sentence, run, command) }, status, error }
  }
  const { text, fields } = run.answer
  if (fields !== undefined) return { deliver: { fields } }
  const given = wanted.length === 0 || text === undefined ? undefined : fieldsIn(text, wanted)
  if (given !== undefined) return { deliver: { fields: given } }
  const clean = printable(text ?? '')
  return { deliver: { text: clean.trim() === '' ? 'The command ended well and printed nothing.' : clean } }
}

interface Trouble {
  readonly status?: 'failed' | 'timeout'
  readonly error: string
  readonly sentence: string
}

const cuts: Readonly<Record<Exclude<Cut, 'halted'>, Trouble>> = {
  wall_time: { status: 'timeout', error: 'budget_wall_time', sentence: 'was ended because its time was up' },
  tokens: { error: 'budget_tokens', sentence: 'was ended because it had used more tokens than it may' },
  expired: { error: 'guardian_expired', sentence: 'was ended because its worker could not beat in time' },
  guardian_lost: { error: 'guardian_lost', sentence: 'was ended because its guardian died and could not be replaced' },
}

function troubleOf({ cut, exit, answer }: CommandRun): Trouble | undefined {
  if (cut !== undefined && cut !== 'halted') return cuts[cut]
  if (exit.how === 'not_started') {
    return exit.code === 'ENOENT'
      ? { error: 'command_not_found', sentence: 'could not be started: there is no such program' }
      : { error: 'command_not_started', sentence: `could not be started: ${exit.message}` }
  }
  if (exit.how === 'signalled')
    return { error: `command_signal_${exit.signal}`, sentence: `was ended by ${exit.signal}, which nobody here sent` }
  const said = answer.failure === undefined ? '' : `: ${printable(answer.failure).slice(0, endMaxChars)}`
  if (exit.code !== 0)
    return { error: `command_exit_${exit.code}`, sentence: `ended with exit code ${exit.code}${said}` }
  if (answer.failure !== undefined) return { error: 'command_error', sentence: `failed by its own account${said}` }
  if (answer.text === undefined && answer.fields === undefined)
    return { error: 'no_answer', sentence: 'ended without an answer' }
  return undefined
}

function told(sentence: string, run: CommandRun, command: readonly string[]): string {
  const parts = [
    `The command ${JSON.stringify(command[0] ?? '')} ${sentence}, after ${(run.durationMs / 1_000).toFixed(1)} s.`,
  ]
  if (run.left.length > 0) parts.push(`${run.left.length} of its processes could not be ended: ${run.left.join(', ')}.`)
  const stdout = endOf(run.stdout)
  const answer = endOf(run.answer.text ?? '')
  // Of a program that prints plain text both are the same.
  if (answer !== '' && !stdout.endsWith(answer)) parts.push(`The end of its answer so far:\n${answer}`)
  const stderr = endOf(run.stderr)
  if (stderr !== '') parts.push(`The end of its stderr (${run.stderrBytes} bytes):\n${stderr}`)
  if (stdout !== '') parts.push(`The end of its stdout (${run.stdoutBytes} bytes):\n${stdout}`)
  return parts.join('\n\n')
}

const endOf = (text: string) => printable(text).trim().slice(-endMaxChars).toWellFormed()

/** The fields that were asked for, from the JSON object that an answer ends with; undefined: it ends with none. */
function fieldsIn(text: string, wanted: readonly FieldSpec[]): { name: string; value: unknown }[] | undefined {
  const bare = text.trim().replace(/\n?```$/, '')
  const given = lastObject(bare)
  if (given === undefined) return undefined
  return wanted
    .filter((field) => Object.hasOwn(given, field.name))
    .map((field) => ({ name: field.name, value: given[field.name] ?? null }))
}

// oxlint-disable-next-line no-control-regex
const colours = /\u001B\[[0-9;?]*[ -/]*[@-~]/g
// oxlint-disable-next-line no-control-regex
const controls = /[\u0000-\u0008\u000B-\u001F\u007F]/g

/** Text that can be stored and read whatever it holds. */
function printable(text: string): string {
  const clean = text.replace(colours, '').replaceAll('\r\n', '\n').replace(controls, '').toWellFormed()
  if (clean.length <= textMaxChars) return clean
  return `${clean.slice(0, textMaxChars).toWellFormed()}\n[cut: ${clean.length - textMaxChars} more characters]`
}

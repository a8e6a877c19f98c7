/**
 * Reads from a task why its last run was not accepted, what it answered and what it changed. The line that closed the run recorded it,
 * bounded. Fields of other programs and older versions read as nothing. Pure.
 */
import { isObject } from '@bellwether/base'
import { reasonInWords, shortened } from '@bellwether/protocol'
import type { FailedCheck, TaskChanges, TaskFailure } from '@bellwether/protocol/http'
import {
  flag,
  integer,
  list,
  nullable,
  number,
  object,
  oneOf,
  optional,
  text,
  valid,
  withDefault,
} from '../../settings/shape.js'
import type { Problems } from '../policies/acceptance.js'
import type { Task } from '../log/task.js'

// Enough for the end of a test report.
const outputMaxChars = 4_000
const outputMaxLines = 50
const checksMax = 5
const filesMax = 20
const resultMaxChars = 4_000

const failedCheck = object({
  check: text(),
  problem: text(),
  exitCode: nullable(integer(-1_000)),
  durationMs: number(0),
  output: text(),
  note: withDefault(nullable(text()), null),
})
const recordedShape = object({
  runId: text(),
  files: list(object({ path: text(), problem: text() }), 0, filesMax),
  checks: list(failedCheck, 0, checksMax),
})
const spawnShape = object({ agent: text(), error: text({ min: 1 }) })
const fileVersion = optional(nullable(object({ bytes: integer(0), sha256: nullable(text()) })))
const changedFile = object({
  path: text(),
  change: nullable(oneOf(['added', 'changed', 'deleted'])),
  claimed: flag,
  before: fileVersion,
  after: fileVersion,
})
const changesShape = object({
  runId: text(),
  commit: nullable(text()),
  files: list(changedFile, 0, 1_000),
  moreFiles: integer(0),
  diff: nullable(text()),
  isCut: flag,
  note: nullable(text()),
})

/** What the line that closes a run records about a result that was not accepted. */
export function recordedFailure(runId: string, { files, checks }: Problems) {
  return {
    runId,
    files: files.slice(0, filesMax),
    checks: checks.slice(0, checksMax).map((one): FailedCheck => ({ ...one, output: lastLines(one.output) })),
  }
}

/** The payload that removes what was recorded about a result that was not accepted. */
export const failureCleared = ({ fields }: Pick<Task, 'fields'>) =>
  (fields['failure'] ?? null) === null ? {} : { failure: null }

/** The payload that records what the last run changed; null: nothing is known. */
export function recordedChanges({ fields }: Pick<Task, 'fields'>, changes: TaskChanges | null) {
  return changes === null && (fields['changes'] ?? null) === null ? {} : { changes }
}

const lineMaxChars = 200
// oxlint-disable-next-line no-control-regex
const colours = /\u001B\[[0-9;?]*[ -/]*[@-~]/g

/** The last line of an output; empty if it printed nothing. */
export function lastLine(output: string): string {
  return output.replaceAll(colours, '').trimEnd().split('\n').at(-1)!.trim().slice(-lineMaxChars).toWellFormed()
}

/** The end of an output, in full lines if possible, with a note about what is left out. */
function lastLines(output: string): string {
  const clean = output.replaceAll(colours, '').replaceAll('\r\n', '\n').trimEnd()
  const lines = clean.split('\n')
  let end = lines.slice(-outputMaxLines)
  while (end.length > 1 && end.join('\n').length > outputMaxChars) end = end.slice(1)
  const shown = end.join('\n').slice(-outputMaxChars).toWellFormed()
  return shown.length === clean.length ? shown : `[…]\n${shown}`
}

/** Why the task is blocked, in one line and without what checks printed: messages carry it out of the board. */
export function problemText(task: Pick<Task, 'status' | 'fields' | 'reason'>): string {
  const failure = failureOf(task)
  // A person may have blocked or escalated it since the run.
  const isCurrent = failure?.reasonCode === task.fields['reasonCode']
  return failure !== null && isCurrent ? failure.reason : reasonInWords(task.reason ?? 'blocked')
}

/** Null: the task is done, its last run was accepted, or it has none. */
export function failureOf({ status, fields }: Pick<Task, 'status' | 'fields'>): TaskFailure | null {
  const spawn = valid(spawnShape, fields['spawn'])
  if (status === 'done' || spawn === undefined) return null
  const { runId, agentTurnId, reasonCode } = fields['spawn'] as Readonly<Record<string, unknown>>
  const recorded = valid(recordedShape, fields['failure'])
  const own = recorded !== undefined && recorded.runId === runId ? recorded : undefined
  return {
    runId: typeof runId === 'string' ? runId : null,
    agent: spawn.agent,
    agentTurnId: typeof agentTurnId === 'string' ? agentTurnId : null,
    reasonCode: typeof reasonCode === 'string' ? reasonCode : 'failed',
    reason: spawn.error,
    files: own?.files ?? [],
    checks: own?.checks ?? [],
  }
}

/** Null: unknown. For lists: it checks no more than it counts. */
export function changedFilesOf({ fields: { changes } }: Pick<Task, 'fields'>): number | null {
  if (!isObject(changes)) return null
  const { files, moreFiles } = changes
  return Array.isArray(files) ? files.length + (typeof moreFiles === 'number' ? moreFiles : 0) : null
}

export const changesOf = ({ fields }: Pick<Task, 'fields'>): TaskChanges | null =>
  valid(changesShape, fields['changes']) ?? null

/** The summary or the text of the deliverable without what the failure says already; other fields as JSON. */
export function resultOf(task: Pick<Task, 'status' | 'fields'>): string | null {
  const { deliverable } = task.fields
  if (!isObject(deliverable)) return null
  const { summary, text: words, fallback: _why, files: _files, ...others } = deliverable
  const reason = failureOf(task)?.reason ?? ''
  const texts = [summary, words]
    .filter((part) => typeof part === 'string')
    .map((part) => (reason !== '' && part.startsWith(reason) ? part.slice(reason.length) : part).trim())
  const more = Object.keys(others).length === 0 ? '' : JSON.stringify(others)
  const all = [...texts, more].filter((part) => part !== '').join('\n\n')
  return all === '' ? null : shortened(all, resultMaxChars)
}

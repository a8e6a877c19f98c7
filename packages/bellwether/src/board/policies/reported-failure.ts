/**
 * Recognises a deliverable that reports failure, in the forms that agents use: a status, a flag such as `ok: false`, an error, an
 * exit code, or a text that begins with `[BLOCKED]` or contains such an object. A report of failure counts whatever files changed
 * (H6.5). Pure; acceptance.ts checks every other deliverable.
 */
import { isObject, parseJson } from '@bellwether/base'

export interface ReportedFailure {
  readonly reasonCode: 'blocked_signal' | 'spawn_failed' | 'incomplete_output'
  readonly detail: string
}

type Report = Readonly<Record<string, unknown>>

// A status is a word or a short phrase; a longer text is prose.
const phraseMaxChars = 80
const detailMaxChars = 2_000
const textMaxChars = 65_536
// A report has its status in its heading or in its summary.
const statusLines = 5
// `{"result": {"output": {"status": "failed"}}}`
const depthMax = 3

const statusKeys = ['status', 'state', 'outcome', 'verdict', 'conclusion', 'result', 'subtype'] as const
const successKeys = ['ok', 'success', 'succeeded', 'successful', 'passed', 'done', 'completed', 'complete'] as const
const failureKeys = ['failed', 'is_error', 'iserror', 'timed_out', 'timedout', 'cancelled', 'canceled'] as const
const exitKeys = ['exit_code', 'exitcode', 'returncode', 'return_code'] as const
const wrapperKeys = ['result', 'output', 'data', 'response', 'report', 'task', 'deliverable'] as const
const reasonKeys = ['reason', 'blocked_reason', 'blockedreason', 'message', 'detail', 'summary'] as const

const noFailure =
  /\b(?:no|zero|0|without(?:\s+any)?)[\s_-]+(?:errors?|failures?|failed|failing|blockers?|timeouts?)\b|\berror[\s_-]free\b/g
const negated =
  /\b(?:not|never|un|partially|partly|half)[\s_-]*(?:yet[\s_-]*)?(?:done|success\w*|succe\w+|complet\w+|finish\w*|resolved|passed)\b/
const blockedWords =
  /\b(?:blocked|stuck|needs?[\s-](?:input|help|info\w*|human|person|clarification|approval))\b|^block\b/
const failureWords =
  /\b(?:failed|failing|timed[\s-]?out|cancell?ed|aborted|crashed|rejected|denied|refused|killed|unable|cannot|gave[\s-]up|given[\s-]up|exhausted|unsuccessful)\b/
// Nouns that are also the object of work ("added error handling"): they count at the start or end of the phrase and before a mark.
const failureNouns =
  /^(?:fail|failures?|err|errors?|errored|time[\s-]?out|cancel|abort|crash|exceptions?)\b|\b(?:failures?|errors?|errored|time[\s-]?out|exceptions?|crash)(?=\s*(?:[:;,.!(\u2014-]|$))/
const openWords =
  /\b(?:in[\s_-]?progress|progress|pending|running|waiting|paused|partial\w*|incomplete|unfinished|todo|started|queued|wip)\b/

/** Null: the deliverable does not report a failure. */
export function reportedFailure(deliverable: Report | null): ReportedFailure | null {
  return deliverable === null ? null : failureIn(deliverable, 1)
}

function failureIn(raw: Report, depth: number): ReportedFailure | null {
  const report = new Map(Object.entries(raw).map(([key, value]) => [key.toLowerCase(), value]))
  const own =
    blockedFlag(report) ?? statusFailure(report) ?? flagFailure(report) ?? textFailure(report.get('text'), depth)
  if (own !== null || depth >= depthMax) return own
  for (const key of wrapperKeys) {
    const inner = report.get(key)
    const found = isObject(inner) ? failureIn(inner, depth + 1) : null
    if (found !== null) return found
  }
  return null
}

type LowerCase = ReadonlyMap<string, unknown>

function blockedFlag(report: LowerCase): ReportedFailure | null {
  const blocked = report.get('blocked')
  if (typeof blocked === 'string' && !isNothing(blocked))
    return { reasonCode: 'blocked_signal', detail: bounded(blocked) }
  if (!isTrue(blocked)) return null
  return { reasonCode: 'blocked_signal', detail: reasonIn(report) ?? 'the agent reported that it is blocked' }
}

function statusFailure(report: LowerCase): ReportedFailure | null {
  for (const key of statusKeys) {
    const value = report.get(key)
    if (typeof value !== 'string') continue
    const reasonCode = codeOf(value, key)
    if (reasonCode === null) continue
    const why = errorIn(report) ?? reasonIn(report)
    const status = `the agent reported ${key} "${value.trim().slice(0, phraseMaxChars)}"`
    return {
      reasonCode,
      detail: reasonCode === 'blocked_signal' ? (why ?? status) : why === null ? status : `${status}: ${why}`,
    }
  }
  return null
}

/** What a status means: a failure, or work that has not ended. Null: neither. */
function codeOf(value: string, key: (typeof statusKeys)[number]): ReportedFailure['reasonCode'] | null {
  const text = value.trim().toLowerCase()
  // `result` may be prose: only a short phrase is a status.
  if (key !== 'status' && text.length > phraseMaxChars) return null
  const phrase = text.slice(0, phraseMaxChars).replaceAll(noFailure, ' ').replaceAll('_', ' ')
  if (blockedWords.test(phrase)) return 'blocked_signal'
  if (failureWords.test(phrase) || failureNouns.test(phrase)) return 'spawn_failed'
  if (negated.test(phrase) || openWords.test(phrase)) return 'incomplete_output'
  return null
}

function flagFailure(report: LowerCase): ReportedFailure | null {
  const error = errorIn(report)
  if (error !== null) return { reasonCode: 'spawn_failed', detail: `the agent reported an error: ${error}` }
  const flag =
    successKeys.find((key) => isFalse(report.get(key), key)) ??
    failureKeys.find((key) => isTrue(report.get(key))) ??
    exitKeys.find((key) => Number.isInteger(report.get(key)) && report.get(key) !== 0)
  if (flag === undefined) return null
  const why = reasonIn(report)
  const shown = `the agent reported ${flag}: ${JSON.stringify(report.get(flag))}`
  return { reasonCode: 'spawn_failed', detail: why === null ? shown : `${shown} (${why})` }
}

/**
 * A text reports failure by the mark of a blocked task, by a fenced JSON object at its end, or by a line `status: …` near its start or
 * end. Other objects and lines are examples and quotations: an agent that documents an error response has not failed.
 */
function textFailure(raw: unknown, depth: number): ReportedFailure | null {
  if (typeof raw !== 'string' || depth >= depthMax) return null
  const text = raw.length <= textMaxChars ? raw : raw.slice(-textMaxChars)
  const blocked = /^\s*\[BLOCKED\]\s*(.*)/i.exec(text)
  if (blocked !== null)
    return {
      reasonCode: 'blocked_signal',
      detail: bounded(blocked[1] ?? '') || 'the agent reported that it is blocked',
    }
  const { outside, atEnd } = fenced(text)
  const parsed = atEnd === undefined ? undefined : parseJson(atEnd)
  if (isObject(parsed)) return failureIn(parsed, depth + 1)
  const lines = outside.filter((line) => line.trim() !== '')
  const status = [...lines.slice(0, statusLines), ...lines.slice(-statusLines)]
    .map((line) => /^[\s*#-]*status[\s*]*[:=][\s*]*(\S.*)$/i.exec(line)?.[1])
    .findLast((found) => found !== undefined)
  return status === undefined ? null : statusFailure(new Map([['status', status.slice(0, phraseMaxChars)]]))
}

/** The lines outside fenced blocks, and the block at the end of the text. One pass: an agent wrote the text. */
function fenced(text: string): { readonly outside: readonly string[]; readonly atEnd: string | undefined } {
  const lines = text.split('\n')
  const outside: string[] = []
  let from: number | undefined
  let atEnd: string | undefined
  for (const [at, line] of lines.entries()) {
    if (from !== undefined) {
      if (!/^\s*```[ \t\r]*$/.test(line)) continue
      atEnd = lines.slice(from, at).join('\n')
      from = undefined
    } else if (/^\s*```[^`]*$/.test(line)) from = at + 1
    else {
      outside.push(line)
      if (line.trim() !== '') atEnd = undefined
    }
  }
  // A block that never ends is text.
  return from === undefined ? { outside, atEnd } : { outside: outside.concat(lines.slice(from - 1)), atEnd: undefined }
}

function errorIn(report: LowerCase): string | null {
  const error = report.get('error')
  if (isTrue(error)) return reasonIn(report) ?? 'true'
  if (typeof error === 'string') return isNothing(error) ? null : bounded(error)
  if (!isObject(error) || Object.keys(error).length === 0) return null
  const message = error['message'] ?? error['code']
  return bounded(typeof message === 'string' && message !== '' ? message : JSON.stringify(error))
}

function reasonIn(report: LowerCase): string | null {
  const reason = reasonKeys
    .map((key) => report.get(key))
    .find((value) => typeof value === 'string' && value.trim() !== '')
  return typeof reason === 'string' ? bounded(reason) : null
}

const bounded = (text: string): string => text.trim().slice(0, detailMaxChars).toWellFormed()
const isNothing = (text: string): boolean =>
  /^(?:none|null|nil|no|false|n\/a|no errors?|0|-)?\s*\.?$/i.test(text.trim())
/** 0 is false for `ok` and `success`; for the others it may be a count. */
const isFalse = (value: unknown, key: string): boolean =>
  value === false ||
  (value === 0 && (key === 'ok' || key === 'success')) ||
  (typeof value === 'string' && /^\s*(?:false|no)\s*$/i.test(value))
const isTrue = (value: unknown): boolean =>
  value === true || (typeof value === 'string' && /^\s*(?:true|yes)\s*$/i.test(value))

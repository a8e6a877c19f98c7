/**
 * What the checks of a case say about the end of a turn. Everything except commands and judges is decided here, without I/O; each pattern has a
 * time limit, because a pattern may take exponential time.
 */
import { runInNewContext } from 'node:vm'
import { canonicalJson, errorMessage, isDeeper, isObject, objectOf, parseJson } from '@bellwether/base'
import { evalCheckKinds, shortened, type EvalCheckKind } from '@bellwether/protocol'
import type { EvalCheck, EvalChecked } from '@bellwether/protocol/http'
import { checkArguments } from '../worker/tools/arguments.js'

export interface TurnEnd {
  readonly outcome: string
  readonly error: string | null
  /** The deliverable. */
  readonly content: unknown
  readonly costMicros: number
  readonly tokens: number
  readonly durationMs: number | null
}

// A pattern blocks the process while it runs; honest ones take microseconds.
const patternMs = 100
const reasonMax = 500
// As deep as a card may be. The text of a card may contain JSON of any depth.
const depthMax = 64

export const kindOf = (check: EvalCheck): EvalCheckKind => evalCheckKinds.find((kind) => check[kind] !== undefined)!

/** What a person calls the check. */
export function checkTitle(check: EvalCheck): string {
  const kind = kindOf(check)
  const value = check[kind]
  if (check.name !== undefined) return check.name
  if (kind === 'judge') return `judge ${objectOf(value)['agent'] as string}`
  if (kind === 'fields' || kind === 'json_schema') return kind
  return cut(`${kind} ${typeof value === 'string' || typeof value === 'number' ? value : JSON.stringify(value)}`, 80)
}

/** The text that a person reads: the text of the deliverable, or its fields as JSON. */
export function outputOf(content: unknown): string {
  const { text, fields } = objectOf(content)
  if (typeof text === 'string') return text
  return JSON.stringify(Array.isArray(fields) ? fieldsOf(content) : (content ?? null), null, 2)
}

/** The fields of the deliverable, or of the JSON object that its text is. */
export function fieldsOf(content: unknown): Readonly<Record<string, unknown>> | undefined {
  const { text, fields } = objectOf(content)
  if (Array.isArray(fields))
    return Object.fromEntries(fields.map((one) => [String(objectOf(one)['name']), objectOf(one)['value']]))
  const parsed = typeof text === 'string' ? parseJson(withoutFence(text)) : undefined
  return isObject(parsed) ? parsed : undefined
}

/** Models often put JSON into a fenced block. */
const withoutFence = (text: string) => /^```(?:json)?[^\S\n]*\n([\s\S]*)\n```$/.exec(text.trim())?.[1] ?? text

/** The turn must have succeeded before its output counts. */
export function outcomeCheck({ outcome, error }: Pick<TurnEnd, 'outcome' | 'error'>): EvalChecked {
  const reason =
    outcome === 'success' ? 'the turn succeeded' : `the turn ended as ${outcome}${error === null ? '' : `: ${error}`}`
  return { check: 'outcome', kind: 'outcome', passed: outcome === 'success', reason, agent_turn_id: null }
}

/** Undefined: a command or a judge decides. */
export function decide(check: EvalCheck, end: TurnEnd): EvalChecked | undefined {
  const kind = kindOf(check)
  const verdict = verdictOf(check, end)
  if (verdict === undefined) return undefined
  return {
    check: checkTitle(check),
    kind,
    passed: verdict.passed,
    reason: cut(verdict.reason, reasonMax),
    agent_turn_id: null,
  }
}

interface Verdict {
  readonly passed: boolean
  readonly reason: string
}
const verdict = (passed: boolean, yes: string, no: string): Verdict => ({ passed, reason: passed ? yes : no })
const listOf = (value: string | readonly string[]) => (typeof value === 'string' ? [value] : value)
const quoted = (value: string) => JSON.stringify(cut(value, 120))

function verdictOf(check: EvalCheck, end: TurnEnd): Verdict | undefined {
  const output = outputOf(end.content)
  if (check.contains !== undefined) {
    const missing = listOf(check.contains).find((part) => !output.includes(part))
    return verdict(
      missing === undefined,
      'the output contains it',
      `the output does not contain ${quoted(missing ?? '')}`,
    )
  }
  if (check.not_contains !== undefined) {
    const found = listOf(check.not_contains).find((part) => output.includes(part))
    return verdict(found === undefined, 'the output does not contain it', `the output contains ${quoted(found ?? '')}`)
  }
  if (check.equals !== undefined)
    return verdict(output.trim() === check.equals.trim(), 'the output is equal', `the output is ${quoted(output)}`)
  if (check.matches !== undefined) return matched(check.matches, output)
  if (check.fields !== undefined) return sameFields(check.fields, fieldsOf(end.content))
  if (check.json_schema !== undefined) return fits(check.json_schema, fieldsOf(end.content))
  if (check.max_cost_usd !== undefined) {
    const usd = end.costMicros / 1e6
    return verdict(usd <= check.max_cost_usd, `it cost $${usd}`, `it cost $${usd}, the limit is $${check.max_cost_usd}`)
  }
  if (check.max_seconds !== undefined) {
    const seconds = (end.durationMs ?? 0) / 1_000
    return verdict(
      seconds <= check.max_seconds,
      `it took ${seconds} s`,
      `it took ${seconds} s, the limit is ${check.max_seconds} s`,
    )
  }
  if (check.max_tokens !== undefined)
    return verdict(
      end.tokens <= check.max_tokens,
      `it used ${end.tokens} tokens`,
      `it used ${end.tokens} tokens, the limit is ${check.max_tokens}`,
    )
  return undefined
}

function matched(pattern: string, output: string): Verdict {
  try {
    const found = runInNewContext(
      'new RegExp(pattern, "u").test(output)',
      { pattern, output },
      { timeout: patternMs },
    ) as boolean
    return verdict(found, 'the output matches', `the output does not match ${quoted(pattern)}`)
  } catch (error) {
    // The error comes from another context, where Error is another class. Some patterns are compiled, and found too large, at their first use.
    const { code, message } = error as { readonly code?: unknown; readonly message?: unknown }
    const why =
      code === 'ERR_SCRIPT_EXECUTION_TIMEOUT'
        ? `took longer than ${patternMs} ms on this output; write one without nested repetition`
        : `cannot be applied: ${String(message)}`
    return { passed: false, reason: `the pattern ${quoted(pattern)} ${why}` }
  }
}

/** Why a text is not a pattern. Undefined: it is one. */
export function patternProblem(pattern: string): string | undefined {
  try {
    return void new RegExp(pattern, 'u')
  } catch (error) {
    return errorMessage(error).replace(/^Invalid regular expression: /, '')
  }
}

const noObject: Verdict = { passed: false, reason: 'the output has no fields and is not a JSON object' }

function sameFields(
  wanted: Readonly<Record<string, unknown>>,
  fields: Readonly<Record<string, unknown>> | undefined,
): Verdict {
  if (fields === undefined) return noObject
  if (isDeeper(fields, depthMax))
    return { passed: false, reason: `the output is nested more than ${depthMax} levels deep` }
  for (const [name, value] of Object.entries(wanted)) {
    if (!Object.hasOwn(fields, name)) return { passed: false, reason: `the field ${quoted(name)} is missing` }
    if (canonicalJson(fields[name]) !== canonicalJson(value))
      return {
        passed: false,
        reason: `the field ${quoted(name)} is ${cut(JSON.stringify(fields[name]), 120)}, not ${cut(JSON.stringify(value), 120)}`,
      }
  }
  return { passed: true, reason: 'the fields are equal' }
}

function fits(
  schema: Readonly<Record<string, unknown>>,
  fields: Readonly<Record<string, unknown>> | undefined,
): Verdict {
  if (fields === undefined) return noObject
  // Patterns of the schema are not executed: `matches` has a time limit.
  const found = checkArguments(fields, { parameters: schema, foreign: true })
  return 'args' in found
    ? { passed: true, reason: 'the fields fit the schema' }
    : { passed: false, reason: found.refuse.message }
}

/** Well-formed, because the database stores it. */
export const cut = (text: string, max: number) => shortened(text, max).replaceAll('\0', '�').toWellFormed()

/** The commands of these suites, for `isTrusted`. */
export function commandsOf(
  suites: readonly {
    readonly checks: readonly EvalCheck[]
    readonly cases: readonly { readonly checks: readonly EvalCheck[] }[]
  }[],
): ReadonlySet<string> {
  const checks = suites.flatMap((suite) => [...suite.checks, ...suite.cases.flatMap((one) => one.checks)])
  return new Set(checks.flatMap(({ command }) => (command === undefined ? [] : [canonicalJson(command)])))
}

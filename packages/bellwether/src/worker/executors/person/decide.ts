/**
 * What comes next in a turn that asks people: ask the first, ask again with what was wrong, ask the next, let another agent answer,
 * or end. Pure: the asks so far are all it knows. Always: every path is finite, and its end says who was asked, when, and what
 * came of it.
 */
import type { FieldSpec } from '../../../kernel/verbs/cards.js'
import type { TurnAction } from '../../agent.js'
import { judge } from './read-answer.js'
import { objectOf, type Ask } from './asks.js'
import { anyone, fallbackAgent, fallbackSeconds, peopleOf, withinSeconds, type PersonSpec } from './spec.js'

export const askTool = 'ask_person'
export const fallbackTool = 'delegate'

export type Next =
  | { readonly what: 'ask'; readonly to: string; readonly seconds: number; readonly refused?: string }
  | { readonly what: 'fallback'; readonly agent: string; readonly seconds: number; readonly told: string }
  | { readonly what: 'end'; readonly action: Extract<TurnAction, { readonly deliver: unknown }> }

export interface Situation {
  readonly spec: PersonSpec
  readonly asks: readonly Ask[]
  readonly wanted: readonly FieldSpec[]
  /** The end of the turn, and the latest time that is known, both as the database tells them. */
  readonly turnDeadline: Date
  readonly knownAt: Date | undefined
}

// Whoever was told twice what is wrong with an answer will not find it.
const answersMax = 3
// Below this nobody can read a question, let alone answer it.
const leastSeconds = 1

export function decide(situation: Situation): Next {
  const { spec, asks, wanted } = situation
  const last = asks.at(-1)
  if (last === undefined) return askNext(situation)
  if (last.toolName === fallbackTool) return fallbackEnded(situation, last)
  if (last.answer?.status !== 'success' && last.answer?.status !== 'partial') return askNext(situation)
  const judgement = judge(last.answer.result, wanted, choicesOf(last, spec))
  if ('good' in judgement) return { what: 'end', action: { deliver: judgement.good } }
  const to = nameOf(last)
  const before = asks.filter((ask) => ask.toolName === askTool && nameOf(ask) === to)
  const seconds = Math.min(leftOf(before, last, spec), roomSeconds(situation))
  if (before.length >= answersMax || seconds < leastSeconds) return askNext(situation)
  return { what: 'ask', to, seconds, refused: judgement.refused }
}

/** The next person who was not asked yet; then the fallback; then the end. */
function askNext(situation: Situation): Next {
  const { spec, asks } = situation
  const asked = new Set(asks.map(nameOf))
  const room = roomSeconds(situation)
  const to = peopleOf(spec).find((name) => !asked.has(name))
  if (room < leastSeconds) return nobody(situation, 'There was no time left in the turn to ask anybody else.')
  if (to !== undefined) return { what: 'ask', to, seconds: Math.min(withinSeconds(spec), room) }
  const agent = fallbackAgent(spec)
  if (agent === undefined) return nobody(situation)
  return { what: 'fallback', agent, seconds: Math.min(fallbackSeconds, room), told: story(situation) }
}

function fallbackEnded(situation: Situation, ask: Ask): Next {
  const { status, content } = taskOf(ask)
  if (status !== 'success') return nobody(situation)
  const { text, fields } = objectOf(content)
  if (Array.isArray(fields)) return { what: 'end', action: { deliver: { fields } } }
  return {
    what: 'end',
    action: { deliver: { text: typeof text === 'string' ? text : JSON.stringify(content ?? null) } },
  }
}

/** What the answer of a batch of one says of its task. */
function taskOf({ answer }: Ask): { readonly status?: string; readonly error?: string; readonly content?: unknown } {
  const { tasks } = objectOf(answer?.result)
  const { status, error, content } = objectOf(Array.isArray(tasks) ? tasks[0] : undefined)
  return {
    ...(typeof status === 'string' ? { status } : {}),
    ...(typeof error === 'string' ? { error } : {}),
    content,
  }
}

function nobody(situation: Situation, more = ''): Next {
  const text = ['Nobody answered.', story(situation), more].filter((part) => part !== '').join('\n\n')
  return { what: 'end', action: { deliver: { text }, status: 'failed', error: 'nobody_answered' } }
}

// A story is told on a card beside others; each line of it in a breath.
const reasonMaxChars = 500

function story({ asks, spec, wanted }: Situation): string {
  return asks.map((ask) => `- ${line(ask, spec, wanted)}`).join('\n')
}

function line(ask: Ask, spec: PersonSpec, wanted: readonly FieldSpec[]): string {
  const { answer } = ask
  const asked = ask.at === undefined ? 'asked' : `asked at ${ask.at.toISOString()}`
  const reason = [answer?.error?.message, answer?.error?.code].find((one) => typeof one === 'string' && one !== '')
  const because = reason === undefined ? '' : `: ${reason.slice(0, reasonMaxChars)}`
  if (ask.toolName === fallbackTool) {
    const { status = answer?.status ?? 'no answer', error } = taskOf(ask)
    const agent = typeof ask.args['agent'] === 'string' ? ask.args['agent'] : (fallbackAgent(spec) ?? '')
    const why = error === undefined ? because : `: ${error}`
    return `agent ${agent}, ${asked} to answer in their place: ${status}${why}`
  }
  const who = `${nameOf(ask)}, ${asked}`
  if (answer === undefined || answer.status === 'timeout') {
    const seconds = ask.args['answer_within_seconds']
    return `${who}: no answer${typeof seconds === 'number' ? ` within ${Math.round(seconds)} s` : ''}`
  }
  if (answer.status !== 'success' && answer.status !== 'partial') return `${who}: declined${because}`
  const judgement = judge(answer.result, wanted, choicesOf(ask, spec))
  return `${who}: answered, but ${'refused' in judgement ? judgement.refused : 'too late'}`
}

function nameOf({ args }: Ask): string {
  return typeof args['to'] === 'string' ? args['to'] : anyone
}

/** As the question said it: the file may have changed since. */
function choicesOf({ args }: Ask, spec: PersonSpec): readonly string[] {
  const told = args['choices']
  if (Array.isArray(told)) return told.filter((one) => typeof one === 'string')
  return Object.keys(args).length === 0 ? (spec.choices ?? []) : []
}

/** A second question does not start the clock again. */
function leftOf(before: readonly Ask[], last: Ask, spec: PersonSpec): number {
  const first = before[0]?.at
  const answered = last.answer?.at
  if (first === undefined || answered === undefined) return withinSeconds(spec)
  return withinSeconds(spec) - (answered.getTime() - first.getTime()) / 1_000
}

/** What is left of the turn, less a part for saying how it ended. */
function roomSeconds({ turnDeadline, knownAt }: Situation): number {
  if (knownAt === undefined) return Infinity
  const left = (turnDeadline.getTime() - knownAt.getTime()) / 1_000
  return left - Math.min(60, left * 0.1)
}

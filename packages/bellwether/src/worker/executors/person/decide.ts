/**
 * Decides the next step of a person's turn: ask the first person, ask again with the reason for a rejection, ask the next person,
 * let the fallback agent answer, or end. Pure: it depends only on the asks so far. Every path is finite, and its ending reports who
 * was asked, when, and with which result.
 */
import { defined, objectOf } from '@bellwether/base'
import type { FieldSpec } from '../../../kernel/verbs/cards.js'
import type { TurnAction } from '../../agent.js'
import type { Ask } from './asks.js'
import { readAnswer } from './read-answer.js'
import { anyone, fallbackAgent, fallbackSeconds, peopleOf, withinSeconds, type PersonSpec } from './spec.js'

export const askTool = 'ask_person'
export const fallbackTool = 'delegate'

export type Next =
  | { readonly what: 'ask'; readonly to: string; readonly seconds: number; readonly refused?: string }
  | { readonly what: 'fallback'; readonly agent: string; readonly seconds: number; readonly report: string }
  | { readonly what: 'end'; readonly action: Extract<TurnAction, { readonly deliver: unknown }> }

export interface Situation {
  readonly spec: PersonSpec
  readonly asks: readonly Ask[]
  readonly wanted: readonly FieldSpec[]
  /** The end of the turn and the latest known time, both in database time. */
  readonly turnDeadline: Date
  readonly knownAt: Date | undefined
}

// Ask the next person after three rejected answers.
const answersMax = 3
// Too short for a person to read and answer a question.
const leastSeconds = 1

export function decide(situation: Situation): Next {
  const { spec, asks, wanted } = situation
  const last = asks.at(-1)
  if (last === undefined) return askNext(situation)
  if (last.toolName === fallbackTool) return fallbackEnded(situation, last)
  if (last.answer?.status !== 'success' && last.answer?.status !== 'partial') return askNext(situation)
  const verdict = readAnswer(last.answer.result, wanted, choicesOf(last, spec))
  if ('accepted' in verdict) return { what: 'end', action: { deliver: verdict.accepted } }
  const to = nameOf(last)
  const before = asks.filter((ask) => ask.toolName === askTool && nameOf(ask) === to)
  const seconds = Math.min(leftOf(before, last, spec), roomSeconds(situation))
  if (before.length >= answersMax || seconds < leastSeconds) return askNext(situation)
  return { what: 'ask', to, seconds, refused: verdict.rejected }
}

/** The next person who was not asked yet, then the fallback, then the end. */
function askNext(situation: Situation): Next {
  const { spec, asks } = situation
  const namesAsked = new Set(asks.map(nameOf))
  const room = roomSeconds(situation)
  const to = peopleOf(spec).find((name) => !namesAsked.has(name))
  if (room < leastSeconds) return noAnswer(situation, 'The turn had no time left to ask anyone else.')
  if (to !== undefined) return { what: 'ask', to, seconds: Math.min(withinSeconds(spec), room) }
  const agent = fallbackAgent(spec)
  if (agent === undefined) return noAnswer(situation)
  return { what: 'fallback', agent, seconds: Math.min(fallbackSeconds, room), report: reportOf(situation) }
}

function fallbackEnded(situation: Situation, ask: Ask): Next {
  const { status, content } = taskOf(ask)
  if (status !== 'success') return noAnswer(situation)
  const { text, fields } = objectOf(content)
  if (Array.isArray(fields)) return { what: 'end', action: { deliver: { fields } } }
  return {
    what: 'end',
    action: { deliver: { text: typeof text === 'string' ? text : JSON.stringify(content ?? null) } },
  }
}

/** The result of the only task in the fallback's batch. */
function taskOf({ answer }: Ask): { readonly status?: string; readonly error?: string; readonly content?: unknown } {
  const { tasks } = objectOf(answer?.result)
  const { status, error, content } = objectOf(Array.isArray(tasks) ? tasks[0] : undefined)
  return {
    ...defined({
      status: typeof status === 'string' ? status : undefined,
      error: typeof error === 'string' ? error : undefined,
    }),
    content,
  }
}

function noAnswer(situation: Situation, more = ''): Next {
  const text = ['No one answered.', reportOf(situation), more].filter((part) => part !== '').join('\n\n')
  return { what: 'end', action: { deliver: { text }, status: 'failed', error: 'nobody_answered' } }
}

// The report is part of a card, so each line stays short.
const reasonMaxChars = 500

function reportOf({ asks, spec, wanted }: Situation): string {
  return asks.map((ask) => `- ${line(ask, spec, wanted)}`).join('\n')
}

function line(ask: Ask, spec: PersonSpec, wanted: readonly FieldSpec[]): string {
  const { answer } = ask
  const when = ask.at === undefined ? 'asked' : `asked at ${ask.at.toISOString()}`
  const reason = [answer?.error?.message, answer?.error?.code].find((one) => typeof one === 'string' && one !== '')
  const because = reason === undefined ? '' : `: ${reason.slice(0, reasonMaxChars)}`
  if (ask.toolName === fallbackTool) {
    const { status = answer?.status ?? 'no answer', error } = taskOf(ask)
    const agent = typeof ask.args['agent'] === 'string' ? ask.args['agent'] : (fallbackAgent(spec) ?? '')
    return `agent ${agent}, ${when} to answer in their place: ${status}${error === undefined ? because : `: ${error}`}`
  }
  const who = `${nameOf(ask)}, ${when}`
  if (answer === undefined || answer.status === 'timeout') {
    const seconds = ask.args['answer_within_seconds']
    return `${who}: no answer${typeof seconds === 'number' ? ` within ${Math.round(seconds)} s` : ''}`
  }
  if (answer.status !== 'success' && answer.status !== 'partial') return `${who}: declined${because}`
  const verdict = readAnswer(answer.result, wanted, choicesOf(ask, spec))
  return `${who}: answered, but ${'rejected' in verdict ? verdict.rejected : 'too late'}`
}

function nameOf({ args }: Ask): string {
  return typeof args['to'] === 'string' ? args['to'] : anyone
}

/** The choices of the question itself, because the agent file may have changed since. */
function choicesOf({ args }: Ask, spec: PersonSpec): readonly string[] {
  const { choices } = args
  if (Array.isArray(choices)) return choices.filter((choice) => typeof choice === 'string')
  return Object.keys(args).length === 0 ? (spec.choices ?? []) : []
}

/** The rest of the person's time: asking again does not extend it. */
function leftOf(before: readonly Ask[], last: Ask, spec: PersonSpec): number {
  const first = before[0]?.at
  const answered = last.answer?.at
  if (first === undefined || answered === undefined) return withinSeconds(spec)
  return withinSeconds(spec) - (answered.getTime() - first.getTime()) / 1_000
}

/** The rest of the turn's time, minus a reserve for its ending. */
function roomSeconds({ turnDeadline, knownAt }: Situation): number {
  if (knownAt === undefined) return Infinity
  const left = (turnDeadline.getTime() - knownAt.getTime()) / 1_000
  return left - Math.min(60, left * 0.1)
}

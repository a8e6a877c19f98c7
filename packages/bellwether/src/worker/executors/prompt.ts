/**
 * Renders the prompt that a command reads on stdin: instructions, context, memory, task and the form of the answer. Pure and
 * bounded: the task and the instructions are always complete; of the rest, the newest cards that fit, with a note about omissions.
 */
import type { Card, FieldSpec } from '../../kernel/verbs/cards.js'
import type { ClaimedTurn } from '../../kernel/verbs/turn/claim.js'
import { fieldList, oldestFirst, section, textOf } from '../card-text.js'
import type { RunStart } from './session.js'

export interface PromptParts {
  readonly instructions: string
  readonly context: readonly Pick<Card, 'type' | 'role' | 'content'>[]
  /** Cards of earlier turns. */
  readonly memory?: readonly Pick<Card, 'type' | 'role' | 'content'>[]
  /** Cards that this turn has written. */
  readonly output: readonly Pick<Card, 'type' | 'role' | 'content'>[]
  /** Whether there are older cards that were not read. */
  readonly truncated?: { readonly context: boolean; readonly memory: boolean; readonly output: boolean }
  readonly wanted: readonly FieldSpec[]
  /** Messages to the turn, as text. */
  readonly messages?: string | undefined
  /** Identifies the session that starts with this prompt. */
  readonly mark?: string | undefined
  /** Whether an earlier worker was interrupted in this turn. */
  readonly takenOver: boolean
  /** Whether the session that is resumed may contain this prompt, and the work on it. */
  readonly mayBeKnown?: boolean
}

// About 60,000 tokens: every coding agent accepts them and has room left to work.
const contextMaxChars = 200_000
const memoryMaxChars = 40_000

export function renderPrompt(parts: PromptParts): string {
  const { instructions, context, memory = [], output, truncated, wanted, takenOver } = parts
  const tasks = context.filter((card) => card.type === 'task.instruction')
  const others = context.filter((card) => !['task.instruction', 'task.result_fields'].includes(card.type))
  const sections = [
    section('Instructions', instructions),
    section('Context', newest(others, contextMaxChars, truncated?.context)),
    section('Earlier turns', newest(memory, memoryMaxChars, truncated?.memory)),
    section('What you did earlier in this turn', newest(output, memoryMaxChars, truncated?.output)),
    section('Task', tasks.map((card) => textOf(card.content)).join('\n\n')),
    section('Messages', parts.messages ?? ''),
    section('Answer', answerForm(wanted)),
    section('Interrupted work', parts.mayBeKnown === true ? repeatNote : takenOver ? takeoverNote : ''),
    parts.mark ?? '',
  ]
  return joined(sections)
}

const joined = (sections: readonly string[]) => `${sections.filter((part) => part !== '').join('\n\n')}\n`

/**
 * The prompt of a run. A session that is resumed contains the instructions and the task: a run that continues its own work gets a note, and
 * a retry or a follow-up gets what is new. `resume_prompt` of the payload says what is new in a retry.
 */
export function promptOf(start: RunStart, parts: PromptParts, turn: Pick<ClaimedTurn, 'payload'>): string {
  if (start === 'fresh') return renderPrompt(parts)
  if (start === 'messages')
    return joined([section('Messages', parts.messages ?? ''), section('Answer', answerForm(parts.wanted))])
  if (start === 'continue')
    return joined([
      section('Interrupted work', continuationNote),
      section('Messages', parts.messages ?? ''),
      section('Answer', answerForm(parts.wanted)),
    ])
  const news = turn.payload['resume_prompt']
  const context: PromptParts['context'] =
    typeof news === 'string' ? [{ type: 'task.instruction', role: 'user', content: { text: news } }] : parts.context
  return renderPrompt({ ...parts, instructions: '', memory: [], context })
}

const continuationNote = `You were interrupted in the middle of the task, because the worker that ran you was lost. What you changed until then was not undone.
Check the current state, continue where you stopped, and do not repeat work that is already done.`

const takeoverNote = `This turn was interrupted before, and what was changed until then was not undone.
Check the current state before you continue, and do not repeat work that is already done.`

const repeatNote = `The worker that ran you was lost. This conversation may contain the same request already, with your work on it. What you changed was not undone.
If you worked on it, check the current state, continue where you stopped, and do not repeat work that is already done. If you finished it, give your answer again.`

function answerForm(wanted: readonly FieldSpec[]): string {
  if (wanted.length === 0) return ''
  return `End with one JSON object and nothing after it. The object has these fields:\n\n${fieldList(wanted)}`
}

/** The newest cards that fit, oldest first. */
function newest(cards: PromptParts['context'], maxChars: number, truncated = false): string {
  const shown: string[] = []
  let chars = 0
  for (const card of cards.toReversed()) {
    const text = `## ${card.type} (${card.role})\n\n${textOf(card.content)}`
    const room = maxChars - chars
    if (text.length > room) {
      if (shown.length === 0) shown.push(`${text.slice(0, room)}\n[cut: ${text.length - room} more characters]`)
      break
    }
    chars += text.length
    shown.push(text)
  }
  return oldestFirst(shown, cards.length, truncated)
}

/**
 * Renders the prompt that a command reads on stdin: instructions, context, memory, task and the form of the answer. Pure and
 * bounded: the task and the instructions are always complete; of the rest, the newest cards that fit, with a note about omissions.
 */
import type { Card, FieldSpec } from '../../kernel/verbs/cards.js'
import { fieldList, oldestFirst, section, textOf } from '../card-text.js'

export interface PromptParts {
  readonly instructions: string
  readonly context: readonly Pick<Card, 'type' | 'role' | 'content'>[]
  readonly output: readonly Pick<Card, 'type' | 'role' | 'content'>[]
  /** Whether the boxes hold older cards that were not read. */
  readonly truncated?: { readonly context: boolean; readonly output: boolean }
  readonly wanted: readonly FieldSpec[]
  /** Whether an earlier worker was interrupted in this turn. */
  readonly takenOver: boolean
}

// About 60,000 tokens: every coding agent accepts them and has room left to work.
const contextMaxChars = 200_000
const memoryMaxChars = 40_000

export function renderPrompt({ instructions, context, output, truncated, wanted, takenOver }: PromptParts): string {
  const tasks = context.filter((card) => card.type === 'task.instruction')
  const others = context.filter((card) => !['task.instruction', 'task.result_fields'].includes(card.type))
  const parts = [
    section('Instructions', instructions),
    section('Context', newest(others, contextMaxChars, truncated?.context)),
    section('What you did earlier', newest(output, memoryMaxChars, truncated?.output)),
    section('Task', tasks.map((card) => textOf(card.content)).join('\n\n')),
    section('Answer', answerForm(wanted)),
    section('Interrupted work', takenOver ? takeoverNote : ''),
  ]
  return `${parts.filter((part) => part !== '').join('\n\n')}\n`
}

const takeoverNote = `This turn was interrupted before, and what was changed until then was not undone.
Check the current state before you continue, and do not repeat work that is already done.`

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

/**
 * What a command reads on stdin: its instructions, the task, what it may know, and what the answer must hold, in plain words.
 * Pure and bounded: the task and the instructions are always there; of the rest the newest, with a note of what was left out.
 */
import type { Card, FieldSpec } from '../../kernel/verbs/cards.js'

export interface Prompting {
  readonly instructions: string
  readonly context: readonly Pick<Card, 'type' | 'role' | 'content'>[]
  readonly output: readonly Pick<Card, 'type' | 'role' | 'content'>[]
  readonly wanted: readonly FieldSpec[]
  /** Which attempt this is: more than 1 means that an earlier one was cut off. */
  readonly attempt: number
}

// About 60,000 tokens: what every coding agent takes, with room to work in.
const contextMaxChars = 200_000
const memoryMaxChars = 40_000

export function renderPrompt({ instructions, context, output, wanted, attempt }: Prompting): string {
  const tasks = context.filter((card) => card.type === 'task.instruction')
  const others = context.filter((card) => !['task.instruction', 'task.result_fields'].includes(card.type))
  const parts = [
    section('Instructions', instructions),
    section('Context', newest(others, contextMaxChars)),
    section('What you did earlier', newest(output, memoryMaxChars)),
    section('Task', tasks.map((card) => bodyOf(card.content)).join('\n\n')),
    section('Answer', answerForm(wanted)),
    section('Earlier attempt', attempt > 1 ? cutOff(attempt) : ''),
  ]
  return `${parts.filter((part) => part !== '').join('\n\n')}\n`
}

const section = (title: string, body: string) => (body.trim() === '' ? '' : `# ${title}\n\n${body.trim()}`)

function cutOff(attempt: number): string {
  return `This is attempt ${attempt}: an earlier one was cut off, and what it had done by then was not undone.
Look at what is there before you go on, and do not repeat what has already happened.`
}

function answerForm(wanted: readonly FieldSpec[]): string {
  if (wanted.length === 0) return ''
  const fields = wanted.map((field) => {
    const facts = [field.type, field.required === true ? 'required' : undefined].filter((fact) => fact !== undefined)
    return `- ${field.name}${facts.length > 0 ? ` (${facts.join(', ')})` : ''}${field.description === undefined ? '' : `: ${field.description}`}`
  })
  return `End with one JSON object and nothing after it, with these fields:\n\n${fields.join('\n')}`
}

/** The newest cards that fit, oldest first. */
function newest(cards: Prompting['context'], maxChars: number): string {
  const kept: string[] = []
  let chars = 0
  for (const card of cards.toReversed()) {
    const text = `## ${card.type} (${card.role})\n\n${bodyOf(card.content)}`
    if (chars + text.length > maxChars) {
      const room = maxChars - chars
      if (kept.length === 0) kept.push(`${text.slice(0, room)}\n[cut: ${text.length - room} more characters]`)
      kept.push(`[${cards.length - kept.length} older cards are left out]`)
      break
    }
    chars += text.length
    kept.push(text)
  }
  return kept.toReversed().join('\n\n')
}

function bodyOf(content: unknown): string {
  if (typeof content === 'string') return content
  if (typeof content === 'object' && content !== null && 'text' in content && typeof content.text === 'string')
    return content.text
  return JSON.stringify(content, null, 2)
}

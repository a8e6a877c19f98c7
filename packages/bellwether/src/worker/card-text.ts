/** Text from and for cards, as prompts, model conversations and people read it. Pure. */
import { objectOf } from '@bellwether/base'
import type { FieldSpec } from '../kernel/verbs/cards.js'

/** The content of a card as text: its `text` if it has one, else JSON. */
export function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  const { text } = objectOf(content)
  return typeof text === 'string' ? text : (JSON.stringify(content, null, 2) ?? '')
}

/** Texts of the newest cards, given newest first, as one text with the oldest first; it begins with a note if cards are left out. */
export function oldestFirst(newest: readonly string[], of: number, truncated: boolean): string {
  const left = of - newest.length
  const note = truncated ? `[more than ${left} older cards are left out]` : `[${left} older cards are left out]`
  return (left > 0 || truncated ? [...newest, note] : newest).toReversed().join('\n\n')
}

/** A Markdown section, or an empty string if it has no body. */
export const section = (title: string, body: string) => (body.trim() === '' ? '' : `# ${title}\n\n${body.trim()}`)

/** The wanted result fields, one Markdown list item per field. */
export function fieldList(wanted: readonly FieldSpec[]): string {
  const lines = wanted.map(({ name, type, required, description }) => {
    const facts = [type, required === true ? 'required' : undefined].filter((fact) => fact !== undefined)
    const rest = description === undefined ? '' : `: ${description}`
    return `- ${name}${facts.length > 0 ? ` (${facts.join(', ')})` : ''}${rest}`
  })
  return lines.join('\n')
}

/** The text without characters that the database cannot store. */
export function printable(text: string): string {
  return text.toWellFormed().replaceAll('\0', '').slice(0, 10_000)
}

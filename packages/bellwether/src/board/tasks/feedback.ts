/**
 * What a person wrote about the last run of a task: a reason, and comments on lines of its diff. The next runs get it in their prompt
 * until one of them is accepted or the person writes something newer. Fields of other programs read as nothing. Pure.
 */
import { defined } from '@bellwether/base'
import type { LineComment } from '@bellwether/protocol/http'
import { integer, list, nullable, object, optional, text, valid, type ValueOf } from '../../settings/shape.js'
import { iso } from './task-fields.js'
import type { Task } from '../log/task.js'

const feedbackShape = object({
  by: text(),
  at: text(),
  reason: optional(text()),
  comments: list(object({ path: text(), line: nullable(integer(1)), quote: text(), text: text() }), 0, 1_000),
})
type Feedback = ValueOf<typeof feedbackShape>

export interface FeedbackInput {
  readonly reason?: string | undefined
  readonly comments?: readonly LineComment[] | undefined
}

/** The part of a payload that stores it; empty if the person wrote nothing. */
export function feedbackPayload(by: string, { reason, comments = [] }: FeedbackInput, nowMs: number) {
  if (reason === undefined && comments.length === 0) return {}
  return { feedback: { by, at: iso(nowMs), ...defined({ reason }), comments } }
}

function feedbackOf({ fields: { feedback } }: Pick<Task, 'fields'>): Feedback | null {
  return feedback === undefined || feedback === null ? null : (valid(feedbackShape, feedback) ?? null)
}

/** The payload that removes it: a run was accepted, or the task is done. */
export const feedbackCleared = ({ fields }: Pick<Task, 'fields'>) =>
  (fields['feedback'] ?? null) === null ? {} : { feedback: null }

/** For the prompt of the next run; undefined if there is none. */
export function feedbackText(task: Pick<Task, 'fields'>): string | undefined {
  const feedback = feedbackOf(task)
  if (feedback === null) return undefined
  const { by, reason, comments } = feedback
  return [
    `${by} looked at the work so far and asks for changes${reason === undefined ? '.' : `: ${reason}`}`,
    ...comments.map(({ path, line, quote, text: comment }) => {
      const place = line === null ? path : `${path}:${line}`
      return `- ${place}${quote === '' ? '' : ` (${quote.trim()})`}: ${comment}`
    }),
  ].join('\n')
}

/**
 * How a turn ends that did not end well: the outcome, and a deliverable that says what happened and holds what there is (H7.5). Pure
 * and bounded.
 */
import type { Delivered } from '../stored-result.js'
import { cut } from './messages.js'
import type { Story } from './transcript.js'

const soFarMaxChars = 50_000
const linesMax = 100

export function failed(story: Story, code: string, message: string): Delivered {
  const said = sentence(message)
  return {
    deliver: { text: [said, soFar(story)].filter((part) => part !== '').join('\n\n') },
    status: 'failed',
    error: code,
  }
}

/** For whoever goes on with it: what was done, step by step, and that the rest is theirs. */
export function handedOver(story: Story, code: string, message: string): Delivered {
  const parts = [
    `${sentence(message)} Handed over: ${story.last} steps were made, and somebody has to go on from here.`,
    workDone(story),
    soFar(story),
  ]
  return { deliver: { text: parts.filter((part) => part !== '').join('\n\n') }, status: 'failed', error: code }
}

const sentence = (message: string) => `${message.trim().replace(/[.:]$/, '')}.`

/** The newest words of the model. */
function soFar({ steps, summary }: Story): string {
  const text = steps.findLast((step) => step.text.trim() !== '')?.text
  if (text !== undefined) return `What there is so far:\n\n${cut(text, soFarMaxChars)}`
  const told = (summary?.content as { readonly text?: string } | undefined)?.text
  return told === undefined ? '' : `What there is so far:\n\n${cut(told, soFarMaxChars)}`
}

/** One line a call: what was called, and what came of it. */
export function workDone({ steps }: Pick<Story, 'steps'>): string {
  const lines = steps.flatMap(({ note, results }) =>
    note.calls.map((call) => {
      const { status = 'unknown', error } = (results.get(call.id)?.content ?? {}) as {
        readonly status?: string
        readonly error?: { readonly code?: string }
      }
      const args = cut(JSON.stringify(call.args ?? call.raw ?? {}), 300)
      return `- step ${note.step}: ${call.name} ${args} → ${status}${error?.code === undefined ? '' : ` (${error.code})`}`
    }),
  )
  if (lines.length === 0) return ''
  const left = lines.length - linesMax
  return `What was called:\n${left > 0 ? `[${left} earlier calls are left out]\n` : ''}${lines.slice(-linesMax).join('\n')}`
}

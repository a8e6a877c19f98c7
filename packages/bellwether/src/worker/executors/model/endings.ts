/**
 * The ending of a model's turn that failed: its outcome, and a deliverable with the reason and the work so far (H7.5). Pure and
 * bounded.
 */
import { budgetExceeded, plural, type DegradeAction } from '@bellwether/protocol'
import type { Delivered } from '../stored-result.js'
import { cut } from './messages.js'
import type { Transcript } from './transcript.js'

const soFarMaxChars = 50_000
const linesMax = 100

export const usedUp = (what: 'time' | 'budget') => `The ${what} of this turn is used up`

/** `manual_handoff` adds what a person needs to continue. */
export function ended(transcript: Transcript, code: string, message: string, ending: DegradeAction): Delivered {
  const isHandoff = code === budgetExceeded && ending === 'manual_handoff'
  return isHandoff ? handedOver(transcript, code, message) : failed(transcript, code, message)
}

function failed(transcript: Transcript, code: string, message: string): Delivered {
  const text = [sentence(message), soFar(transcript)].filter((part) => part !== '').join('\n\n')
  return { deliver: { text }, status: 'failed', error: code }
}

/** As `failed`, with a list of all calls for the person who continues the work. */
function handedOver(transcript: Transcript, code: string, message: string): Delivered {
  const parts = [
    `${sentence(message)} Handed over after ${plural(transcript.last, 'step')}: a person must continue from here.`,
    workDone(transcript),
    soFar(transcript),
  ]
  return { deliver: { text: parts.filter((part) => part !== '').join('\n\n') }, status: 'failed', error: code }
}

const sentence = (message: string) => `${message.trim().replace(/[.:]$/, '')}.`

/** The model's last text, or the summary if the last steps have none. */
function soFar({ steps, summary }: Transcript): string {
  const summaryText = (summary?.content as { readonly text?: string } | undefined)?.text
  const text = steps.findLast((step) => step.text.trim() !== '')?.text ?? summaryText
  return text === undefined ? '' : `The result so far:\n\n${cut(text, soFarMaxChars)}`
}

/** One line per call: the call, its status and its error. */
export function workDone({ steps }: Pick<Transcript, 'steps'>): string {
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
  return `Calls made:\n${left > 0 ? `[${left} earlier calls are left out]\n` : ''}${lines.slice(-linesMax).join('\n')}`
}

/**
 * Subjects: `bw.v1.{project}.{channel}.{category}.{component}.{target}.{suffix…}`.
 * NATS uses them as they are; Postgres notify carries them inside its payload.
 */
import { InvalidInput } from './errors.js'

const tokenPattern = /^[a-z0-9_-]+$/
// NATS accepts far longer subjects; 120 keeps eight tokens well inside one notify payload (8,000 bytes).
const tokenMaxLength = 120

export const defaultChannel = 'public'

export function isToken(text: string): boolean {
  return text.length <= tokenMaxLength && tokenPattern.test(text)
}

/** Returns `text` if it can be part of a subject; otherwise throws. `what` names it in the error. */
export function token(text: string, what: string): string {
  if (isToken(text)) return text
  throw new InvalidInput(`${what} ${JSON.stringify(text.slice(0, 80))} is not a valid name`, {
    code: 'invalid_name',
    hint: `use 1 to ${tokenMaxLength} of the characters a-z, 0-9, _ and -`,
  })
}

export interface Place {
  readonly project: string
  readonly channel: string
}

function subject(place: Place, ...rest: string[]): string {
  return ['bw', 'v1', place.project, place.channel, ...rest].join('.')
}

export const subjects = {
  wakeup: (place: Place, target: string) => subject(place, 'cmd', 'agent', target, 'wakeup'),
  /** Wakes the PMO that hosts this tool. */
  pmoCall: (place: Place, tool: string) => subject(place, 'cmd', 'sys', 'pmo', 'internal', tool),
  chunk: (place: Place, agent: string) => subject(place, 'str', 'agent', agent, 'chunk'),
  /** The transcripts of turns of a project have grown. */
  transcript: (place: Place) => subject(place, 'str', 'transcript'),
  anyTranscript: 'bw.v1.*.*.str.transcript',
  anyWakeup: (target: string) => `bw.v1.*.*.cmd.agent.${target}.wakeup`,
  anyToolCall: (tool: string) => `bw.v1.*.*.cmd.tool.${tool}.call`,
  anyPmoCall: (tool: string) => `bw.v1.*.*.cmd.sys.pmo.internal.${tool}`,
  anyEvent: 'bw.v1.*.*.evt.>',
} as const

/** NATS matching: `*` is one token, `>` is the rest (at least one token). */
export function matches(pattern: string, candidate: string): boolean {
  const wanted = pattern.split('.')
  const words = candidate.split('.')
  for (const [position, word] of wanted.entries()) {
    if (word === '>') return words.length > position
    if (words[position] === undefined || (word !== '*' && word !== words[position])) return false
  }
  return wanted.length === words.length
}

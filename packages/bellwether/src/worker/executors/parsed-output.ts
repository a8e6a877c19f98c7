/** What the formats of command output share: what a parser extracts, and how it reads lines of events. Pure. */
import { isObject, type JsonObject, parseJson } from '@bellwether/base'
import type { Usage } from './usage.js'

export interface ParsedOutput {
  text?: string
  fields?: readonly { readonly name: string; readonly value: unknown }[]
  usage?: Usage
  /** The failure that the program reports, in its words. */
  failure?: string
  /** The id of the program's session. */
  sessionId?: string
  /** Whether the model has answered: then the session contains the prompt. */
  answered?: true
  /** The program's account has reached a limit. `until`: when it ends, in milliseconds, if the program says so. */
  limited?: { readonly until?: number }
  /** The ids of messages that the program has read from its input, the newest last. */
  read?: readonly string[]
}

export interface OutputParser {
  readonly output: ParsedOutput
  /** Parses one line of stdout. Absent if the format is parsed at the end only. */
  line?(text: string): void
  /** Parses all of stdout that was kept; `dropped` is the number of bytes that were not. */
  end?(text: string, dropped: number): void
}

export function parseObject(text: string): JsonObject | undefined {
  const value = text.trimStart().startsWith('{') ? parseJson(text) : undefined
  return isObject(value) ? value : undefined
}

export const textIn = (value: unknown) => (typeof value === 'string' && value !== '' ? value : undefined)
export const firstText = (value: unknown) =>
  Array.isArray(value) ? value.map(textIn).find((one) => one !== undefined) : undefined
/** Sets the key if the value is known. */
export function set<K extends keyof ParsedOutput>(
  output: ParsedOutput,
  key: K,
  value: ParsedOutput[K] | undefined,
): void {
  if (value !== undefined) output[key] = value as ParsedOutput[K]
}

/** Notes the id of the session, and whether the event is an answer of the model. */
export function sees(output: ParsedOutput, sessionId: unknown, answers: boolean): void {
  const id = textIn(sessionId)
  if (id !== undefined && id.length <= sessionIdMax) output.sessionId = id
  if (answers) output.answered = true
}

// The programs use UUIDs and similar ids.
const sessionIdMax = 200

export function lines(onEvent: (event: JsonObject, output: ParsedOutput) => void): OutputParser {
  const output: ParsedOutput = {}
  return {
    output,
    line(text) {
      const event = parseObject(text)
      if (event !== undefined) onEvent(event, output)
    },
  }
}

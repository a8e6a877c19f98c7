/**
 * Parses the output of commands: plain text, one JSON object, or the event lines of a coding agent. Pure: a parser receives lines or
 * the complete output and extracts the result, the usage so far, and a failure that the program reports. It ignores unknown lines
 * and fields, because new versions of these programs add some.
 */
import { objectOf } from '../card-text.js'
import { add, count, usageOf, type Usage } from './usage.js'

export interface ParsedOutput {
  text?: string
  fields?: readonly { readonly name: string; readonly value: unknown }[]
  usage?: Usage
  /** The failure that the program reports, in its words. */
  failure?: string
}

export interface OutputParser {
  readonly output: ParsedOutput
  /** Parses one line of stdout. Absent if the format is parsed at the end only. */
  line?(text: string): void
  /** Parses all of stdout that was kept; `dropped` is the number of bytes that were not. */
  end?(text: string, dropped: number): void
}

type Json = Readonly<Record<string, unknown>>

export function parseObject(text: string): Json | undefined {
  if (!text.trimStart().startsWith('{')) return undefined
  try {
    return objectOf(JSON.parse(text))
  } catch {
    return undefined // a line of plain text among lines of JSON
  }
}

const textIn = (value: unknown) => (typeof value === 'string' && value !== '' ? value : undefined)
/** Sets the key if the value is known. */
function set<K extends keyof ParsedOutput>(output: ParsedOutput, key: K, value: ParsedOutput[K] | undefined): void {
  if (value !== undefined) output[key] = value as ParsedOutput[K]
}

function lines(onEvent: (event: Json, output: ParsedOutput) => void): OutputParser {
  const output: ParsedOutput = {}
  return {
    output,
    line(text) {
      const event = parseObject(text)
      if (event !== undefined) onEvent(event, output)
    },
  }
}

// More than the number of subagents that run at the same time.
const openMax = 64

/** `claude -p --output-format stream-json`: each message reports its own usage; the result reports the total. */
function claude(): OutputParser {
  // One message arrives in several events, each with its usage so far; events of several subagents may be interleaved.
  const open = new Map<string, Usage>()
  let closed: Usage | undefined
  return lines((event, output) => {
    if (event['type'] === 'assistant') {
      const message = objectOf(event['message'])
      open.set(String(message['id']).slice(0, 100), claudeUsage(objectOf(message['usage'])))
      const [oldest] = open
      if (open.size > openMax && oldest !== undefined) {
        open.delete(oldest[0])
        closed = add(closed, oldest[1])
      }
      output.usage = [...open.values()].reduce<Usage>((sum, one) => add(sum, one), closed ?? usageOf({}))
    } else if (event['type'] === 'result') {
      output.usage = claudeUsage(objectOf(event['usage']), event['total_cost_usd'])
      const result = textIn(event['result'])
      if (event['is_error'] === true || (event['subtype'] !== undefined && event['subtype'] !== 'success'))
        output.failure = result ?? `it ended with ${String(event['subtype'])}`
      else set(output, 'text', result ?? '')
    }
  })
}

function claudeUsage(usage: Json, cost?: unknown): Usage {
  const kinds = {
    input: count(usage['input_tokens']),
    output: count(usage['output_tokens']),
    cacheRead: count(usage['cache_read_input_tokens']),
    cacheWrite: count(usage['cache_creation_input_tokens']),
  }
  return usageOf(kinds, cost)
}

/** Input that includes the tokens read from a cache, as two kinds. */
function inputParts(all: unknown, cached: unknown): { readonly input: number; readonly cacheRead: number } {
  const cacheRead = Math.min(count(cached), count(all))
  return { input: count(all) - cacheRead, cacheRead }
}

/** `codex exec --json`: the last agent message is the result. */
function codex(): OutputParser {
  return lines((event, output) => {
    const item = objectOf(event['item'])
    if (event['type'] === 'item.completed' && item['type'] === 'agent_message')
      set(output, 'text', textIn(item['text']))
    else if (event['type'] === 'turn.completed') {
      const usage = objectOf(event['usage'])
      const kinds = inputParts(usage['input_tokens'], usage['cached_input_tokens'])
      output.usage = add(output.usage, usageOf({ ...kinds, output: count(usage['output_tokens']) }))
    } else if (event['type'] === 'turn.failed') {
      output.failure = textIn(objectOf(event['error'])['message']) ?? 'the turn failed'
    }
  })
}

/** `opencode run --format json`: text parts one after the other; the parts after the last tool call are the result. */
function opencode(): OutputParser {
  return lines((event, output) => {
    const part = objectOf(event['part'])
    switch (event['type']) {
      case 'text':
        output.text = [output.text, textIn(part['text'])].filter((one) => one !== undefined).join('\n')
        break
      case 'tool_use':
        delete output.text
        break
      case 'step_finish': {
        const tokens = objectOf(part['tokens'])
        const cache = objectOf(tokens['cache'])
        const kinds = {
          input: count(tokens['input']),
          output: count(tokens['output']) + count(tokens['reasoning']),
          cacheRead: count(cache['read']),
          cacheWrite: count(cache['write']),
        }
        output.usage = add(output.usage, usageOf(kinds, part['cost']))
        break
      }
      case 'error': {
        const error = objectOf(event['error'])
        output.failure =
          textIn(objectOf(error['data'])['message']) ?? textIn(error['message']) ?? textIn(error['name']) ?? 'an error'
        break
      }
      default:
    }
  })
}

/** A parser of one JSON object at the end of the output. */
function objectAtEnd(onObject: (object: Json, output: ParsedOutput) => void): OutputParser {
  const output: ParsedOutput = {}
  return {
    output,
    end(text, dropped) {
      const object = lastObject(text)
      if (object !== undefined) onObject(object, output)
      else output.failure = dropped > 0 ? 'it printed too much to parse as JSON' : 'it printed no JSON object'
    },
  }
}

/** The error that a JSON object reports, as text or as `{message}`. */
function errorIn({ error }: Json): string | undefined {
  if (error === undefined || error === null) return undefined
  return textIn(error) ?? textIn(objectOf(error)['message']) ?? 'an error'
}

/** `gemini --output-format json`: one object at the end. */
function gemini(): OutputParser {
  return objectAtEnd((object, output) => {
    for (const model of Object.values(objectOf(objectOf(object['stats'])['models']))) {
      const tokens = objectOf(objectOf(model)['tokens'])
      const { input, cacheRead } = inputParts(tokens['prompt'], tokens['cached'])
      const generated = count(tokens['candidates']) + count(tokens['thoughts'])
      output.usage = add(output.usage, usageOf({ input: input + count(tokens['tool']), output: generated, cacheRead }))
    }
    set(output, 'text', textIn(object['response']))
    set(output, 'failure', errorIn(object))
  })
}

const tokensLine = /Tokens: ([\d.,]+)([kM]?) sent,.*?([\d.,]+)([kM]?) received\./
const costLine = /Cost: \$[\d.]+ message, \$([\d.]+) session/

/** `aider`: plain text, with a line about tokens after each message. */
function aider(): OutputParser {
  const output: ParsedOutput = {}
  return {
    output,
    line(text) {
      const tokens = tokensLine.exec(text)
      if (tokens !== null) {
        const [, sent = '', sentUnit = '', received = '', receivedUnit = ''] = tokens
        const cost = costLine.exec(text)?.[1]
        const sum = add(
          output.usage,
          usageOf({ input: thousands(sent, sentUnit), output: thousands(received, receivedUnit) }),
        )
        // The session's cost is already a total.
        output.usage = cost === undefined ? sum : { ...sum, cost_usd: Number(cost) }
      }
    },
    end(text) {
      output.text = text.trim()
    },
  }
}

function thousands(text: string, unit: string): number {
  return count(Number(text.replaceAll(',', '')) * (unit === 'k' ? 1_000 : unit === 'M' ? 1_000_000 : 1))
}

/** A custom script: `{"text": …}` or `{"fields": […]}`, with optional `usage` and `error`. */
function json(): OutputParser {
  return objectAtEnd((object, output) => {
    if (object['usage'] !== undefined) {
      const usage = objectOf(object['usage'])
      const kinds = {
        input: count(usage['input_tokens']),
        output: count(usage['output_tokens']),
        cacheRead: count(usage['cache_read_tokens']),
        cacheWrite: count(usage['cache_write_tokens']),
      }
      const reported = usageOf(kinds, usage['cost_usd'])
      output.usage = { ...reported, total_tokens: Math.max(reported.total_tokens, count(usage['total_tokens'])) }
    }
    set(output, 'text', textIn(object['text']))
    if (Array.isArray(object['fields']))
      output.fields = object['fields']
        .map(objectOf)
        .filter((field) => typeof field['name'] === 'string')
        .map((field) => ({ name: String(field['name']), value: field['value'] ?? null }))
    const empty = output.text === undefined && output.fields === undefined
    set(output, 'failure', errorIn(object) ?? (empty ? 'its JSON has neither "text" nor "fields"' : undefined))
  })
}

function text(): OutputParser {
  const output: ParsedOutput = {}
  return {
    output,
    end(all, dropped) {
      output.text = dropped > 0 ? `[the first ${dropped} bytes are omitted]\n${all.trim()}` : all.trim()
    },
  }
}

/** The JSON object at the end of the text: the complete text, its last line, or everything from the last line that starts with `{`. */
export function lastObject(output: string): Json | undefined {
  const complete = parseObject(output.trim())
  if (complete !== undefined) return complete
  const lines = output.trimEnd().split('\n')
  const last = parseObject(lines.at(-1) ?? '')
  if (last !== undefined) return last
  const from = lines.findLastIndex((line) => line.startsWith('{'))
  return from === -1 ? undefined : parseObject(lines.slice(from).join('\n'))
}

export const formats = { text, json, claude, codex, gemini, aider, opencode } as const
export type FormatName = keyof typeof formats

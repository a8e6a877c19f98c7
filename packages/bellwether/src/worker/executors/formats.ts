/**
 * How programs print their answers: plain text, one JSON object, or the event lines of a coding agent. Pure: a reader is given
 * lines or the whole, and knows the answer, the usage so far, and whether the program itself says that it failed. Lines and
 * fields that it does not know change nothing: these programs grow.
 */
import { add, count, usageOf, type Usage } from './usage.js'

export interface Answer {
  text?: string
  fields?: readonly { readonly name: string; readonly value: unknown }[]
  usage?: Usage
  /** In the program's own words. */
  failure?: string
}

export interface Reader {
  readonly answer: Answer
  /** One line of stdout; absent: this format is read whole. */
  line?(text: string): void
  /** All of stdout that was kept, and how many bytes were not. */
  whole?(text: string, dropped: number): void
}

type Json = Readonly<Record<string, unknown>>

function object(value: unknown): Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {}
}

export function parseObject(text: string): Json | undefined {
  if (!text.trimStart().startsWith('{')) return undefined
  try {
    return object(JSON.parse(text))
  } catch {
    return undefined // a line of words among lines of JSON
  }
}

const words = (value: unknown) => (typeof value === 'string' && value !== '' ? value : undefined)
/** Sets what is known and leaves the rest. */
function set<K extends keyof Answer>(answer: Answer, key: K, value: Answer[K] | undefined): void {
  if (value !== undefined) answer[key] = value as Answer[K]
}

function lines(onEvent: (event: Json, answer: Answer) => void): Reader {
  const answer: Answer = {}
  return {
    answer,
    line(text) {
      const event = parseObject(text)
      if (event !== undefined) onEvent(event, answer)
    },
  }
}

// More helpers than work at the same time.
const openMax = 64

/** `claude -p --output-format stream-json`: each message tells its own usage; the result tells the sum. */
function claude(): Reader {
  // One message comes in several events, each with its usage so far; those of a few helpers may be mixed.
  const open = new Map<string, Usage>()
  let closed: Usage | undefined
  return lines((event, answer) => {
    if (event['type'] === 'assistant') {
      const message = object(event['message'])
      open.set(String(message['id']).slice(0, 100), claudeUsage(object(message['usage'])))
      const [oldest] = open
      if (open.size > openMax && oldest !== undefined) {
        open.delete(oldest[0])
        closed = add(closed, oldest[1])
      }
      answer.usage = [...open.values()].reduce<Usage>((sum, one) => add(sum, one), closed ?? usageOf(0, 0))
    } else if (event['type'] === 'result') {
      answer.usage = claudeUsage(object(event['usage']), event['total_cost_usd'])
      const said = words(event['result'])
      if (event['is_error'] === true || (event['subtype'] !== undefined && event['subtype'] !== 'success'))
        answer.failure = said ?? `it ended with ${String(event['subtype'])}`
      else set(answer, 'text', said ?? '')
    }
  })
}

function claudeUsage(usage: Json, cost?: unknown): Usage {
  const input =
    count(usage['input_tokens']) + count(usage['cache_creation_input_tokens']) + count(usage['cache_read_input_tokens'])
  return usageOf(input, count(usage['output_tokens']), cost)
}

/** `codex exec --json`: the last agent message is the answer. */
function codex(): Reader {
  return lines((event, answer) => {
    const item = object(event['item'])
    if (event['type'] === 'item.completed' && item['type'] === 'agent_message') set(answer, 'text', words(item['text']))
    else if (event['type'] === 'turn.completed') {
      const usage = object(event['usage'])
      answer.usage = add(answer.usage, usageOf(count(usage['input_tokens']), count(usage['output_tokens'])))
    } else if (event['type'] === 'turn.failed') {
      answer.failure = words(object(event['error'])['message']) ?? 'the turn failed'
    }
  })
}

/** `opencode run --format json`: text parts one after the other; the parts since the last tool call are the answer. */
function opencode(): Reader {
  return lines((event, answer) => {
    const part = object(event['part'])
    switch (event['type']) {
      case 'text':
        answer.text = [answer.text, words(part['text'])].filter((one) => one !== undefined).join('\n')
        break
      case 'tool_use':
        delete answer.text
        break
      case 'step_finish': {
        const tokens = object(part['tokens'])
        const cache = object(tokens['cache'])
        const input = count(tokens['input']) + count(cache['read']) + count(cache['write'])
        const output = count(tokens['output']) + count(tokens['reasoning'])
        answer.usage = add(answer.usage, usageOf(input, output, part['cost']))
        break
      }
      case 'error': {
        const error = object(event['error'])
        answer.failure =
          words(object(error['data'])['message']) ?? words(error['message']) ?? words(error['name']) ?? 'an error'
        break
      }
      default:
    }
  })
}

/** `gemini --output-format json`: one object at the end. */
function gemini(): Reader {
  const answer: Answer = {}
  return {
    answer,
    whole(text, dropped) {
      const all = lastObject(text)
      if (all === undefined) return void (answer.failure = unreadable(dropped))
      const models = Object.values(object(object(all['stats'])['models']))
      for (const model of models) {
        const tokens = object(object(model)['tokens'])
        const input = count(tokens['prompt']) + count(tokens['tool'])
        answer.usage = add(answer.usage, usageOf(input, count(tokens['candidates']) + count(tokens['thoughts'])))
      }
      set(answer, 'text', words(all['response']))
      if (all['error'] !== undefined && all['error'] !== null)
        answer.failure = words(object(all['error'])['message']) ?? words(all['error']) ?? 'an error'
    },
  }
}

const tokensLine = /Tokens: ([\d.,]+)([kM]?) sent,.*?([\d.,]+)([kM]?) received\./
const costLine = /Cost: \$[\d.]+ message, \$([\d.]+) session/

/** `aider`: words, with a line about tokens after each message. */
function aider(): Reader {
  const answer: Answer = {}
  return {
    answer,
    line(text) {
      const tokens = tokensLine.exec(text)
      if (tokens !== null) {
        const [, sent = '', sentUnit = '', received = '', receivedUnit = ''] = tokens
        const cost = costLine.exec(text)?.[1]
        const sum = add(answer.usage, usageOf(thousands(sent, sentUnit), thousands(received, receivedUnit)))
        // The session's cost is a sum already.
        answer.usage = cost === undefined ? sum : { ...sum, cost_usd: Number(cost) }
      }
    },
    whole(text) {
      answer.text = text.trim()
    },
  }
}

function thousands(text: string, unit: string): number {
  return count(Number(text.replaceAll(',', '')) * (unit === 'k' ? 1_000 : unit === 'M' ? 1_000_000 : 1))
}

/** A script of one's own: `{"text": …}` or `{"fields": […]}`, with `usage` and `error` when there is something to say. */
function json(): Reader {
  const answer: Answer = {}
  return {
    answer,
    whole(text, dropped) {
      const all = lastObject(text)
      if (all === undefined) return void (answer.failure = unreadable(dropped))
      const usage = object(all['usage'])
      if (all['usage'] !== undefined) {
        const told = usageOf(count(usage['input_tokens']), count(usage['output_tokens']), usage['cost_usd'])
        answer.usage = { ...told, total_tokens: Math.max(told.total_tokens, count(usage['total_tokens'])) }
      }
      set(answer, 'text', words(all['text']))
      if (Array.isArray(all['fields']))
        answer.fields = all['fields']
          .map(object)
          .filter((field) => typeof field['name'] === 'string')
          .map((field) => ({ name: String(field['name']), value: field['value'] ?? null }))
      if (all['error'] !== undefined && all['error'] !== null)
        answer.failure = words(all['error']) ?? words(object(all['error'])['message']) ?? 'an error'
      else if (answer.text === undefined && answer.fields === undefined)
        answer.failure = 'its JSON has neither "text" nor "fields"'
    },
  }
}

function text(): Reader {
  const answer: Answer = {}
  return {
    answer,
    whole(all, dropped) {
      answer.text = dropped > 0 ? `[the first ${dropped} bytes are left out]\n${all.trim()}` : all.trim()
    },
  }
}

const unreadable = (dropped: number) =>
  dropped > 0 ? 'it printed more than can be read as JSON' : 'it printed no JSON object'

/** The whole as JSON; else its last line that is an object; else from the last `{` that begins a line. */
export function lastObject(all: string): Json | undefined {
  const whole = parseObject(all.trim())
  if (whole !== undefined) return whole
  const lines = all.trimEnd().split('\n')
  const last = parseObject(lines.at(-1) ?? '')
  if (last !== undefined) return last
  const from = lines.findLastIndex((line) => line.startsWith('{'))
  return from === -1 ? undefined : parseObject(lines.slice(from).join('\n'))
}

export const formats = { text, json, claude, codex, gemini, aider, opencode } as const
export type FormatName = keyof typeof formats

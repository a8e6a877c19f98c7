/**
 * Parses the output of commands: plain text, one JSON object, or the event lines of a coding agent. Pure: a parser receives lines or
 * the complete output and extracts the result, the usage so far, and a failure that the program reports. It ignores unknown lines
 * and fields, because new versions of these programs add some.
 */
import { defined, type JsonObject, objectOf, textOrJson } from '@bellwether/base'
import { claude } from './claude-format.js'
import { lines, type OutputParser, type ParsedOutput, parseObject, sees, set, textIn } from './parsed-output.js'
import { add, count, usageOf, type Usage } from './usage.js'

/** Input that includes the tokens read from a cache, as two kinds. */
function inputParts(all: unknown, cached: unknown): { readonly input: number; readonly cacheRead: number } {
  const cacheRead = Math.min(count(cached), count(all))
  return { input: count(all) - cacheRead, cacheRead }
}

/** `codex exec --json`: the last agent message is the result. Its usage is that of all its session, with the runs before. */
function codex(): OutputParser {
  return lines((event, output) => {
    const item = objectOf(event['item'])
    sees(output, event['thread_id'], ['item.started', 'item.completed'].includes(String(event['type'])))
    if (event['type'] === 'item.completed' && item['type'] === 'agent_message')
      set(output, 'text', textIn(item['text']))
    else if (event['type'] === 'turn.completed') {
      const usage = objectOf(event['usage'])
      const { input, cacheRead } = inputParts(usage['input_tokens'], usage['cached_input_tokens'])
      const cacheWrite = Math.min(count(usage['cache_write_input_tokens']), input)
      const kinds = { input: input - cacheWrite, cacheRead, cacheWrite, output: count(usage['output_tokens']) }
      output.usage = usageOf(kinds)
    } else if (event['type'] === 'turn.failed') {
      output.failure = textIn(objectOf(event['error'])['message']) ?? 'the turn failed'
    }
  })
}

/** `opencode run --format json`: text parts one after the other; the parts after the last tool call are the result. */
function opencode(): OutputParser {
  let denied: string | undefined
  return lines((event, output) => {
    const part = objectOf(event['part'])
    sees(output, event['sessionID'], ['text', 'tool_use', 'step_finish'].includes(String(event['type'])))
    switch (event['type']) {
      case 'text':
        if (output.failure === denied) delete output.failure
        output.text = [output.text, textIn(part['text'])].filter((one) => one !== undefined).join('\n')
        break
      case 'tool_use':
        delete output.text
        if (output.failure === denied) delete output.failure
        denied = deniedCall(part)
        set(output, 'failure', denied)
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

/** A call that opencode rejects because no person is there to allow it. It ends after it, with exit code 0. */
function deniedCall({ tool, state }: JsonObject): string | undefined {
  const { error, input } = objectOf(state)
  if (!/rejected permission/.test(textIn(error) ?? '')) return undefined
  const { command, filePath } = objectOf(input)
  const what = textIn(command) ?? textIn(filePath)
  return `opencode was not allowed to use ${textOrJson(tool)}${what === undefined ? '' : `(${what})`}. Allow it under "permission" in opencode.json`
}

/** A parser of one JSON object at the end of the output. */
function objectAtEnd(onObject: (object: JsonObject, output: ParsedOutput) => void): OutputParser {
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
function errorIn({ error }: JsonObject): string | undefined {
  if (error === undefined || error === null) return undefined
  return textIn(error) ?? textIn(objectOf(error)['message']) ?? 'an error'
}

/** `gemini --output-format stream-json`; also one object at the end, as `--output-format json` prints. */
function gemini(): OutputParser {
  const events = lines(geminiEvent)
  let hasEvents = false
  return {
    output: events.output,
    line(text) {
      hasEvents ||= textIn(parseObject(text)?.['type']) !== undefined
      events.line?.(text)
    },
    end(text, dropped) {
      // A program that printed nothing says on stderr why.
      if (hasEvents || text.trim() === '') return
      const object = geminiObject()
      object.end?.(text, dropped)
      Object.assign(events.output, object.output)
    },
  }
}

/** The text after the last tool call is the result. */
function geminiEvent(event: JsonObject, output: ParsedOutput): void {
  const answers = event['type'] === 'tool_use' || (event['type'] === 'message' && event['role'] === 'assistant')
  sees(output, event['session_id'], answers)
  if (event['type'] === 'message' && event['role'] === 'assistant')
    output.text = `${output.text ?? ''}${textIn(event['content']) ?? ''}`
  else if (event['type'] === 'tool_use') delete output.text
  else if (event['type'] === 'result') {
    const stats = objectOf(event['stats'])
    const { input, cacheRead } = inputParts(stats['input_tokens'], stats['cached'])
    // Thoughts are part of the total only.
    const generated = Math.max(count(stats['output_tokens']), count(stats['total_tokens']) - input - cacheRead)
    output.usage = usageOf({ input, output: generated, cacheRead })
    if (event['status'] === 'error') output.failure = errorIn(event) ?? 'an error'
  }
}

function geminiObject(): OutputParser {
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

const tokensLine =
  /Tokens: ([\d.,]+)([kM]?) sent(?:, ([\d.,]+)([kM]?) cache write)?(?:, ([\d.,]+)([kM]?) cache hit)?,.*?([\d.,]+)([kM]?) received\./
const costLine = /Cost: \$[\d.]+ message, \$([\d.]+) session/

// What aider prints after an answer: usage, edits, its commit.
const aiderStatus = /^(?:Tokens: |Cost: \$|Applied edit to |Commit [0-9a-f]{7,} |You can use \/undo )|^\s*$/
const aiderError = /^litellm\.(?:\w+\.)*\w*(?:Error|Exception)\b.*/

/**
 * `aider`: plain text, with a line about tokens after each message. It exits with 0 if the API fails: an error that no message follows is
 * the failure. What it prints after its last answer is not part of the result.
 */
function aider(): OutputParser {
  const output: ParsedOutput = {}
  return {
    output,
    line(text) {
      const error = aiderError.exec(text)
      if (error !== null) output.failure = error[0].trim()
      const tokens = tokensLine.exec(text)
      if (tokens !== null) {
        delete output.failure
        output.answered = true
        // The tokens sent include those that were written to the cache or read from it.
        const [sent = 0, written = 0, hit = 0, received = 0] = [1, 3, 5, 7].map((at) =>
          thousands(tokens[at] ?? '0', tokens[at + 1] ?? ''),
        )
        const cacheWrite = Math.min(written, sent)
        const { input, cacheRead } = inputParts(sent - cacheWrite, hit)
        const cost = output.usage?.cost_usd
        output.usage = {
          ...add(output.usage, usageOf({ input, output: received, cacheRead, cacheWrite })),
          ...defined({ cost_usd: cost }),
        }
      }
      // The session's cost is already a total. With a cache it is on a line of its own.
      const cost = costLine.exec(text)?.[1]
      if (cost !== undefined) output.usage = { ...(output.usage ?? usageOf({})), cost_usd: Number(cost) }
    },
    end(text) {
      const printed = text.trimEnd().split('\n')
      const last = printed.findLastIndex((line) => !aiderStatus.test(line))
      output.text = printed
        .slice(0, last + 1)
        .join('\n')
        .trim()
    },
  }
}

function thousands(text: string, unit: string): number {
  return count(Number(text.replaceAll(',', '')) * (unit === 'k' ? 1_000 : unit === 'M' ? 1_000_000 : 1))
}

/** A custom script: `{"text": …}` or `{"fields": […]}`, with optional `usage`, and `error` or a status if it failed. */
function json(): OutputParser {
  return objectAtEnd((object, output) => {
    set(output, 'usage', usageIn(object))
    set(output, 'text', textIn(object['text']))
    if (Array.isArray(object['fields']))
      output.fields = object['fields']
        .map(objectOf)
        .filter((field) => typeof field['name'] === 'string')
        .map((field) => ({ name: String(field['name']), value: field['value'] ?? null }))
    const empty = output.text === undefined && output.fields === undefined
    const failure = errorIn(object) ?? failedStatusIn(object)
    set(output, 'failure', failure ?? (empty ? 'its JSON has neither "text" nor "fields"' : undefined))
  })
}

/** Usage with our names, with those of the providers' APIs, or as a total. */
function usageIn(object: JsonObject): Usage | undefined {
  const total = count(object['tokenUsage'] ?? objectOf(object['metrics'])['tokenUsage'])
  if (object['usage'] === undefined && total === 0) return undefined
  const usage = objectOf(object['usage'])
  // In the form of OpenAI the prompt includes the tokens that were read from the cache.
  const prompt = inputParts(usage['prompt_tokens'], objectOf(usage['prompt_tokens_details'])['cached_tokens'])
  const kinds = {
    input: count(usage['input_tokens']) + prompt.input,
    output: count(usage['output_tokens'] ?? usage['completion_tokens']),
    cacheRead: count(usage['cache_read_tokens'] ?? usage['cache_read_input_tokens']) + prompt.cacheRead,
    cacheWrite: count(usage['cache_write_tokens'] ?? usage['cache_creation_input_tokens']),
  }
  const reported = usageOf(kinds, usage['cost_usd'])
  const totals = [reported.total_tokens, count(usage['total_tokens'] ?? usage['totalTokens']), total]
  return { ...reported, total_tokens: Math.max(...totals) }
}

const failedStatus =
  /^(?:fail(?:ed|ure)?|error(?:ed)?|blocked|time[\s_-]?out|timed[\s_-]?out|cancell?ed|aborted|error_.*)$/i

/** A failure that a JSON object reports by a flag or a status, in any case. */
function failedStatusIn(object: JsonObject): string | undefined {
  const report = new Map(Object.entries(object).map(([key, value]) => [key.toLowerCase(), value]))
  const flag = ['ok', 'success'].find((key) => report.get(key) === false)
  const key =
    flag ??
    (report.get('is_error') === true ? 'is_error' : undefined) ??
    ['status', 'outcome', 'subtype'].find((name) => failedStatus.test((textIn(report.get(name)) ?? '').trim()))
  if (key === undefined) return undefined
  const reason = textIn(report.get('reason')) ?? textIn(report.get('message')) ?? textIn(report.get('text'))
  return `${key} is ${JSON.stringify(report.get(key))}${reason === undefined ? '' : ` (${reason})`}`
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
export function lastObject(output: string): JsonObject | undefined {
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

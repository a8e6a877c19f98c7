/** Parses the event lines of `claude -p --output-format stream-json`. Pure. */
import { defined, type JsonObject, objectOf } from '@bellwether/base'
import { firstText, lines, type OutputParser, sees, set, textIn } from './parsed-output.js'
import { add, count, usageOf, type Usage } from './usage.js'

// More than the number of subagents that run at the same time.
const openMax = 64

/**
 * `claude -p --output-format stream-json`: each message reports its own usage, with the output tokens at its start only; the result reports
 * the total.
 */
export function claude(): OutputParser {
  // One message arrives in several events, each with its usage so far; events of several subagents may be interleaved.
  const open = new Map<string, Usage>()
  let closed: Usage | undefined
  let ended: Usage | undefined
  /** The last text of the agent itself. Some versions report an empty result after it. */
  let spoken: string | undefined
  return lines((event, output) => {
    sees(output, event['session_id'], event['type'] === 'assistant')
    const id = event['isReplay'] === true ? textIn(event['uuid']) : undefined
    if (id !== undefined) output.read = [...(output.read ?? []), id].slice(-openMax)
    if (event['type'] === 'rate_limit_event') {
      const { status, resetsAt } = objectOf(event['rate_limit_info'])
      if (status === 'rejected') output.limited = typeof resetsAt === 'number' ? { until: resetsAt * 1_000 } : {}
      else delete output.limited
    } else if (event['type'] === 'assistant') {
      const message = objectOf(event['message'])
      if (typeof event['parent_tool_use_id'] !== 'string') spoken = lastText(message['content']) ?? spoken
      open.set(String(message['id']).slice(0, 100), claudeUsage(objectOf(message['usage'])))
      const [oldest] = open
      if (open.size > openMax && oldest !== undefined) {
        open.delete(oldest[0])
        closed = add(closed, oldest[1])
      }
      output.usage = [...open.values()].reduce<Usage>((sum, one) => add(sum, one), closed ?? usageOf({}))
    } else if (event['type'] === 'result') {
      const used = claudeUsage(objectOf(event['usage']), event['total_cost_usd'])
      // A message that arrives after the result gets a result of its own; the cost is that of the process.
      const all = ended === undefined ? used : { ...add(ended, used), ...defined({ cost_usd: used.cost_usd }) }
      output.usage = claudeProcessUsage(event) ?? all
      ended = closed = output.usage
      open.clear()
      // The program has repeated the call itself before it gives up.
      if (event['api_error_status'] === 429) output.limited ??= {}
      const result = textIn(event['result'])
      if (event['is_error'] === true || (event['subtype'] !== undefined && event['subtype'] !== 'success'))
        output.failure = result ?? firstText(event['errors']) ?? `it ended with ${String(event['subtype'])}`
      else set(output, 'text', result ?? spoken?.trim() ?? '')
    }
  })
}

const lastText = (parts: unknown) =>
  Array.isArray(parts)
    ? parts.map((part) => textIn(objectOf(part)['text'])).findLast((text) => text !== undefined)
    : undefined

function claudeUsage(usage: JsonObject, cost?: unknown): Usage {
  const kinds = {
    input: count(usage['input_tokens']),
    output: count(usage['output_tokens']),
    cacheRead: count(usage['cache_read_input_tokens']),
    cacheWrite: count(usage['cache_creation_input_tokens']),
  }
  return usageOf(kinds, cost)
}

/**
 * The usage of the process by model, with that of its subagents and of small calls such as titles, which `usage` does not contain. Undefined
 * in older versions, and if no model was called.
 */
function claudeProcessUsage(result: JsonObject): Usage | undefined {
  const models = Object.values(objectOf(result['modelUsage'])).map(objectOf)
  if (models.length === 0) return undefined
  const sum = (key: string) => models.reduce((total, model) => total + count(model[key]), 0)
  const kinds = {
    input: sum('inputTokens'),
    output: sum('outputTokens'),
    cacheRead: sum('cacheReadInputTokens'),
    cacheWrite: sum('cacheCreationInputTokens'),
  }
  return usageOf(kinds, result['total_cost_usd'])
}

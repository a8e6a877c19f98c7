/**
 * Parses the output of a command as a deliverable: a JSON object if the output or its last line is one, else the text. Usage
 * that is not a plain number counts as 0. Pure; the caller bounds the output.
 */
import { type JsonObject, objectOf } from '@bellwether/base'
import { parseObject } from '../policies/inside.js'

export interface ParsedResult {
  readonly deliverable: JsonObject | null
  readonly tokenUsage: number
}

export function parseResult(output: string | null): ParsedResult {
  const text = output?.trim() ?? ''
  if (text === '') return { deliverable: null, tokenUsage: 0 }
  const value = objectIn(text) ?? objectIn(text.slice(text.lastIndexOf('\n') + 1))
  if (value === null) return { deliverable: { text }, tokenUsage: 0 }
  return { deliverable: value, tokenUsage: usageIn(value) }
}

function objectIn(text: string): Record<string, unknown> | null {
  if (!text.startsWith('{')) return null
  const parsed = parseObject(text)
  return 'value' in parsed ? parsed.value : null
}

/** The formats of common agent programs: a total, or input and output tokens. */
function usageIn(value: JsonObject): number {
  const table = objectOf(value['usage'])
  const measured = objectOf(value['metrics'])['tokenUsage']
  const total =
    number(value['tokenUsage']) ?? number(measured) ?? number(table['total_tokens']) ?? number(table['totalTokens'])
  if (total !== null) return total
  const input = number(table['input_tokens']) ?? number(table['prompt_tokens']) ?? 0
  return input + (number(table['output_tokens']) ?? number(table['completion_tokens']) ?? 0)
}

function number(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? Math.ceil(value) : null
}

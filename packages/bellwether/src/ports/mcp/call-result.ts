/**
 * Converts an MCP call result to a tool result (pure): structured data if present, else text. Images and audio are described by type
 * and size and not stored, because cards hold text.
 */
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js'

export interface McpResult {
  readonly failed: boolean
  readonly result: unknown
  /** All text parts, for error messages. */
  readonly text: string
}

export function toMcpResult({ content, structuredContent, isError }: CallToolResult): McpResult {
  const items = content.map(plain)
  const texts = items.filter((item) => typeof item === 'string')
  const text = texts.join('\n')
  const others = items.filter((item) => typeof item !== 'string')
  return { failed: isError === true, result: resultOf(text, others, structuredContent), text }
}

function resultOf(text: string, others: readonly object[], structured: unknown): unknown {
  if (structured !== undefined) return others.length === 0 ? { structured } : { structured, others }
  // Most servers return JSON as text, which the model can read.
  return others.length === 0 ? text : { text, others }
}

function plain(item: CallToolResult['content'][number]): string | object {
  switch (item.type) {
    case 'text':
      return item.text
    case 'image':
    case 'audio':
      return { type: item.type, mime_type: item.mimeType, bytes: Math.floor((item.data.length * 3) / 4) }
    case 'resource_link':
      return { type: 'link', uri: item.uri, name: item.name }
    case 'resource':
      return 'text' in item.resource
        ? item.resource.text
        : { type: 'resource', uri: item.resource.uri, bytes: Math.floor((item.resource.blob.length * 3) / 4) }
    default:
      return { type: 'unknown' }
  }
}

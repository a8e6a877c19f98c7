/**
 * Estimates the tokens of a text (pure) as a third of its UTF-8 bytes: slightly too many for English and code, about right for
 * scripts with one token per character. Callers correct the estimate with the usage that the provider reports.
 */
import type { Message, ModelRequest } from './model.js'

const bytesPerToken = 3
// For the role and separators that every provider adds.
const perMessage = 8

export function textTokens(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / bytesPerToken)
}

function messageTokens(message: Message): number {
  switch (message.role) {
    case 'system':
    case 'user':
      return perMessage + textTokens(message.text)
    case 'assistant':
      return message.calls.reduce(
        (sum, call) => sum + perMessage + textTokens(call.name) + textTokens(JSON.stringify(call.args ?? {})),
        perMessage + textTokens(message.text),
      )
    case 'tool':
      return message.outputs.reduce((sum, output) => sum + perMessage + textTokens(output.text), 0)
  }
}

export function promptTokens({ messages, tools }: Pick<ModelRequest, 'messages' | 'tools'>): number {
  const offered = tools.length === 0 ? 0 : textTokens(JSON.stringify(tools))
  return messages.reduce((sum, message) => sum + messageTokens(message), offered)
}

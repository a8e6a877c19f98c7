/**
 * How many tokens a text is, without asking anybody. Pure. Bytes rather than characters: a third of the UTF-8 bytes is a little
 * more than English and code come to, and about right for scripts whose characters are a token each. Callers correct it by
 * what the provider reports.
 */
import type { Message, ModelRequest } from './model.js'

const bytesPerToken = 3
// Roles and separators, which every provider adds.
const perMessage = 8

export function textTokens(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / bytesPerToken)
}

export function messageTokens(message: Message): number {
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

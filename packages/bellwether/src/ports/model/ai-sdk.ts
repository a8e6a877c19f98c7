/**
 * Adapts a provider of the AI SDK to `Model`: one request per call, without the SDK's own retries, with tool arguments as raw text.
 * Errors of the network and the provider pass unchanged; failure.ts classifies them.
 */
import type { OpenAICompatibleProvider } from '@ai-sdk/openai-compatible'
import { defined, objectOf, textOrJson } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import type { FinishReason, Message, Model, ModelRequest, ModelPart, TokenUsage } from './model.js'
import { splitThinkTags } from './think-tags.js'

/** The SDK's type of a model; the package that exports it is not a dependency. */
type SdkModel = ReturnType<OpenAICompatibleProvider['chatModel']>
type CallOptions = Parameters<SdkModel['doStream']>[0]
type Prompt = CallOptions['prompt']
type SdkPart = Awaited<ReturnType<SdkModel['doStream']>>['stream'] extends ReadableStream<infer P> ? P : never
type Finish = Extract<SdkPart, { type: 'finish' }>
type Extra = Record<string, Record<string, never>>

export interface SdkSource {
  readonly name: string
  readonly account: string
  readonly model: SdkModel
  readonly key?: string | undefined
  /** Marks for the provider's prompt cache; absent if the provider needs none. */
  readonly cacheMark?: Readonly<Record<string, unknown>>
}

export function sdkModel({ name, account, model, key, cacheMark }: SdkSource): Model {
  return {
    name,
    account,
    redact: (text) => (key === undefined ? text : text.replaceAll(key, '[key]')),
    async *stream(request, signal) {
      const { stream } = await model.doStream(optionsOf(request, signal, cacheMark))
      const reader = stream.getReader()
      const apart = splitThinkTags()
      try {
        for (;;) {
          const { done, value } = await reader.read()
          const part = done ? undefined : partOf(value)
          if (part?.kind === 'text') yield* apart.take(part.text)
          else {
            if (done || part !== undefined) yield* apart.rest()
            if (part !== undefined) yield part
          }
          if (done) return
        }
      } finally {
        // A reader that stops early cancels the request, because the rest of the response would be billed.
        void reader.cancel().catch(() => undefined)
      }
    },
  }
}

function optionsOf(request: ModelRequest, signal: AbortSignal, mark: SdkSource['cacheMark']): CallOptions {
  const last = request.messages.length - 1
  const prompt = request.messages.map((message, index) => {
    const marked = mark !== undefined && (index === last || message.role === 'system')
    return { ...messageOf(message), ...(marked ? { providerOptions: mark } : {}) }
  })
  const tools = request.tools.map((tool) => ({
    type: 'function' as const,
    name: tool.name,
    description: tool.description,
    inputSchema: tool.parameters,
  }))
  return {
    prompt: prompt as Prompt,
    ...(tools.length === 0 ? {} : { tools, toolChoice: { type: 'auto' } }),
    maxOutputTokens: request.maxOutputTokens,
    ...defined({ temperature: request.temperature }),
    abortSignal: signal,
  }
}

function messageOf(message: Message): Prompt[number] {
  switch (message.role) {
    case 'system':
      return { role: 'system', content: message.text }
    case 'user':
      return { role: 'user', content: [{ type: 'text', text: message.text }] }
    case 'assistant':
      return {
        role: 'assistant',
        content: [
          ...(message.text.trim() === '' ? [] : [{ type: 'text' as const, text: message.text.trimEnd() }]),
          ...message.calls.map((call) => ({
            type: 'tool-call' as const,
            toolCallId: call.id,
            toolName: call.name,
            input: call.args ?? {},
            ...defined({ providerOptions: call.extra && replayMetadata(call.extra) }),
          })),
        ],
      }
    case 'tool':
      return {
        role: 'tool',
        content: message.outputs.map((output) => ({
          type: 'tool-result' as const,
          toolCallId: output.id,
          toolName: output.name,
          output: { type: output.failed ? ('error-text' as const) : ('text' as const), value: output.text },
        })),
      }
  }
}

/** Gemini returns signatures under the provider's name and expects them under `google`. */
function replayMetadata(extra: Readonly<Record<string, unknown>>): Extra {
  return { google: Object.values(extra)[0], ...extra } as Extra
}

function partOf(part: SdkPart): ModelPart | undefined {
  switch (part.type) {
    case 'text-delta':
      return { kind: 'text', text: part.delta }
    case 'reasoning-delta':
      return { kind: 'thought', text: part.delta }
    case 'tool-input-delta':
      return { kind: 'input', text: part.delta }
    case 'tool-call': {
      const { toolCallId: id, toolName: name, input, providerMetadata: extra } = part
      return { kind: 'call', call: { id, name, input, ...defined({ extra }) } }
    }
    case 'finish':
      return finishOf(part)
    case 'error':
      if (!(part.error instanceof Error)) throw streamError(part.error)
      // A stream that ends early is detected by its missing finish part, whatever the provider.
      if (part.error.message.includes('without a finish reason')) return undefined
      throw part.error
    default:
      return undefined
  }
}

/** The provider sent an error inside a stream with status 200. */
function streamError(error: unknown): Retryable {
  const message = textOrJson(objectOf(error)['message'] ?? error)
  return new Retryable(`The provider interrupted the response: ${message}`, {
    code: 'model_stream_error',
    cause: error,
  })
}

const reasons: Readonly<Record<string, FinishReason>> = {
  stop: 'stop',
  length: 'length',
  'content-filter': 'content_filter',
  'tool-calls': 'tool_calls',
}

/** Undefined if the provider did not report a finish reason: the response was interrupted. */
function finishOf({ finishReason, usage }: Finish): ModelPart | undefined {
  const { unified, raw } = finishReason
  if (unified === 'error' || (unified === 'other' && raw === undefined)) return undefined
  return { kind: 'finish', reason: reasons[unified] ?? 'stop', ...defined({ usage: usageOf(usage) }) }
}

function usageOf({ inputTokens, outputTokens }: Finish['usage']): TokenUsage | undefined {
  if (inputTokens.total === undefined && outputTokens.total === undefined) return undefined
  return {
    inputTokens: tokenCount(inputTokens.total),
    outputTokens: tokenCount(outputTokens.total),
    cacheReadTokens: tokenCount(inputTokens.cacheRead),
    cacheWriteTokens: tokenCount(inputTokens.cacheWrite),
  }
}

// More than any call can use; a larger number is an error of the provider and would overflow sums.
const tokensMax = 1e9

function tokenCount(value: number | undefined): number {
  return value !== undefined && Number.isFinite(value) && value > 0 ? Math.min(tokensMax, Math.round(value)) : 0
}

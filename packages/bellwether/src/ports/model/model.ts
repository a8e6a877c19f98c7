/**
 * The interface of a language model: a conversation in, parts of a response out. One call of `stream` sends one request, without
 * retries. Everything that a model returns is untrusted data.
 */

/** A tool call as the model wrote it. */
export interface RawToolCall {
  /** The provider's id. */
  readonly id: string
  readonly name: string
  /** The arguments as text; usually JSON. */
  readonly input: string
  /** Opaque provider metadata that must be sent back with the call. */
  readonly extra?: Readonly<Record<string, unknown>>
}

export interface MessageToolCall {
  readonly id: string
  readonly name: string
  readonly args: unknown
  readonly extra?: Readonly<Record<string, unknown>>
}

export interface ToolOutput {
  readonly id: string
  readonly name: string
  readonly text: string
  readonly failed: boolean
}

export type Message =
  | { readonly role: 'system' | 'user'; readonly text: string }
  | { readonly role: 'assistant'; readonly text: string; readonly calls: readonly MessageToolCall[] }
  | { readonly role: 'tool'; readonly outputs: readonly ToolOutput[] }

/** A tool as a model sees it. */
export interface ToolOffer {
  /** a-z, 0-9, _ and -, which every provider accepts. */
  readonly name: string
  readonly description: string
  /** A JSON schema of type object. */
  readonly parameters: Readonly<Record<string, unknown>>
}

export interface ModelRequest {
  readonly messages: readonly Message[]
  readonly tools: readonly ToolOffer[]
  readonly maxOutputTokens: number
  readonly temperature?: number | undefined
}

export interface TokenUsage {
  /** All input tokens, cached ones included. */
  readonly inputTokens: number
  readonly outputTokens: number
  /** Parts of the input: read from the provider's cache, and written to it. */
  readonly cacheReadTokens: number
  readonly cacheWriteTokens: number
}

export type FinishReason = 'stop' | 'length' | 'content_filter' | 'tool_calls'

export type ModelPart =
  | { readonly kind: 'text' | 'thought'; readonly text: string }
  /** A piece of a call's arguments; shows that the model is working. */
  | { readonly kind: 'input'; readonly text: string }
  | { readonly kind: 'call'; readonly call: RawToolCall }
  /** The last part; without it the response was interrupted. `usage` is absent if the provider does not report it. */
  | { readonly kind: 'finish'; readonly reason: FinishReason; readonly usage?: TokenUsage }

export interface Model {
  /** `provider/model`, as in the agent file. */
  readonly name: string
  /** Models with the same account at one provider share a limiter. */
  readonly account: string
  /** Removes the API key from a provider's message. */
  readonly redact?: (text: string) => string
  /** Throws the errors of the network and the provider. The signal aborts it. */
  stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<ModelPart>
}

export interface ModelResponse {
  readonly text: string
  readonly thought: string
  readonly calls: readonly RawToolCall[]
  readonly finish: FinishReason
  readonly usage: TokenUsage | undefined
}

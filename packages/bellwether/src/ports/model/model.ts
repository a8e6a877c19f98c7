/**
 * What a language model is to the rest of the product: a conversation in, parts of an answer out. Words only; the adapters stand
 * beside it. Always: one call of `stream` is one request, tried once; whatever a model says is data to whoever reads it.
 */

/** A call as the model wrote it. */
export interface RawToolCall {
  /** The provider's own id for it. */
  readonly id: string
  readonly name: string
  /** The arguments as text: JSON, when the model did well. */
  readonly input: string
  /** What the provider wants to see again with the call, unread. */
  readonly extra?: Readonly<Record<string, unknown>>
}

export interface ToolCall {
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
  | { readonly role: 'assistant'; readonly text: string; readonly calls: readonly ToolCall[] }
  | { readonly role: 'tool'; readonly outputs: readonly ToolOutput[] }

export interface OfferedTool {
  readonly name: string
  readonly description: string
  readonly parameters: Readonly<Record<string, unknown>>
}

export interface ModelRequest {
  readonly messages: readonly Message[]
  readonly tools: readonly OfferedTool[]
  readonly maxOutputTokens: number
  readonly temperature?: number | undefined
}

export interface TokenUsage {
  /** Everything that was read, what came from a cache included. */
  readonly inputTokens: number
  readonly outputTokens: number
  readonly cachedTokens: number
}

export type FinishReason = 'stop' | 'length' | 'content_filter' | 'tool_calls'

export type ModelPart =
  | { readonly kind: 'text' | 'thought'; readonly text: string }
  /** Arguments of a call as they come: a sign of life. */
  | { readonly kind: 'input'; readonly text: string }
  | { readonly kind: 'call'; readonly call: RawToolCall }
  /** The last one. An answer that ends without it was cut off. `usage` is absent where the provider does not say. */
  | { readonly kind: 'finish'; readonly reason: FinishReason; readonly usage?: TokenUsage }

export interface Model {
  /** `provider/model`, as the agent's file names it. */
  readonly name: string
  /** Models with the same one share a limiter: they are one account at one provider. */
  readonly account: string
  /** Takes its key out of what a provider says, before anybody reads it. */
  readonly redact?: (text: string) => string
  /** Throws what the network or the provider throws. Ends when the signal fires. */
  stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<ModelPart>
}

export interface ModelResponse {
  readonly text: string
  readonly thought: string
  readonly calls: readonly RawToolCall[]
  readonly finish: FinishReason
  readonly usage: TokenUsage | undefined
}

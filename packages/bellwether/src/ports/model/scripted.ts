/**
 * A model that follows a script, for tests and the demo: no network and no randomness, so the same conversation gets the same
 * response. Its usage is the token estimate of the conversation, unless the script sets it.
 */
import { Terminal } from '@bellwether/protocol'
import type { FinishReason, Model, ModelRequest, ModelPart, TokenUsage } from './model.js'
import { promptTokens, textTokens } from './tokens.js'

interface ScriptedAnswer {
  readonly text?: string
  readonly thought?: string
  /** `input` replaces `args` with raw text, which need not be JSON. */
  readonly calls?: readonly { readonly name: string; readonly args?: unknown; readonly input?: string }[]
  readonly finish?: FinishReason
  /** Null: reports no usage. */
  readonly usage?: TokenUsage | null
}

/** Gets the conversation and the number of responses so far, so that a script needs no state. */
export type Script = (
  request: ModelRequest,
  turn: number,
  signal: AbortSignal,
) => ScriptedAnswer | Promise<ScriptedAnswer>

export function scriptedModel(name: string, script: Script): Model {
  return {
    name: `scripted/${name}`,
    account: `scripted/${name}`,
    async *stream(request, signal) {
      const answers = request.messages.filter((message) => message.role === 'assistant').length
      const answer = await script(request, answers, signal)
      if (signal.aborted) throw new Terminal('The script was aborted', { code: 'aborted' })
      yield* partsOf(request, answer)
    },
  }
}

function* partsOf(request: ModelRequest, answer: ScriptedAnswer): Iterable<ModelPart> {
  const { text = '', thought = '', calls = [] } = answer
  if (thought !== '') yield { kind: 'thought', text: thought }
  // Two parts, as in a stream, so that readers have to join them.
  const half = Math.ceil(text.length / 2)
  for (const part of [text.slice(0, half), text.slice(half)]) if (part !== '') yield { kind: 'text', text: part }
  let written = textTokens(text) + textTokens(thought)
  for (const [index, call] of calls.entries()) {
    const input = call.input ?? JSON.stringify(call.args ?? {})
    written += textTokens(input)
    yield { kind: 'input', text: input }
    yield { kind: 'call', call: { id: `call_${index}`, name: call.name, input } }
  }
  const usage = answer.usage ?? {
    inputTokens: promptTokens(request),
    outputTokens: Math.min(written, request.maxOutputTokens),
    cacheReadTokens: 0,
    cacheWriteTokens: 0,
  }
  yield {
    kind: 'finish',
    reason: answer.finish ?? (calls.length > 0 ? 'tool_calls' : 'stop'),
    ...(answer.usage === null ? {} : { usage }),
  }
}

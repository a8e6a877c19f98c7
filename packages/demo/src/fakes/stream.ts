/** Streams one answer of a model in the format of an OpenAI-compatible server. Pure. */

export interface Answer {
  readonly text?: string
  readonly calls?: readonly { readonly name: string; readonly args: Readonly<Record<string, unknown>> }[]
  /** Reported token usage. */
  readonly tokens?: number
  /** Delay before the answer. */
  readonly afterMs?: number
}

// Splits a sentence into three or four chunks, so that the dashboard shows it arriving.
const chunkChars = 24

export function* streamAnswer(model: string, { text = '', calls = [], tokens = 60 }: Answer): Generator<string> {
  const event = (body: object) =>
    `data: ${JSON.stringify({ id: 'demo', object: 'chat.completion.chunk', created: 1, model, ...body })}\n\n`
  const delta = (part: object, finish: string | null = null) =>
    event({ choices: [{ index: 0, delta: part, finish_reason: finish }] })
  yield delta({ role: 'assistant', content: '' })
  for (let at = 0; at < text.length; at += chunkChars) yield delta({ content: text.slice(at, at + chunkChars) })
  for (const [index, { name, args }] of calls.entries())
    yield delta({
      tool_calls: [
        { index, id: `call_${index}`, type: 'function', function: { name, arguments: JSON.stringify(args) } },
      ],
    })
  yield delta({}, calls.length > 0 ? 'tool_calls' : 'stop')
  const out = Math.ceil(tokens / 4)
  yield event({ choices: [], usage: { prompt_tokens: tokens - out, completion_tokens: out, total_tokens: tokens } })
  yield 'data: [DONE]\n\n'
}

/** One answer of a model as an OpenAI-compatible server streams it, piece by piece. Pure. */

export interface Line {
  readonly text?: string
  readonly calls?: readonly { readonly name: string; readonly args: Readonly<Record<string, unknown>> }[]
  /** What it says it used; absent: little. */
  readonly tokens?: number
  /** How long it thinks first. */
  readonly afterMs?: number
}

// A sentence in three or four pieces: enough to be seen coming.
const pieceChars = 24

export function* spoken(model: string, { text = '', calls = [], tokens = 60 }: Line): Generator<string> {
  const event = (body: object) =>
    `data: ${JSON.stringify({ id: 'stage', object: 'chat.completion.chunk', created: 1, model, ...body })}\n\n`
  const delta = (piece: object, finish: string | null = null) =>
    event({ choices: [{ index: 0, delta: piece, finish_reason: finish }] })
  yield delta({ role: 'assistant', content: '' })
  for (let at = 0; at < text.length; at += pieceChars) yield delta({ content: text.slice(at, at + pieceChars) })
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

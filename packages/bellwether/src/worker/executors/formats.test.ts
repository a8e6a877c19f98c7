import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { formats, lastObject, type FormatName } from './formats.js'

describe('output formats', () => {
  it('output formats parse arbitrary output without throwing, and the usage stays a number', () => {
    const lineLike = fc.oneof(
      fc.string(),
      fc.json(),
      fc.constantFrom(
        '{"type":"result"}',
        '{"type":"assistant","message":5}',
        '{"type":"item.completed","item":[]}',
        '{"type":"step_finish","part":{"tokens":{"input":"x","cache":3}}}',
      ),
    )
    fc.assert(
      fc.property(fc.constantFrom(...(Object.keys(formats) as FormatName[])), fc.array(lineLike), (name, lines) => {
        const parser = formats[name]()
        for (const line of lines) parser.line?.(line)
        parser.end?.(lines.join('\n'), 0)
        return Number.isSafeInteger(parser.output.usage?.total_tokens ?? 0)
      }),
    )
    expect(Object.keys(formats)).toHaveLength(7)
  })

  it('output formats count a claude message once although it arrives in several events, and take the total from the result', () => {
    const parser = formats.claude()
    const message = (id: string, output: number) =>
      parser.line!(
        JSON.stringify({ type: 'assistant', message: { id, usage: { input_tokens: 10, output_tokens: output } } }),
      )
    message('a', 1)
    message('a', 5)
    message('b', 2)
    expect(parser.output.usage).toMatchObject({ input_tokens: 20, output_tokens: 7, total_tokens: 27 })
    for (let number = 0; number < 200; number += 1) message(`c${number}`, 1)
    expect(parser.output.usage).toMatchObject({ input_tokens: 2_020, output_tokens: 207 })
    parser.line!(
      JSON.stringify({
        type: 'result',
        subtype: 'success',
        result: 'done',
        usage: { input_tokens: 1, output_tokens: 1 },
      }),
    )
    expect(parser.output).toMatchObject({ text: 'done', usage: { total_tokens: 2 } })
  })

  it('output formats count what the subagents of claude use, and the limit of its budget, as its result does by model', () => {
    // The numbers are those of claude 2.1.197 with a server that imitates its API.
    const usage = (input: number, read: number, output: number) => ({
      input_tokens: input,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: read,
      output_tokens: output,
    })
    const model = (inputTokens: number, cacheReadInputTokens: number, outputTokens: number) => ({
      'claude-opus-4-8[1m]': { inputTokens, outputTokens, cacheReadInputTokens, cacheCreationInputTokens: 0 },
    })
    const result = (fields: object) => JSON.stringify({ type: 'result', subtype: 'success', result: 'done', ...fields })
    const parser = formats.claude()
    for (const parent_tool_use_id of [null, 't', 't', 't', null])
      parser.line!(JSON.stringify({ type: 'assistant', parent_tool_use_id, message: { usage: usage(6, 31_791, 1) } }))
    parser.line!(
      result({ usage: usage(12, 63_582, 236), modelUsage: model(30, 158_955, 590), total_cost_usd: 0.13219 }),
    )
    expect(parser.output.usage).toMatchObject({
      input_tokens: 30,
      cache_read_tokens: 158_955,
      output_tokens: 590,
      cost_usd: 0.13219,
    })
    // The next message of the same process: the total by model goes on.
    parser.line!(result({ usage: usage(6, 31_791, 118), modelUsage: model(36, 190_746, 708), total_cost_usd: 0.158 }))
    expect(parser.output.usage).toMatchObject({ input_tokens: 36, output_tokens: 708, cost_usd: 0.158 })

    const stopped = formats.claude()
    const errors = ['Reached maximum budget ($0.01)']
    const ending = { subtype: 'error_max_budget_usd', is_error: true, result: undefined, errors, total_cost_usd: 0.026 }
    stopped.line!(result({ ...ending, usage: usage(0, 0, 0), modelUsage: model(6, 31_791, 118) }))
    expect(stopped.output).toMatchObject({ failure: errors[0], usage: { input_tokens: 6, output_tokens: 118 } })
  })

  it('output formats take the last text of claude itself as its result if it reports an empty one', () => {
    const parser = formats.claude()
    const say = (text: string, parent_tool_use_id: string | null) =>
      parser.line!(
        JSON.stringify({ type: 'assistant', parent_tool_use_id, message: { content: [{ type: 'text', text }] } }),
      )
    say('\n\nThe work is done.', null)
    say('I am a subagent.', 'toolu_1')
    parser.line!(JSON.stringify({ type: 'result', subtype: 'success', is_error: false, result: '' }))
    expect(parser.output.text).toBe('The work is done.')
    parser.line!(JSON.stringify({ type: 'result', subtype: 'success', is_error: false, result: 'Its own words.' }))
    expect(parser.output.text).toBe('Its own words.')
  })

  it('output formats take a call of the model of claude that the API refuses with 429 as a limit of the account', () => {
    const resultWith = (status: number | null) => {
      const parser = formats.claude()
      const text = 'API Error: Request rejected (429) · This request would exceed the rate limit.'
      const ending = { type: 'result', subtype: 'success', is_error: true, api_error_status: status, result: text }
      parser.line!(JSON.stringify(ending))
      return parser.output
    }
    expect(resultWith(429)).toMatchObject({ limited: {}, failure: expect.stringContaining('(429)') })
    for (const status of [null, 529]) expect(resultWith(status).limited).toBeUndefined()
    const known = formats.claude()
    const info = { status: 'rejected', resetsAt: 1_795_096_156, rateLimitType: 'five_hour' }
    known.line!(JSON.stringify({ type: 'rate_limit_event', rate_limit_info: info }))
    known.line!(
      JSON.stringify({ type: 'result', is_error: true, api_error_status: 429, result: "You've hit your limit" }),
    )
    expect(known.output.limited).toEqual({ until: 1_795_096_156_000 })
  })

  it('[H6.5] output formats take a failure that a JSON object reports in any form, whatever text it has', () => {
    const failureOf = (object: object) => {
      const parser = formats.json()
      parser.end!(JSON.stringify({ text: 'partly', ...object }), 0)
      return parser.output.failure
    }
    const words = ['failed', 'FAILED', 'error', 'Timeout', 'timed_out', 'cancelled', 'canceled', 'blocked', 'aborted']
    for (const status of words) expect(failureOf({ status })).toBe(`status is "${status}" (partly)`)
    for (const report of [
      { ok: false },
      { success: false },
      { OK: false },
      { is_error: true },
      { subtype: 'error_max_turns' },
    ])
      expect([report, failureOf(report)]).toEqual([report, expect.stringContaining('(partly)')])
    expect(failureOf({ ok: false, reason: 'no quota' })).toBe('ok is false (no quota)')
    expect(failureOf({ error: 'boom' })).toBe('boom')
    for (const report of [
      {},
      { status: 'done' },
      { ok: true },
      { success: true },
      { error: null },
      { status: 'no errors' },
    ])
      expect([report, failureOf(report)]).toEqual([report, undefined])
  })

  it('[H7.6] output formats count the usage of JSON objects by kind, with the names that programs use', () => {
    const usageOf = (object: object) => {
      const parser = formats.json()
      parser.end!(JSON.stringify({ text: 'x', ...object }), 0)
      return parser.output.usage
    }
    const kinds = {
      input_tokens: 10,
      output_tokens: 5,
      cache_read_tokens: 90,
      cache_write_tokens: 3,
      total_tokens: 108,
    }
    expect(usageOf({ usage: kinds })).toEqual(kinds)
    expect(
      usageOf({
        usage: { input_tokens: 10, output_tokens: 5, cache_read_input_tokens: 90, cache_creation_input_tokens: 3 },
      }),
    ).toEqual(kinds)
    expect(
      usageOf({ usage: { prompt_tokens: 100, completion_tokens: 5, prompt_tokens_details: { cached_tokens: 90 } } }),
    ).toEqual({ ...kinds, cache_write_tokens: 0, total_tokens: 105 })
    expect(usageOf({ metrics: { tokenUsage: 77 } })).toMatchObject({ total_tokens: 77 })
    expect(usageOf({ tokenUsage: 78 })).toMatchObject({ total_tokens: 78 })
    expect(usageOf({})).toBeUndefined()
  })

  it('[H7.6] output formats count what aider wrote to the cache and read from it apart from its input', () => {
    const parser = formats.aider()
    parser.line!('Tokens: 12k sent, 1.5k cache write, 8k cache hit, 900 received. Cost: $0.04 message, $0.10 session.')
    expect(parser.output.usage).toEqual({
      input_tokens: 2_500,
      output_tokens: 900,
      cache_read_tokens: 8_000,
      cache_write_tokens: 1_500,
      total_tokens: 12_900,
      cost_usd: 0.1,
    })
    parser.line!('Tokens: 1k sent, 100 received.')
    expect(parser.output.usage).toMatchObject({ input_tokens: 3_500, cache_read_tokens: 8_000, output_tokens: 1_000 })
  })

  it('[H6.5] output formats take an error of aider as its failure unless a message follows, because aider exits with 0', () => {
    const error = 'litellm.InternalServerError: AnthropicException - overloaded'
    const read = (...lines: readonly string[]) => {
      const parser = formats.aider()
      for (const line of lines) parser.line?.(line)
      parser.end?.(lines.join('\n'), 0)
      return parser.output
    }
    expect(read('Aider v0.86.1', error, 'Retrying in 0.2 seconds...', error)).toMatchObject({ failure: error })
    const tokens = 'Tokens: 10k sent, 8k cache write, 1k cache hit, 20 received.'
    const cost = 'Cost: $0.03 message, $0.05 session.'
    const answer = ['I fixed it.', '{"files": ["a"]}']
    const after = ['', tokens, cost, 'Applied edit to a', 'Commit 4f5c1d2 fix: a', 'You can use /undo to undo it.']
    const recovered = read(error, 'Retrying in 0.2 seconds...', ...answer, ...after)
    expect(recovered).not.toHaveProperty('failure')
    // With a cache the cost is on a line of its own; what follows the answer is not part of it.
    expect(recovered.usage).toMatchObject({ cost_usd: 0.05, cache_write_tokens: 8_000, input_tokens: 1_000 })
    expect(recovered.text?.endsWith('{"files": ["a"]}')).toBe(true)
  })

  it('[H7.6] output formats read the events of gemini: the text after the last tool call, usage with thoughts, and a failure', () => {
    const parser = formats.gemini()
    const say = (content: string) => ({ type: 'message', role: 'assistant', content, delta: true })
    const stats = { total_tokens: 1_100, input_tokens: 1_000, cached: 600, output_tokens: 70 }
    const events = [
      { type: 'message', role: 'user', content: 'prompt' },
      say('Let me look.'),
      { type: 'tool_use', tool_id: 't', tool_name: 'read_file', parameters: {} },
      say('It is '),
      say('fixed.'),
      { type: 'result', status: 'success', stats },
    ]
    for (const event of events) parser.line?.(JSON.stringify(event))
    parser.end?.('', 0)
    expect(parser.output).toMatchObject({
      text: 'It is fixed.',
      usage: { input_tokens: 400, cache_read_tokens: 600, output_tokens: 100, total_tokens: 1_100 },
    })
    const failed = formats.gemini()
    failed.line?.(JSON.stringify({ type: 'result', status: 'error', error: { type: 'x', message: 'no quota' } }))
    failed.end?.('', 0)
    expect(failed.output.failure).toBe('no quota')
    // One object, as --output-format json prints it.
    const whole = formats.gemini()
    const text = JSON.stringify({ response: 'Fine.' }, null, 2)
    for (const line of text.split('\n')) whole.line?.(line)
    whole.end?.(text, 0)
    expect(whole.output.text).toBe('Fine.')
    const silent = formats.gemini()
    silent.end?.('', 0)
    expect(silent.output).toEqual({})
  })

  it('output formats report a call that opencode rejects and ends after, unless it goes on', () => {
    const parser = formats.opencode()
    const error = 'The user rejected permission to use this specific tool call.'
    const state = { status: 'error', input: { command: 'npm test' }, error }
    const events = [
      { type: 'text', part: { text: 'Let me test.' } },
      { type: 'tool_use', part: { tool: 'bash', state } },
    ]
    for (const event of events) parser.line?.(JSON.stringify(event))
    expect(parser.output.failure).toMatch(
      /^opencode was not allowed to use bash\(npm test\)\. Allow it under "permission"/,
    )
    parser.line?.(JSON.stringify({ type: 'text', part: { text: 'I go on.' } }))
    expect(parser.output).toMatchObject({ text: 'I go on.' })
    expect(parser.output).not.toHaveProperty('failure')
  })

  it('output formats read invalid token counts as 0', () => {
    const parser = formats.codex()
    parser.line!('{"type":"turn.completed","usage":{"input_tokens":-5,"output_tokens":1e400}}')
    expect(parser.output.usage).toMatchObject({ input_tokens: 0, output_tokens: 0, total_tokens: 0 })
  })

  it('output formats find the JSON object at the end: the complete output, one line, or several lines', () => {
    expect(lastObject('{"a":\n1}')).toEqual({ a: 1 })
    expect(lastObject('words {not this}\n{"a":1}\n')).toEqual({ a: 1 })
    expect(lastObject('words\n{\n  "a": 1\n}')).toEqual({ a: 1 })
    expect(lastObject('no object')).toBeUndefined()
    expect(lastObject('[1]')).toBeUndefined()
  })
})

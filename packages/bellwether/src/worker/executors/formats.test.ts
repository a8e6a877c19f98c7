import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { formats, lastObject, type FormatName } from './formats.js'

describe('output formats', () => {
  it('parse arbitrary output without throwing, and the usage stays a number', () => {
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

  it('count a claude message once although it arrives in several events, and take the total from the result', () => {
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

  it('read invalid token counts as 0', () => {
    const parser = formats.codex()
    parser.line!('{"type":"turn.completed","usage":{"input_tokens":-5,"output_tokens":1e400}}')
    expect(parser.output.usage).toMatchObject({ input_tokens: 0, output_tokens: 0, total_tokens: 0 })
  })

  it('find the JSON object at the end: the complete output, one line, or several lines', () => {
    expect(lastObject('{"a":\n1}')).toEqual({ a: 1 })
    expect(lastObject('words {not this}\n{"a":1}\n')).toEqual({ a: 1 })
    expect(lastObject('words\n{\n  "a": 1\n}')).toEqual({ a: 1 })
    expect(lastObject('no object')).toBeUndefined()
    expect(lastObject('[1]')).toBeUndefined()
  })
})

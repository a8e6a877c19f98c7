import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { formats, lastObject, type FormatName } from './formats.js'

describe('what programs print', () => {
  it('may be anything at all: no reader throws, and usage stays a number', () => {
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
        const reader = formats[name]()
        for (const line of lines) reader.line?.(line)
        reader.whole?.(lines.join('\n'), 0)
        return Number.isSafeInteger(reader.answer.usage?.total_tokens ?? 0)
      }),
    )
    expect(Object.keys(formats)).toHaveLength(7)
  })

  it('counts a message of claude once, though it comes in several events, and the result has the last word', () => {
    const reader = formats.claude()
    const said = (id: string, output: number) =>
      reader.line!(
        JSON.stringify({ type: 'assistant', message: { id, usage: { input_tokens: 10, output_tokens: output } } }),
      )
    said('a', 1)
    said('a', 5)
    said('b', 2)
    expect(reader.answer.usage).toMatchObject({ input_tokens: 20, output_tokens: 7, total_tokens: 27 })
    for (let number = 0; number < 200; number += 1) said(`c${number}`, 1)
    expect(reader.answer.usage).toMatchObject({ input_tokens: 2_020, output_tokens: 207 })
    reader.line!(
      JSON.stringify({
        type: 'result',
        subtype: 'success',
        result: 'done',
        usage: { input_tokens: 1, output_tokens: 1 },
      }),
    )
    expect(reader.answer).toMatchObject({ text: 'done', usage: { total_tokens: 2 } })
  })

  it('reads numbers that are none as nothing', () => {
    const reader = formats.codex()
    reader.line!('{"type":"turn.completed","usage":{"input_tokens":-5,"output_tokens":1e400}}')
    expect(reader.answer.usage).toEqual({ input_tokens: 0, output_tokens: 0, total_tokens: 0 })
  })

  it('finds the object at the end, whole, in one line, or over several', () => {
    expect(lastObject('{"a":\n1}')).toEqual({ a: 1 })
    expect(lastObject('words {not this}\n{"a":1}\n')).toEqual({ a: 1 })
    expect(lastObject('words\n{\n  "a": 1\n}')).toEqual({ a: 1 })
    expect(lastObject('no object')).toBeUndefined()
    expect(lastObject('[1]')).toBeUndefined()
  })
})

/** The stream's text, however the network cuts it. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { makeParser } from './sse.js'

const stream =
  ': hello\n\nid: 1:1\nevent: state\ndata: {"a":1}\n\nevent: task\ndata: one\ndata: two\nid: 1:2\n\n: ping 1:9\nid: 1:9\n\ndata: last\r\n\r\n'
const messages = [
  { event: 'state', data: '{"a":1}' },
  { event: 'task', data: 'one\ntwo' },
  { event: 'message', data: 'last' },
]

describe('server-sent events', () => {
  it('server-sent events are parsed the same however the text is cut', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(stream.length), { maxLength: 12 }), (cuts) => {
        const parser = makeParser()
        const positions = [0, ...cuts.toSorted((one, other) => one - other), stream.length]
        const parsed = positions.slice(1).flatMap((to, at) => parser.push(stream.slice(positions[at], to)))
        expect(parsed).toEqual(messages)
        expect(parser.lastId()).toBe('1:9')
      }),
    )
  })

  it('a ping updates the resume position without a message', () => {
    const parser = makeParser()
    expect(parser.push(': ping 7:7\nid: 7:7\n\n')).toEqual([])
    expect(parser.lastId()).toBe('7:7')
    parser.push(': ping\n\n')
    expect(parser.lastId()).toBe('7:7')
  })

  it('a message without an end fails before it fills the memory', () => {
    const parser = makeParser()
    const piece = `data: ${'x'.repeat(1_000_000)}`
    expect(() => {
      for (let times = 0; times < 20; times += 1) parser.push(piece)
    }).toThrow('max buffer size')
  })
})

import * as protocol from '@bellwether/protocol'
import { describe, expect, it } from 'vitest'
import { codeOf } from '../../library/agents.js'
import { FenceLost, functionIn } from '../agent.js'
import { checkIsolation, isolationOf } from './isolation.js'
import { packError, unpackError } from './messages.js'

const run = async () => 'done'

describe('isolation of a function agent', () => {
  it('a function that is defined inline is rejected with the remedy if it should run in a thread or process', () => {
    expect(() => codeOf('a', run, { isolation: 'thread' })).toThrow(
      expect.objectContaining({ code: 'isolation_needs_module', hint: expect.stringContaining('import.meta.url') }),
    )
    expect(() => codeOf('a', run, { memoryMaxMb: 64 })).toThrow(/defined inline/)
    expect(codeOf('a', run, { isolation: 'none' })).toBeTypeOf('function')
  })

  it('a module is an absolute path or a URL, with a valid isolation and memory limit', () => {
    const agent = { module: new URL('file:///a.mjs'), isolation: 'process', memoryMaxMb: 64 } as const
    const code = { name: 'a', takesInstruction: true, ...agent, module: 'file:///a.mjs' }
    expect(codeOf('a', agent)).toEqual(code)
    expect(codeOf('a', { ...agent, module: '/a.mjs' })).toEqual(code)
    expect(() => codeOf('a', { module: './a.mjs' })).toThrow(/must be an absolute path or a URL \(got "\.\/a\.mjs"\)/)
    expect(() => checkIsolation('Cannot define it', { memoryMaxMb: 1.5 })).toThrow(/whole number from 16/)
    expect(() => checkIsolation('Cannot define it', { isolation: 'none', memoryMaxMb: 64 })).toThrow(/needs a thread/)
    expect(() => checkIsolation('Cannot define it', { isolation: 'fiber' as 'none' })).toThrow(/\(got "fiber"\)/)
  })

  it('a memory limit without an isolation asks for a thread', () => {
    expect(isolationOf({ memoryMaxMb: 64 }, 'none')).toBe('thread')
    expect(isolationOf({ memoryMaxMb: 64, isolation: 'process' }, 'none')).toBe('process')
    expect(isolationOf({}, 'none')).toBe('none')
  })

  it('the function is the default export, or its entry by name, as a function or as { run }', () => {
    expect(functionIn(run, 'a')).toBe(run)
    expect(functionIn({ a: run }, 'a')).toBe(run)
    expect(functionIn({ a: { run } }, 'a')).toBe(run)
    for (const wrong of [undefined, null, {}, { b: run }, { a: 1 }, { a: { run: 1 } }])
      expect(functionIn(wrong, 'a')).toBeUndefined()
    expect(functionIn({}, 'toString')).toBeUndefined()
  })

  it('an error keeps its class, code and hint across the boundary', () => {
    const crossed = (error: unknown) => unpackError(structuredClone(packError(error)), 'turn', protocol)
    const invalid = crossed(new protocol.InvalidInput('wrong', { code: 'c', hint: 'h' }))
    expect(invalid).toBeInstanceOf(protocol.InvalidInput)
    expect(invalid).toMatchObject({ message: 'wrong', code: 'c', hint: 'h' })
    expect(crossed(new FenceLost('turn'))).toBeInstanceOf(FenceLost)
    expect(crossed(new RangeError('far'))).toMatchObject({ name: 'RangeError', message: 'far' })
    expect(crossed('text')).toMatchObject({ message: 'text' })
  })
})

import { describe, expect, it } from 'vitest'
import { matchesName, mcpName, ownName } from './names.js'

describe('tool names', () => {
  it('tool names of MCP servers are server__tool if that is valid, and otherwise distinct by a hash', () => {
    expect(mcpName('github', 'create_issue')).toBe('github__create_issue')
    const pairs = [
      ['GitHub', 'create'],
      ['github', 'Create'],
      ['github', 'create'],
      ['github', 'create '],
      ['a_', 'b'],
      ['a', '_b'],
      ['a__b', 'c'],
      ['a', 'b__c'],
      ['ä', 'ö'],
      ['ö', 'ä'],
      ['s', 'x'.repeat(300)],
      ['s', `${'x'.repeat(300)}y`],
    ] as const
    const names = pairs.map(([server, tool]) => mcpName(server, tool))
    expect(new Set(names).size).toBe(pairs.length)
    for (const name of names) expect(name).toMatch(/^[a-z0-9_-]{1,64}$/)
  })

  it('give the tool of one MCP server never the name of a tool of another, whatever it calls its tool', () => {
    const name = mcpName('GitHub', 'delete')
    expect(name).toMatch(/^github__delete-[0-9a-f]{8}$/)
    const imitated = mcpName('github', name.slice('github__'.length))
    expect(imitated).not.toBe(name)
    expect(imitated).toMatch(/^github__delete-[0-9a-f]{8}-[0-9a-f]{8}$/)
  })

  it.each(['submit_result', 'delegate', 'fork_join', 'ask_person', 'Big', 'a b', '', 'a__b', 'x'.repeat(65), 'a.b'])(
    'reject the declared name %j',
    (name) => expect(() => ownName(name)).toThrow(/is reserved|is not a valid tool name/),
  )

  it('match a pattern in which only * is special', () => {
    expect(['read_file', 'read.file', 'unread_x'].map((name) => matchesName('read_*', name))).toEqual([
      true,
      false,
      false,
    ])
    expect(matchesName('a.c', 'abc')).toBe(false)
    expect(['*', '**', 'a*', '*c', 'a*c', 'abc*', 'a**b*c'].every((pattern) => matchesName(pattern, 'abc'))).toBe(true)
    expect(['', 'b*', '*b', 'a*d', 'abcd*'].some((pattern) => matchesName(pattern, 'abc'))).toBe(false)
    expect(matchesName('*a*a*a*a*a*a*b', 'a'.repeat(60))).toBe(false)
  })
})

import { describe, expect, it } from 'vitest'
import { parseYaml, YamlProblem } from './yaml-subset.js'

describe('the part of YAML that is read', () => {
  it('is scalars, lists of scalars and one level of nesting, with comments', () => {
    const { values, lines } = parseYaml(`# an agent
executor: command   # how
count: 3
ratio: -0.5
on: true
off: ~
empty:
plain: a b's "c"#d
single: 'it''s: # fine'
double: "tab\\t: \\u00e9"
inline: [a, "b, c", 'd', 4, true]
none: []
same:
- one
- two
deeper:
  - "x: y"

  - z
budget:
  max_tokens: 5
  tags: [a]
`)
    expect(values).toEqual({
      executor: 'command',
      count: 3,
      ratio: -0.5,
      on: true,
      off: null,
      empty: null,
      plain: `a b's "c"#d`,
      single: "it's: # fine",
      double: 'tab\t: é',
      inline: ['a', 'b, c', 'd', 4, true],
      none: [],
      same: ['one', 'two'],
      deeper: ['x: y', 'z'],
      budget: { max_tokens: 5, tags: ['a'] },
    })
    expect([lines.get('executor'), lines.get('budget.max_tokens')]).toEqual([2, 21])
  })

  it.each([
    ['a: 1\na: 2', 2, 'given twice'],
    ['  a: 1', 1, 'indented'],
    ['\ta: 1', 1, 'tabs'],
    ['a: &x 1', 1, 'a sign that means something'],
    ['a: *x', 1, 'a sign that means something'],
    ['a: !!str 1', 1, 'a sign that means something'],
    ['a: {b: 1}', 1, 'a sign that means something'],
    ['a: |\n  text', 1, 'several lines'],
    ['a: b: c', 1, 'a colon'],
    ['a: "b', 1, 'no closing quote'],
    ['a: "\\x"', 1, 'escape'],
    ['a: [b,\n  c]', 1, 'ends on its own line'],
    ['a: [b, [c]]', 1, 'cannot be read'],
    ['a:\n  b:\n    c: 1', 2, 'nesting ends here'],
    ['a:\n  b: 1\n    c: 2', 3, 'same indent'],
    ['a:\n  - b: 1', 2, 'single values only'],
    ['a:\n  - b\n  c: 1', 3, 'a list holds lines'],
    ['just words', 1, 'is not of the form'],
    ['a:b', 1, 'is not of the form'],
    ['__proto__:\n  polluted: true', 1, 'there is no key __proto__'],
    ['? a', 1, 'is not of the form'],
  ])('and nothing else: %j', (text, line, message) => {
    let problem: unknown
    try {
      parseYaml(text)
    } catch (error) {
      problem = error
    }
    expect(problem).toBeInstanceOf(YamlProblem)
    expect(problem).toMatchObject({ line, message: expect.stringContaining(message) })
  })
})

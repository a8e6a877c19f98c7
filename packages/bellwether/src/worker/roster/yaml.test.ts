import { describe, expect, it } from 'vitest'
import { parseYaml, YamlProblem } from './yaml.js'

function problemOf(text: string, firstLine?: number): unknown {
  try {
    parseYaml(text, firstLine)
    return undefined
  } catch (error) {
    return error
  }
}

describe('parseYaml', () => {
  it('parses plain data with comments, and returns the line of every key', () => {
    const { values, lines } = parseYaml(
      `# an agent
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
flow: {a: 1, b: [2]}
words: |
  two
  lines
yes: yes
version: 1.0.0
`,
      2,
    )
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
      flow: { a: 1, b: [2] },
      words: 'two\nlines\n',
      yes: 'yes',
      version: '1.0.0',
    })
    expect([lines.get('executor'), lines.get('budget.max_tokens'), lines.get('flow.b')]).toEqual([3, 22, 24])
    expect(parseYaml('# nothing\n')).toEqual({ values: {}, lines: new Map() })
  })

  it.each([
    ['a: 1\na: 2', 2, 'a is defined twice'],
    ['b: 1\na: &x 1', 2, 'anchors and aliases'],
    ['a: *x', 1, ''],
    ['a: &x [1, 2]\nb: [*x, *x]', 1, 'anchors and aliases'],
    ['a: !!str 1', 1, 'the tag'],
    ['a: !mine 1', 1, ''],
    ['a: b: c', 1, 'invalid YAML'],
    ['x: 1\na: "b', 2, 'invalid YAML'],
    ['a: "\\x"', 1, 'invalid YAML'],
    ['a: [b,\n  c', 2, 'invalid YAML'],
    ['a:\n  b: 1\n    c: 2', 2, 'invalid YAML'],
    ['a:\n\tb: 1', 2, ''],
    ['just words', 1, 'front matter must consist of lines'],
    ['- a', 1, 'front matter must consist of lines'],
    ['__proto__:\n  polluted: true', 1, 'unknown key "__proto__"'],
    ['a:\n  __proto__: 1', 2, 'unknown key "__proto__"'],
    ['? [a]\n: b', 1, ''],
    ['a: 1\n---\nb: 2', 2, ''],
  ])('rejects %j with its line', (text, line, message) => {
    const problem = problemOf(text)
    expect(problem).toBeInstanceOf(YamlProblem)
    expect(problem).toMatchObject({ line, message: expect.stringContaining(message) })
  })

  it('rejects YAML that is nested too deep', () => {
    expect(problemOf(`a: ${'['.repeat(30_000)}`)).toBeInstanceOf(YamlProblem)
    expect(problemOf(`a: ${'['.repeat(60)}${']'.repeat(60)}`)).toMatchObject({
      message: expect.stringContaining('levels deep'),
    })
  })

  it('rejects an alias bomb before it expands', () => {
    const rows = Array.from({ length: 20 }, (_, at) => `a${at}: &a${at} [${`*a${at - 1},`.repeat(at === 0 ? 0 : 9)}x]`)
    expect(problemOf(rows.join('\n'))).toBeInstanceOf(YamlProblem)
  })
})

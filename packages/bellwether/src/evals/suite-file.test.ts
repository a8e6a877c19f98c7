import { expect, it } from 'vitest'
import { readSuiteFile, type ReadBeside } from './suite-file.js'

const beside: ReadBeside = (path) =>
  path === 'refund.txt'
    ? { text: 'How do refunds work?' }
    : path === 'empty.md'
      ? { text: ' ' }
      : path === 'deep.json'
        ? { text: `{"context": ${'['.repeat(20_000)}${']'.repeat(20_000)}}` }
        : { problem: 'the file does not exist' }

const read = (text: string, file = 'evals/answers.toml') => readSuiteFile(file, text, beside)
const problems = (text: string, file?: string) => {
  const found = read(text, file)
  return 'problems' in found ? found.problems : []
}

const rest =
  '[[variants]]\nagent = "support"\n\n[[cases]]\nname = "refund"\ninstruction = "x"\n\n[[checks]]\ncontains = "x"\n'

it('reads cases from texts and files, and names the agents of variants', () => {
  const found = read(`repeat = 2
[[variants]]
agent = "support"
[[variants]]
name = "terse"
agent = "support"
instructions = "Be brief."
[[cases]]
name = "refund"
file = "refund.txt"
[[cases.checks]]
contains = "30 days"
`)
  expect(found).toMatchObject({
    definition: {
      repeat: 2,
      concurrency: 4,
      variants: [
        { name: 'support', agent: 'support', runs: 'support' },
        { name: 'terse', agent: 'support', runs: 'eval-answers-terse', instructions: 'Be brief.' },
      ],
      cases: [{ name: 'refund', instruction: 'How do refunds work?', checks: [{ contains: '30 days' }] }],
    },
  })
})

it.each([
  ['a = ', ['evals/answers.toml:1: invalid TOML']],
  [`conccurrency = 3\n${rest}`, ['evals/answers.toml:1: unknown key "conccurrency"; did you mean "concurrency"?']],
  [`repeat = 0\n${rest}`, ['evals/answers.toml:1: "repeat"', '(got 0)']],
  [rest.replace('agent = "support"', 'agent = "Support!"'), ['evals/answers.toml:2: "variants.0.agent": must be']],
  [
    rest.replace('instruction = "x"', ''),
    ['evals/answers.toml:4: "cases.0.instruction": must have exactly one of "instruction", "file"'],
  ],
  [
    rest.replace('instruction = "x"', 'instruction = "x"\nturn = "t"'),
    ['evals/answers.toml:7: "cases.0.turn": must have exactly one'],
  ],
  [
    rest.replace('instruction = "x"', 'file = "nothing.md"'),
    ['evals/answers.toml:6: "cases.0.file": the file does not exist'],
  ],
  [rest.replace('instruction = "x"', 'file = "empty.md"'), ['"cases.0.file": the file is empty']],
  [
    rest.replace('instruction = "x"', 'trail = "deep.json"'),
    ['"cases.0.trail": must be a trail', 'more than 80 levels'],
  ],
  [
    rest.replace('instruction = "x"', 'trail = "refund.txt"'),
    ['"cases.0.trail": must be a trail that `bellwether turn export` wrote'],
  ],
  [rest.replace('contains = "x"', 'contians = "x"'), ['unknown key "checks.0.contians"; did you mean "contains"?']],
  [
    rest.replace('contains = "x"', 'contains = "x"\nequals = "y"'),
    ['evals/answers.toml:10: "checks.0.equals": must have exactly one of contains'],
  ],
  [
    rest.replace('contains = "x"', 'matches = "("'),
    ['evals/answers.toml:9: "checks.0.matches": must be a regular expression'],
  ],
  [
    rest.replace('contains = "x"', 'json_schema = { type = "text" }'),
    ['"checks.0.json_schema": must be a JSON schema'],
  ],
  [
    rest.replace('contains = "x"', 'contains = "x"\ntimeout_seconds = 3'),
    ['"checks.0.timeout_seconds": must come with "command"'],
  ],
  [rest.replace('[[checks]]\ncontains = "x"\n', ''), ['"checks": must have at least one check']],
  [`${rest}[[cases]]\nname = "refund"\ninstruction = "y"\n`, ['"cases.1.name": must be unique']],
  [`${rest}[[variants]]\nagent = "support"\n`, ['"variants.1.name": must be unique']],
  [`${rest}[[variants]]\nagent = "other"\nmodel = "m"\n`, ['"variants.1.name": must name a variant with its own']],
  ['repeat = 1\n', ['"variants"', '"cases"']],
])('names file, key and remedy of %j', (text, expected) => {
  const found = problems(text).join('\n')
  for (const part of expected) expect(found).toContain(part)
})

it('bounds the size of a suite, its name and the number of its turns', () => {
  expect(problems(rest, 'evals/Bad Name.toml').join()).toContain('the name of the file must be 1 to 40')
  expect(problems(`# ${'x'.repeat(1_100_000)}\n${rest}`).join()).toContain('larger than 1048576 bytes')
  const many = Array.from({ length: 1_000 }, (_, at) => `[[cases]]\nname = "c${at}"\ninstruction = "x"\n`).join('')
  const suite = `repeat = 11\n[[checks]]\ncontains = "x"\n[[variants]]\nagent = "a"\n${many}`
  expect(problems(suite).join()).toContain('cases × variants × repeat is 11000')
  expect(read(suite.replace('repeat = 11', 'repeat = 10'))).toHaveProperty('definition')
  expect(problems(`${suite}[[cases]]\nname = "one more"\ninstruction = "x"\n`).join()).toContain('"cases"')
})

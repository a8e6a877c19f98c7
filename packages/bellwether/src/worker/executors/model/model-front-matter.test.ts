import { expect, it } from 'vitest'
import { readAgentFile } from '../../roster/agent-file.js'

const read = (front: string) => readAgentFile('agents/ann.md', `---\n${front}\n---\nBe brief.\n`)
const problem = (front: string) => {
  const result = read(front)
  return 'problems' in result ? result.problems[0] : undefined
}

it('reads all model keys of an agent file', () => {
  expect(
    read(`model: openai/gpt-5-mini
tools: [grep]
must_end_with: submit_result
max_output_tokens: 4096
context_tokens: 200000
temperature: 0.2
prices:
  input_per_million: 0.25
  output_per_million: 2
cheaper_model: openai/gpt-5-nano
cheaper_prices:
  input_per_million: 0.05
  output_per_million: 0.4
essential_tools: [grep]
budget:
  max_tokens: 200000
  max_cost_usd: 0.5
  max_steps: 20
  degrade: [reduced_context, cheaper_model, fewer_tools, stop_run]`),
  ).toMatchObject({
    agent: {
      settings: {
        executor: 'model',
        model: 'openai/gpt-5-mini',
        prices: { input_per_million: 0.25, output_per_million: 2 },
        cheaper_model: 'openai/gpt-5-nano',
        cheaper_prices: { input_per_million: 0.05, output_per_million: 0.4 },
        essential_tools: ['grep'],
        budget: { degrade: ['reduced_context', 'cheaper_model', 'fewer_tools', 'stop_run'], max_cost_usd: 0.5 },
        temperature: 0.2,
      },
    },
  })
})

it.each([
  ['model: gpt-5', 'agents/ann.md:2: "model" must have the form provider/model (got "gpt-5")'],
  ['model: a/b\nbudget:\n  max_cost_usd: 1', 'agents/ann.md:4: "budget.max_cost_usd" requires "prices"'],
  ['model: a/b\nprices:\n  input_per_milion: 1\n  output_per_million: 1', 'Did you mean "prices.input_per_million"?'],
  [
    'command: ls\ntemperature: 1',
    'agents/ann.md:3: "temperature" is only for executor "model", but this agent has executor "command"',
  ],
  ['command: ls\nbudget:\n  degrade: [stop_run]', '"budget.degrade" is only for executor "model"'],
  ['command: ls\nbudget:\n  max_steps: 3', '"budget.max_steps" is only for executor "model"'],
  ['executor: person\nbudget:\n  max_repeats: 3', '"budget.max_repeats" is only for executor "model" and "command"'],
  [
    'model: a/b\ncontext_tokens: 10',
    'agents/ann.md:3: "context_tokens" is invalid: Too small: expected number to be >=1000 (got 10)',
  ],
  ['model: a/b\ncheaper_model: small', 'agents/ann.md:3: "cheaper_model" must have the form provider/model'],
  ['model: a/b\nbudget:\n  degrade: [cheaper_model]', 'agents/ann.md:4: "budget.degrade" has cheaper_model'],
  [
    'model: a/b\nprices:\n  input_per_million: 1\n  output_per_million: 1\ncheaper_model: a/c',
    'agents/ann.md:6: "cheaper_model" requires "cheaper_prices"',
  ],
  [
    'model: a/b\ncheaper_prices:\n  input_per_million: 1\n  output_per_million: 1',
    '"cheaper_prices" requires "cheaper_model"',
  ],
  ['command: ls\ncheaper_model: small', 'agents/ann.md:3: "cheaper_model" requires a preset'],
  ['executor: person\ncheaper_model: small', '"cheaper_model" is only for executor "model"'],
  ['model: a/b\nbudget:\n  degrade: [give_up]', '"budget.degrade" is invalid'],
])('reports the problem of the model front matter %j with its line', (front, message) => {
  const problems = read(front)
  expect('problems' in problems ? problems.problems.join('\n') : problem(front)).toContain(message)
})

import { expect, it } from 'vitest'
import { readAgentFile } from '../../roster/agent-file.js'

const read = (front: string) => readAgentFile('agents/ann.md', `---\n${front}\n---\nBe brief.\n`)
const problem = (front: string) => {
  const result = read(front)
  return 'problems' in result ? result.problems[0] : undefined
}

it('an agent file says everything about its model', () => {
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
budget:
  max_tokens: 200000
  max_cost_usd: 0.5
  max_steps: 20
  degrade: [reduced_context, stop_run]`),
  ).toMatchObject({
    agent: {
      settings: {
        executor: 'model',
        model: 'openai/gpt-5-mini',
        prices: { input_per_million: 0.25, output_per_million: 2 },
        budget: { degrade: ['reduced_context', 'stop_run'], max_cost_usd: 0.5 },
        temperature: 0.2,
      },
    },
  })
})

it.each([
  ['model: gpt-5', 'agents/ann.md:2: model must be provider/model'],
  ['model: a/b\nbudget:\n  max_cost_usd: 1', 'agents/ann.md:4: budget.max_cost_usd needs prices'],
  ['model: a/b\nprices:\n  input_per_milion: 1\n  output_per_million: 1', 'did you mean prices.input_per_million?'],
  ['command: ls\ntemperature: 1', 'agents/ann.md:3: temperature is for executor model, and this one is command'],
  ['command: ls\nbudget:\n  degrade: [stop_run]', 'budget.degrade is for executor model'],
  ['model: a/b\ncontext_tokens: 10', 'agents/ann.md:3: context_tokens cannot be used'],
  ['model: a/b\nbudget:\n  degrade: [give_up]', 'budget.degrade cannot be used'],
])('%j is feedback by line', (front, message) => {
  const problems = read(front)
  expect('problems' in problems ? problems.problems.join('\n') : problem(front)).toContain(message)
})

import { expect, it } from 'vitest'
import { projectFiles } from './actors.js'
import { scripts } from './fakes/scripts.js'
import { chooseModel } from './real-model.js'

const real = chooseModel({ OPENAI_API_KEY: 'sk-x' }, false)

it('every scripted agent of the project folder has a script', () => {
  const agents = Object.entries(projectFiles({})).filter(([path]) => path.startsWith('agents/'))
  expect(agents.length).toBeGreaterThan(15)
  const scripted = agents.flatMap(([, text]) => /^model: demo\/(\S+)$/m.exec(text)?.[1] ?? [])
  expect(scripted.length).toBeGreaterThan(10)
  expect(Object.keys(scripts)).toEqual(expect.arrayContaining(scripted))
})

it('a real model runs the writing agents with a limit per turn, and never an agent that must fail', () => {
  const files = projectFiles(real)
  expect(files['agents/writer-1.md']).toMatch(
    /model: openai\/gpt-4\.1-mini\n[^]*budget:\n {2}max_tokens: 8000\n {2}max_steps: 6/,
  )
  expect(files['agents/columnist.md']).toContain('model: openai/')
  for (const name of ['marathon', 'spender', 'lead', 'pigeon-keeper', 'juggler-1'])
    expect(files[`agents/${name}.md`]).toContain('model: demo/')
})

it('the environment chooses the model unless a flag does', () => {
  const name = (...args: Parameters<typeof chooseModel>) => chooseModel(...args).real?.name
  expect(name({}, false)).toBeUndefined()
  expect(name({ OPENAI_API_KEY: ' ' }, false)).toBeUndefined()
  expect(name({ OPENAI_API_KEY: 'k' }, false)).toBe('openai/gpt-4.1-mini')
  expect(name({ OPENAI_BASE_URL: 'http://127.0.0.1:1/v1' }, false)).toBe('openai/gpt-4.1-mini')
  expect(name({ ANTHROPIC_API_KEY: 'k' }, false)).toBe('anthropic/claude-haiku-4-5')
  expect(name({ ANTHROPIC_API_KEY: 'k' }, false, 'claude-sonnet-4-5')).toBe('anthropic/claude-sonnet-4-5')
  expect(name({}, false, 'local/qwen3')).toBe('local/qwen3')
  expect(name({ OPENAI_API_KEY: 'k' }, true, 'local/qwen3')).toBeUndefined()
  expect(() => chooseModel({}, false, 'gpt')).toThrow('Cannot use model "gpt": no provider is configured for it')
})

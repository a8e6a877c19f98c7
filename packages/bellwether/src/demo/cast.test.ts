import { expect, it } from 'vitest'
import { readAgentFile } from '../worker/roster/agent-file.js'
import { projectFiles } from './cast.js'
import { chooseModel } from './real-model.js'
import { scripts } from './stage/scripts.js'

const real = chooseModel({ OPENAI_API_KEY: 'sk-x' }, false)

for (const [what, model] of [
  ['scripted', {}],
  ['real', real],
] as const) {
  it(`the demo's project folder can be used as it is written: ${what} models`, () => {
    const agents = Object.entries(projectFiles(model)).filter(([path]) => path.startsWith('agents/'))
    expect(agents.length).toBeGreaterThan(15)
    const read = agents.map(([path, text]) => readAgentFile(path, text))
    expect(read.flatMap((one) => ('problems' in one ? one.problems : []))).toEqual([])
    const played = read.flatMap((one) => ('agent' in one ? (one.agent.settings.model ?? []) : []))
    const scripted = played.filter((name) => name.startsWith('stage/')).map((name) => name.slice('stage/'.length))
    expect(Object.keys(scripts)).toEqual(expect.arrayContaining(scripted))
  })
}

it('a real model plays those that work, within a limit of its own, and never those that are there to fail', () => {
  const files = projectFiles(real)
  expect(files['agents/writer-1.md']).toMatch(
    /model: openai\/gpt-4\.1-mini\n[^]*budget:\n {2}max_tokens: 8000\n {2}max_steps: 6/,
  )
  expect(files['agents/columnist.md']).toContain('model: openai/')
  for (const name of ['marathon', 'spender', 'lead', 'pigeon-keeper', 'juggler-1'])
    expect(files[`agents/${name}.md`]).toContain('model: stage/')
})

it('which model writes follows from the environment, unless somebody says otherwise', () => {
  const name = (...words: Parameters<typeof chooseModel>) => chooseModel(...words).real?.name
  expect(name({}, false)).toBeUndefined()
  expect(name({ OPENAI_API_KEY: ' ' }, false)).toBeUndefined()
  expect(name({ OPENAI_API_KEY: 'k' }, false)).toBe('openai/gpt-4.1-mini')
  expect(name({ OPENAI_BASE_URL: 'http://127.0.0.1:1/v1' }, false)).toBe('openai/gpt-4.1-mini')
  expect(name({ ANTHROPIC_API_KEY: 'k' }, false)).toBe('anthropic/claude-haiku-4-5')
  expect(name({ ANTHROPIC_API_KEY: 'k' }, false, 'claude-sonnet-4-5')).toBe('anthropic/claude-sonnet-4-5')
  expect(name({}, false, 'local/qwen3')).toBe('local/qwen3')
  expect(name({ OPENAI_API_KEY: 'k' }, true, 'local/qwen3')).toBeUndefined()
  expect(() => chooseModel({}, false, 'gpt')).toThrow('names no model that is set up here')
})

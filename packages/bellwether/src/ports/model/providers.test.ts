import { expect, it } from 'vitest'
import { openModels } from './providers.js'

it.each([
  ['anthropic/claude-sonnet-4', 'The model "claude-sonnet-4" needs an API key', /^Set ANTHROPIC_API_KEY where /],
  ['openai/gpt-5', 'The model "gpt-5" needs an API key', /^Set OPENAI_API_KEY where /],
  ['my-lab/qwen', 'The provider "my-lab" of the model "qwen" is not configured', /^Set MY_LAB_BASE_URL \(and MY_LAB_/],
])('the model %s without its key names the variable and where to set it', (name, message, hint) => {
  const open = () => openModels({ env: { OPENAI_API_KEY: ' ' } })(name)
  expect(open).toThrow(expect.objectContaining({ message, hint: expect.stringMatching(hint) }))
})

import { expect, it } from 'vitest'
import { parseResult } from './parse-result.js'

it('[H7.4] token usage is counted in every form that agents report it', () => {
  const forms = [
    { tokenUsage: 12 },
    { metrics: { tokenUsage: 12 } },
    { usage: { total_tokens: 12 } },
    { usage: { input_tokens: 5, output_tokens: 7 } },
    { usage: { prompt_tokens: 5, completion_tokens: 7 } },
  ]
  for (const form of forms) expect([form, parseResult(JSON.stringify(form)).tokenUsage]).toEqual([form, 12])
  expect(parseResult('{"metrics":{"tokenUsage":"many"}}').tokenUsage).toBe(0)
})

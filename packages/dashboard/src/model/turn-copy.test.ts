import { expect, it } from 'vitest'
import type { TurnDetail } from '../api/types.js'
import { curlOf, markdownOf } from './turn-copy.js'

const turn = {
  agent_turn_id: 't-1',
  agent_id: 'coder',
  status: 'failed',
  created_at: '2029-01-01T00:00:00.000Z',
  started_at: '2029-01-01T00:00:01.000Z',
  ended_at: '2029-01-01T00:00:03.500Z',
  usage: { total_tokens: 70, cost_micros: 12_500 },
  trace_id: null,
  error: 'a\nb',
  context_cards: [{ type: 'task.instruction', content: { text: 'Write ```js``` code' } }],
  deliverable: null,
  steps: [{ phase: 'a|b', status: 'success', started_at: null, ended_at: null, error: null }],
} as unknown as TurnDetail

it('quotes the URL of a request for a shell', () => {
  expect(curlOf("http://h/it's")).toBe(`curl -sS -H "X-Api-Key: $BELLWETHER_KEY" 'http://h/it'\\''s'`)
})

it('describes a turn in Markdown that no text of an agent can break out of', () => {
  const text = markdownOf(turn)
  expect(text).toContain('## Turn of coder: failed')
  expect(text).toContain('- Duration: 2.5 s')
  expect(text).toContain('- Cost: $0.0125')
  expect(text).toContain('````\nWrite ```js``` code\n````')
  expect(text).toContain('```\na\nb\n```')
  expect(text).toContain('| a\\|b | success |  |  |')
  expect(text).not.toContain('Trace')
})

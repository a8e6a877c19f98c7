import { describe, expect, it } from 'vitest'
import { renderPrompt } from './prompt.js'

const task = { type: 'task.instruction', role: 'user', content: { text: 'Fix it.' } } as const
const nothing = { instructions: '', context: [task], output: [], wanted: [], takenOver: false }

describe('renderPrompt', () => {
  it('renders instructions, context, memory, task, answer form and a note about interrupted work', () => {
    const prompt = renderPrompt({
      ...nothing,
      instructions: 'Be careful.',
      context: [task, { type: 'tool.result', role: 'tool', content: { status: 'ok' } }],
      memory: [{ type: 'task.deliverable', role: 'assistant', content: { text: 'Earlier work.' } }],
      output: [{ type: 'agent.thought', role: 'assistant', content: { text: 'Half of it.' } }],
      wanted: [{ name: 'verdict', type: 'string', required: true, description: 'how it went' }],
      takenOver: true,
    })
    const titles = prompt.split('\n').filter((line) => line.startsWith('# '))
    expect(titles).toEqual([
      '# Instructions',
      '# Context',
      '# Earlier turns',
      '# What you did earlier in this turn',
      '# Task',
      '# Answer',
      '# Interrupted work',
    ])
    expect(prompt).toContain('- verdict (string, required): how it went')
    expect(prompt).toContain('This turn was interrupted before')
  })

  it('omits empty sections of the prompt', () => {
    expect(renderPrompt(nothing)).toBe('# Task\n\nFix it.\n')
  })

  it('keeps the newest cards that fit into the prompt, notes the omitted ones, and always keeps the task', () => {
    const cards = Array.from({ length: 50 }, (_, number) => ({
      type: 'agent.thought' as const,
      role: 'assistant',
      content: { text: `${number}:`.padEnd(10_000, 'x') },
    }))
    const prompt = renderPrompt({ ...nothing, context: [task, ...cards] })
    expect(prompt.length).toBeLessThan(210_000)
    expect(prompt).toContain('49:xxx')
    expect(prompt).not.toContain('\n0:xxx')
    expect(prompt).toMatch(/\[\d+ older cards are left out\]/)
    expect(prompt).toContain('Fix it.')
    const truncated = { context: false, memory: false, output: true }
    expect(renderPrompt({ ...nothing, output: cards.slice(0, 1), truncated })).toContain('[more than 0 older cards')
    const huge = [{ ...cards[0]!, content: { text: 'y'.repeat(900_000) } }]
    expect(renderPrompt({ ...nothing, context: [...huge, task] })).toMatch(/y\n\[cut: 70\d{4} more characters\]/)
  })
})

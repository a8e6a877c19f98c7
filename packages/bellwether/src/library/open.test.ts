import { expect, it, vi } from 'vitest'
import { warningsOnly } from './open.js'

it('the log of a program that uses the library has no control characters of agents', () => {
  const written = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
  try {
    warningsOnly.warn({ line: '\u009b31m\u202e\u001b]0;x', err: new Error('\u0085') }, 'MCP server wrote a line')
    const [text] = written.mock.calls[0] as [string]
    expect(text).toMatch(/^[\x20-\x7e]+\n$/)
    expect(JSON.parse(text)).toMatchObject({ line: '\u009b31m\u202e\u001b]0;x', err: '\u0085' })
  } finally {
    written.mockRestore()
  }
})

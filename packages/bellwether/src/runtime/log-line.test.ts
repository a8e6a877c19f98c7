import { expect, it } from 'vitest'
import { readableLine, safeLine } from './log-line.js'

// Clears the screen, begins an escape sequence with one byte, and reverses the writing direction.
const hostile = '\u001b[2J\u009b31m\u202egnp'
// eslint-disable-next-line no-control-regex -- the test searches for these characters
const controls = /[\u0000-\u001f\u007f-\u009f\u202a-\u202e]/

it('text of MCP servers, sensors and agents in the log does not control the terminal of its reader', () => {
  const line = JSON.stringify({
    level: 40,
    time: 0,
    msg: `MCP server: ${hostile}`,
    err: { message: hostile },
    name: hostile,
  })
  expect(readableLine(line)).not.toMatch(controls)
  expect(safeLine(line)).not.toMatch(controls)
  expect(JSON.parse(safeLine(line))).toMatchObject({ name: hostile })
  expect(safeLine('{"msg":"worker is ready"}\n')).toBe('{"msg":"worker is ready"}\n')
})

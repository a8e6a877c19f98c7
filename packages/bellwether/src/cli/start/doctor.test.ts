import { expect, it } from 'vitest'
import { findingText } from './doctor.js'

it('doctor prints file names and errors of agents without control characters', () => {
  const text = findingText({
    check: 'agents',
    state: 'bad',
    found: 'agents/\u001b[2Jx\u202e.md:\nbad',
    fix: 'remove \u009bx',
  })
  expect(text).toMatch(/agents\/\?\[2Jx\?\.md:\n +bad\n +→ remove \?x$/)
})

import { expect, it } from 'vitest'
import { commentsText } from './comments.js'

it('names the place and the line of each comment', () => {
  expect(
    commentsText([
      { path: 'src/a.ts', line: 3, quote: '+const a = 1', text: 'Name it.' },
      { path: 'b.md', line: null, quote: '', text: 'Shorter.' },
    ]),
  ).toBe('Comments on your changes:\n- src/a.ts:3 `+const a = 1`: Name it.\n- b.md: Shorter.')
})

import { expect, it } from 'vitest'
import { asTyped } from './output.js'

it('commands in messages are those that a person can type: with npx, the program is not on the search path', () => {
  const text =
    'To see it: bellwether open. `bellwether up` in /srv/bellwether files; see bellwether.toml and my-bellwether run'
  expect(asTyped(text, {})).toBe(text)
  expect(asTyped(text, { npm_command: 'exec' })).toBe(
    'To see it: npx bellwether open. `npx bellwether up` in /srv/bellwether files; see bellwether.toml and my-bellwether run',
  )
})

import { expect, it } from 'vitest'
import { defined } from './defined.js'

it('drops undefined keys and keeps null, 0, false and the empty string', () => {
  const { a, ...rest } = defined({ a: undefined as string | undefined, b: null, c: 0, d: false, e: '' })
  expect(a).toBeUndefined()
  expect(Object.keys(rest)).toEqual(['b', 'c', 'd', 'e'])
})

it('keeps the type of keys that cannot be undefined', () => {
  const options: { readonly name: string; readonly limit?: number } = defined({
    name: 'coder',
    limit: undefined as number | undefined,
  })
  expect(options).toEqual({ name: 'coder' })
})

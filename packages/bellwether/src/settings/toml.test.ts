import { expect, it } from 'vitest'
import { lineOf, parseToml } from './toml.js'

it('rejects values that are nested too deep to be stored, with the line of their key', () => {
  const deep = Array.from({ length: 4_000 }, () => 'a').join('.')
  expect(parseToml(`x = 1\n[b]\n${deep} = 1`)).toEqual({
    line: 2,
    invalid: 'its values are nested more than 64 levels deep',
  })
  expect(parseToml('a.b.c = 1')).toEqual({ values: { a: { b: { c: 1 } } } })
})

it('finds the line of a key without searching a long line more than once', () => {
  const text = `x = [\n[${' '.repeat(300_000)}\n]]\n[[ tables ]]\nkey = 1\n[ "quoted" ]\n`
  expect(parseToml(text)).toMatchObject({ values: { x: [[]] } })
  expect(lineOf(text, 'tables.key')).toBe(5)
  expect(lineOf(text, 'quoted')).toBe(6)
})

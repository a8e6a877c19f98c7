import { expect, it } from 'vitest'
import { excludedOf } from './excluded.js'

it('leaves out what the owner said, and the data folder wherever it lies', () => {
  expect(excludedOf('/p', '/p/.bellwether', '.git, node_modules')).toEqual(['.git', ' node_modules', '/.bellwether'])
  expect(excludedOf('/p', '/p/var/data', '')).toEqual(['/var/data'])
  expect(excludedOf('/p', '/p/..data', '')).toEqual(['/..data'])
  expect(excludedOf('/p', '/elsewhere', 'x')).toEqual(['x'])
  expect(excludedOf('/p/q', '/p', 'x')).toEqual(['x'])
  expect(excludedOf('/p', '/p', '')).toContain('/database')
})

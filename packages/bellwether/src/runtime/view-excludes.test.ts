import { expect, it } from 'vitest'
import { excludedOf } from './view-excludes.js'

const of = (folder: string, dataDir: string, globs: string, boardRoot = '/board') =>
  excludedOf({ folder, dataDir, boardRoot, globs })

it('leaves out what the owner said, and the data folder wherever it lies', () => {
  expect(of('/p', '/p/.bellwether', '.git, node_modules')).toEqual(['.git', ' node_modules', '/.bellwether'])
  expect(of('/p', '/p/var/data', '')).toEqual(['/var/data'])
  expect(of('/p', '/p/..data', '')).toEqual(['/..data'])
  expect(of('/p', '/elsewhere', 'x')).toEqual(['x'])
  expect(of('/p/q', '/p', 'x')).toEqual(['x'])
  expect(of('/p', '/p', '')).toContain('/database')
})

it('leaves out the state of the board, where the board lies in the folder', () => {
  expect(of('/p', '/elsewhere', '', '.')).toEqual(['/state'])
  expect(of('/p', '/elsewhere', '', 'tasks')).toEqual(['/tasks/state'])
  expect(of('/p', '/elsewhere', '', '../q')).toEqual([])
})

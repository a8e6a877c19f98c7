import { expect, it } from 'vitest'
import { viewExcludes } from './view-excludes.js'

const of = (folder: string, dataDir: string, globs: string, boardRoot = '/board') =>
  viewExcludes({ folder, dataDir, boardRoot, globs })

it('excludes the owner’s globs and the data folder', () => {
  expect(of('/p', '/p/.bellwether', '.git, node_modules')).toEqual(['.git', ' node_modules', '/.bellwether'])
  expect(of('/p', '/p/var/data', '')).toEqual(['/var/data'])
  expect(of('/p', '/p/..data', '')).toEqual(['/..data'])
  expect(of('/p', '/elsewhere', 'x')).toEqual(['x'])
  expect(of('/p/q', '/p', 'x')).toEqual(['x'])
  expect(of('/p', '/p', '')).toContain('/database')
})

it('excludes the state of the board if the board lies in the folder', () => {
  expect(of('/p', '/elsewhere', '', '.')).toEqual(['/state'])
  expect(of('/p', '/elsewhere', '', 'tasks')).toEqual(['/tasks/state'])
  expect(of('/p', '/elsewhere', '', '../q')).toEqual([])
})

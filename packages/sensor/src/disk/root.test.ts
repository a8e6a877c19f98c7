/** Tests the pinned root and the validation of paths. */
import { describe, expect, it } from 'vitest'
import { isValidPath } from './disk.js'
import { rootProblem } from './root.js'

const mounted = { device: '8:1', inode: '2', isMount: true }
const plain = { device: '8:1', inode: '77', isMount: false }

describe('the pinned root', () => {
  it('[V6.6] accepts the same directory, also when it is remounted under another device', () => {
    expect(rootProblem(mounted, mounted)).toBeUndefined()
    expect(rootProblem(mounted, { ...mounted, device: '0:99' })).toBeUndefined()
    expect(rootProblem(plain, plain)).toBeUndefined()
  })

  it('[V6.6] a missing, unmounted or replaced root is a failure, even if the inode is equal', () => {
    expect(rootProblem(mounted, undefined)).toBe('the root is gone')
    expect(rootProblem(mounted, { device: '8:9', inode: '55', isMount: false })).toBe('the root is unmounted')
    expect(rootProblem(mounted, { device: '8:9', inode: '2', isMount: false })).toBe('the root is unmounted')
    expect(rootProblem(plain, { ...plain, inode: '78' })).toContain('another directory')
    expect(rootProblem(plain, { ...plain, device: '8:2' })).toContain('another directory')
  })

  it('[V6.1] accepts only absolute paths without ., .., empty names and NUL', () => {
    for (const good of ['/', '/a', '/a/b.c', '/...', '/.hidden', '/a\udcffb', '/a b\n'])
      expect(isValidPath(good)).toBe(true)
    for (const bad of [
      '',
      'a',
      '/..',
      '/../etc',
      '/a/../b',
      '/a/.',
      '/.',
      '//',
      '/a//b',
      '/a/',
      '/a\0b',
      `/${'x'.repeat(5_000)}`,
    ])
      expect(isValidPath(bad)).toBe(false)
  })
})

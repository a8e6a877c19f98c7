/** Whose root it is. */
import { describe, expect, it } from 'vitest'
import { isPlain } from './disk.js'
import { rootTrouble } from './root.js'

const mounted = { device: '8:1', inode: '2', isMount: true }
const plain = { device: '8:1', inode: '77', isMount: false }

describe('the pinned root', () => {
  it('[V6.6] the same directory is fine, also mounted again under another device', () => {
    expect(rootTrouble(mounted, mounted)).toBeUndefined()
    expect(rootTrouble(mounted, { ...mounted, device: '0:99' })).toBeUndefined()
    expect(rootTrouble(plain, plain)).toBeUndefined()
  })

  it('[V6.6] gone, unmounted and replaced are failures, even where the inode happens to be the same', () => {
    expect(rootTrouble(mounted, undefined)).toBe('the root is gone')
    expect(rootTrouble(mounted, { device: '8:9', inode: '55', isMount: false })).toBe('the root is unmounted')
    expect(rootTrouble(mounted, { device: '8:9', inode: '2', isMount: false })).toBe('the root is unmounted')
    expect(rootTrouble(plain, { ...plain, inode: '78' })).toContain('another directory')
    expect(rootTrouble(plain, { ...plain, device: '8:2' })).toContain('another directory')
  })

  it('[V6.1] only paths from the root, without tricks, are paths', () => {
    for (const good of ['/', '/a', '/a/b.c', '/...', '/.hidden', '/a\udcffb', '/a b\n'])
      expect(isPlain(good)).toBe(true)
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
      expect(isPlain(bad)).toBe(false)
  })
})

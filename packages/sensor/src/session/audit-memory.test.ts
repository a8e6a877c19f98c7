/** Tests what an audit remembers and what it must not (hazard 23). */
import { describe, expect, it } from 'vitest'
import type { DirectoryResult } from '../scan/messages.js'
import { AuditMemory } from './audit-memory.js'

const now = 1_700_000_000
const read = (path: string, mtime: number, more: Partial<DirectoryResult> = {}): DirectoryResult => ({
  path,
  mtime,
  mtimeAfter: mtime,
  unchanged: false,
  subdirectories: ['s'],
  hotFiles: ['h'],
  vanished: 0,
  denied: 0,
  ...more,
})

function after(memory: AuditMemory, results: readonly DirectoryResult[], { serverNow = now, nowMs = 0 } = {}): void {
  const learned = memory.learn(serverNow, nowMs)
  for (const result of results) learned.note(result)
  learned.adopt()
}

describe('the audit’s memory', () => {
  it('[V2.1] remembers the mtime, subdirectories and recent files of a directory', () => {
    const memory = new AuditMemory()
    after(memory, [read('/a', now - 100)])
    expect(memory.get('/a')).toMatchObject({ mtime: now - 100, subdirectories: ['s'], hotFiles: ['h'] })
    memory.clear()
    expect(memory.get('/a')).toBeUndefined()
  })

  it('[V2.1] does not trust an mtime within the clock resolution or in the future', () => {
    const memory = new AuditMemory()
    after(memory, [read('/fresh', now - 1), read('/future', now + 7_200), read('/old', now - 3)])
    expect(['/fresh', '/future', '/old'].map((path) => memory.get(path) !== undefined)).toEqual([false, false, true])
  })

  it('[V2.1] trusts an mtime that was seen some time before the directory was read, whatever the clocks say', () => {
    const memory = new AuditMemory()
    after(memory, [read('/a', now + 10)], { nowMs: 0 })
    after(memory, [read('/a', now + 10)], { nowMs: 1_000 })
    expect(memory.get('/a')).toBeUndefined()
    after(memory, [read('/a', now + 10)], { nowMs: 2_000 })
    expect(memory.get('/a')).toBeDefined()
    after(memory, [read('/a', now + 11)], { nowMs: 9_000 })
    expect(memory.get('/a')).toBeUndefined()
  })

  it('[V2.1] does not remember a directory that changed during the read, was not fully readable, listed an entry that was not found, or has too many recent files', () => {
    const memory = new AuditMemory()
    const { hotFiles: _, ...crowded } = read('/crowded', 1)
    after(memory, [
      read('/moving', 1, { mtimeAfter: 2 }),
      read('/denied', 1, { denied: 1 }),
      read('/stale-cache', 1, { vanished: 1 }),
      read('/gone', 1, { miss: 'gone' }),
      crowded,
    ])
    expect(memory.size).toBe(0)
  })

  it('[V2.1] [V2.2] an audit that was not adopted, or was overtaken by a new session, leaves nothing', () => {
    const memory = new AuditMemory()
    const learned = memory.learn(now, 0)
    learned.note(read('/a', 1))
    memory.clear()
    learned.adopt()
    expect(memory.get('/a')).toBeUndefined()
    memory.learn(now, 0).note(read('/b', 1))
    expect(memory.get('/b')).toBeUndefined()
  })
})

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { checkEvent, parentPath, wrongDeletion, wrongRow } from './row-checks.js'

const good = { path: '/a', size: 1, modified_time: 1.5, is_directory: false }

describe('rows', () => {
  it('[V6.1] are taken when they are whole, and refused with a reason when not', () => {
    expect(wrongRow(good)).toBeUndefined()
    expect(
      wrongRow({ ...good, created_time: null, parent_path: '/', parent_mtime: 2, is_atomic_write: true }),
    ).toBeUndefined()
    expect(wrongRow({ path: '/d', modified_time: 1, is_directory: true })).toBeUndefined()
    const bad: unknown[] = [
      null,
      [],
      'x',
      { ...good, path: 1 },
      { ...good, size: -1 },
      { ...good, size: 1.5 },
      { ...good, size: '1' },
      { ...good, size: undefined },
      { ...good, modified_time: undefined },
      { ...good, modified_time: '1' },
      { ...good, modified_time: Number.NaN },
      { ...good, modified_time: 1_700_000_000_000_000_000 },
      { ...good, is_directory: 'no' },
      { ...good, is_atomic_write: 1 },
      { ...good, parent_mtime: 'x' },
      { ...good, parent_path: 1 },
      { ...good, created_time: {} },
    ]
    for (const row of bad) expect(wrongRow(row)).toEqual(expect.any(String))
    expect([wrongDeletion({ path: '/a' }), wrongDeletion({})]).toEqual([undefined, expect.any(String)])
  })

  it('[V6.1] of any shape whatever are refused or taken, never thrown upon', () => {
    fc.assert(
      fc.property(fc.anything(), (value) => {
        const told = [wrongRow(value), wrongDeletion(value), checkEvent(value)]
        expect(told.every((one) => one === undefined || typeof one === 'string' || Array.isArray(one.rows))).toBe(true)
      }),
    )
  })
})

describe('events', () => {
  it('[V6.2] name their kind and source; the older spelling in capitals is understood', () => {
    expect(checkEvent({ event_type: 'UPDATE', rows: [], message_source: 'audit', index: 5 })).toEqual({
      type: 'update',
      from: 'audit',
      index: 5,
      rows: [],
    })
    expect(checkEvent({ event_type: 'insert', rows: [], index: 'x' })).toMatchObject({
      from: 'realtime',
      index: undefined,
    })
    for (const wrong of [
      {},
      { event_type: 'move', rows: [] },
      { event_type: 'insert' },
      { event_type: 'insert', rows: [], message_source: 'gossip' },
    ])
      expect(checkEvent(wrong)).toEqual(expect.any(String))
  })

  it('knows the directory above', () => {
    expect(['/a/b', '/a', '/'].map(parentPath)).toEqual(['/a', '/', '/'])
  })
})

/** Tests a tree at its limits: full, huge, emptied, and read by a reader that is far behind. */
import { InvalidInput, Terminal } from '@bellwether/protocol'
import { describe, expect, it } from 'vitest'
import { search } from '../../../src/view/tree/search.js'
import { flag, none, root, Tree, type Row } from '../../../src/view/tree/tree.js'

const file = (size = 1, modifiedTime = 10): Row => ({ isDirectory: false, size, modifiedTime })
const directory: Row = { isDirectory: true, size: 4_096, modifiedTime: 5 }
const make = (entryMax?: number) => new Tree({ id: 'edge', entryMax })

function picture(tree: Tree): unknown {
  return {
    token: tree.token(),
    stats: tree.stats(root),
    paths: [...tree.walk(root)].map((node) => [tree.pathOf(node), tree.size(node), tree.changeSeq(node)]),
  }
}

describe('a tree with a limit', () => {
  it('[V6.8] rejects entries above the limit and stays unchanged', () => {
    const tree = make(3)
    tree.put('/a/b', file())
    const before = picture(tree)
    expect(() => tree.put('/c/d', file())).toThrow(expect.objectContaining({ code: 'view_full' }))
    expect(() => tree.put('/a/b/c/d', file())).toThrow(Terminal)
    expect(picture(tree)).toEqual(before)
    tree.put('/a/b', file(9))
    tree.put('/a/c', file())
    expect(tree.count).toBe(3)
    tree.remove(tree.find('/a/b'))
    tree.put('/d', file())
    expect(tree.count).toBe(3)
  })

  const bad: [string, Row][] = [
    ['a negative size', file(-1)],
    ['half a byte', file(1.5)],
    ['a size above 2^53', file(2 ** 53)],
    ['no number as size', file(Number.NaN)],
    ['an endless time', file(1, Number.POSITIVE_INFINITY)],
    ['no number as creation time', { ...file(), createdTime: Number.NaN }],
    ['a time before all times', { ...file(), lastUpdatedAt: -1 }],
  ]
  it.each(bad)('rejects a row with %s and stays unchanged', (_, row) => {
    const tree = make()
    tree.put('/a', file())
    const before = picture(tree)
    for (const path of ['/a', '/b/c']) expect(() => tree.put(path, row)).toThrow(InvalidInput)
    expect(picture(tree)).toEqual(before)
  })

  it('rejects removing or retyping the root, and unknown entries', () => {
    const tree = make()
    tree.put('/a/b', file())
    const before = picture(tree)
    expect(() => tree.remove(root)).toThrow(InvalidInput)
    expect(() => tree.put('/', file())).toThrow(InvalidInput)
    for (const node of [none, 99, 2 ** 30]) expect(() => tree.remove(node)).toThrow(Terminal)
    expect(picture(tree)).toEqual(before)
  })
})

describe('what an entry carries', () => {
  it('keeps fields that a row omits, and exact sizes and times', () => {
    const tree = make()
    const node = tree.put('/f', {
      isDirectory: false,
      size: Number.MAX_SAFE_INTEGER,
      modifiedTime: 1_700_000_000.123_456_7,
      createdTime: 1_140_000_000.5,
      lastUpdatedAt: 1_763_208_000_123,
      agent: 'host-1',
      set: flag.knownByAgent | flag.listedInFull,
    })
    tree.setAuditMark(node, 7)
    tree.put('/f', { isDirectory: false, size: Number.MAX_SAFE_INTEGER, modifiedTime: 1_700_000_000.123_456_7 })
    expect(tree.size(node)).toBe(Number.MAX_SAFE_INTEGER)
    expect(tree.modifiedTime(node)).toBe(1_700_000_000.123_456_7)
    expect(tree.createdTime(node)).toBe(1_140_000_000.5)
    expect(tree.lastUpdatedAt(node)).toBe(1_763_208_000_123)
    expect(tree.agentOf(node)).toBe('host-1')
    expect(tree.flags(node)).toBe(flag.knownByAgent | flag.listedInFull)
    expect(tree.auditMark(node)).toBe(7)
  })

  it('adds and subtracts huge sizes without rounding', () => {
    const tree = make()
    for (let i = 0; i < 1_000; i += 1) tree.put(`/d/${i}`, file(Number.MAX_SAFE_INTEGER - i))
    for (let i = 0; i < 999; i += 1) tree.remove(tree.find(`/d/${i}`))
    expect(tree.stats(root).size).toBe(Number.MAX_SAFE_INTEGER - 999)
  })

  it('counts a change only if a reader can see it', () => {
    const tree = make()
    const node = tree.put('/f', file())
    const seq = tree.changeSeq(node)
    tree.put('/f', { ...file(), agent: 'x', set: flag.listedInFull })
    tree.setFlags(node, flag.listedInFull, 0)
    tree.setAuditMark(node, 4)
    expect(tree.changeSeq(node)).toBe(seq)
    tree.setFlags(node, flag.blindSpot, 0)
    expect(tree.changeSeq(node)).toBe(seq + 1)
    tree.put('/f', { ...file(), lastUpdatedAt: 6 })
    expect(tree.changeSeq(node)).toBe(seq + 2)
  })

  it('carries no mark of an old audit', () => {
    const tree = make()
    const node = tree.put('/f', file())
    tree.setAuditMark(node, tree.nextAuditMark())
    expect(tree.auditMark(node)).toBe(1)
    let last = 1
    while (last < 65_535) last = tree.nextAuditMark()
    expect(tree.nextAuditMark()).toBe(1)
    expect(tree.auditMark(node)).toBe(0)
  })

  it('reuses numbers of sensors that no entry names, and only those', () => {
    const tree = make()
    tree.put('/lasting', { ...file(), agent: 'lasting' })
    for (let i = 0; i < 70_000; i += 1) tree.put('/f', { ...file(), agent: `agent-${i}` })
    expect(tree.agentOf(tree.find('/f'))).toBe('agent-69999')
    expect(tree.agentOf(tree.find('/lasting'))).toBe('lasting')
  })
})

describe('a large tree', () => {
  it('frees memory after a mass removal without a visible change', () => {
    const tree = make()
    const empty = tree.bytes
    const at = (i: number) => `/d${i % 40}/s${i % 7}/a-rather-long-name-of-a-file-${i}`
    const total = 60_000
    for (let i = 0; i < total; i += 1) tree.put(at(i), file(i, i))
    const full = tree.bytes
    expect((full - empty) / total).toBeLessThan(130)
    for (let d = 1; d < 40; d += 1) tree.remove(tree.find(`/d${d}`))
    expect(tree.stats(root).files).toBe(total / 40)
    // Entries were created in rotation, so every page keeps 1 of 40: names, lists and the table must still shrink.
    expect(tree.bytes - empty).toBeLessThan((full - empty) * 0.7)
    for (let i = 0; i < total; i += 40) {
      const node = tree.find(at(i))
      expect(tree.pathOf(node)).toBe(at(i))
      expect(tree.size(node)).toBe(i)
    }
    expect([...search(tree, { pattern: '*-file-40' })].flat().map((node) => tree.pathOf(node))).toEqual([at(40)])
    tree.remove(tree.find('/d0'))
    // One spare page of entries is kept.
    expect(tree.bytes - empty).toBeLessThan((full - empty) * 0.25)
    for (let i = 0; i < total; i += 1) tree.put(at(i), file(i, i))
    expect(tree.bytes).toBeLessThan(full * 1.3)
    expect(tree.count).toBe(total + 40 + 40 * 7)
  })

  it('adds and removes 50,000 children of one directory in any order', () => {
    const tree = make()
    const total = 50_000
    for (let i = 0; i < total; i += 1) tree.put(`/d/${(i * 7_919) % total}`, file())
    expect(tree.children(tree.find('/d'))).toHaveLength(total)
    for (let i = 0; i < total; i += 1) tree.remove(tree.find(`/d/${(i * 104_729) % total}`))
    expect(tree.stats(root)).toEqual({ files: 0, directories: 1, size: 0 })
  })

  it('keeps entry numbers while names and lists are compacted', () => {
    const tree = make()
    const lasting = tree.put('/lasting/file', file(42))
    for (let round = 0; round < 4; round += 1) {
      for (let i = 0; i < 40_000; i += 1) tree.put(`/round/${round}/a-name-that-is-used-but-once-${round}-${i}`, file())
      tree.remove(tree.find('/round'))
    }
    expect(tree.store.names.generation).toBeGreaterThan(0)
    expect(tree.find('/lasting/file')).toBe(lasting)
    expect(tree.pathOf(lasting)).toBe('/lasting/file')
  })

  it('finds an entry that stays once in a search during changes', () => {
    const tree = make()
    for (let i = 0; i < 140_000; i += 1) tree.put(`/d${i % 100}/${i % 2 ? 'odd' : 'even'}-${i}`, file())
    const found: string[] = []
    let batches = 0
    for (const batch of search(tree, { pattern: 'odd-*' })) {
      for (const node of batch) found.push(tree.pathOf(node))
      batches += 1
      if (batches === 1) for (let d = 0; d < 100; d += 2) tree.remove(tree.find(`/d${d}`))
    }
    expect(batches).toBeGreaterThan(2)
    expect(found).toHaveLength(70_000)
    expect(new Set(found).size).toBe(70_000)
  })
})

describe('changes since a token', () => {
  it('[V6.8] a token of another tree, from before a clear or malformed gives a fresh instance', () => {
    const tree = make()
    tree.put('/a', file())
    const old = tree.token()
    expect(tree.changesSince(old)).toEqual({ freshInstance: false, changes: [], token: old, more: false })
    const other = new Tree({ id: 'other' })
    for (const token of [other.token(), '', 'edge.0:', 'edge.0:-1', 'edge.0:99', 'edge.0:1e1', 'edge.1:0'])
      expect(tree.changesSince(token).freshInstance).toBe(true)
    tree.clear()
    expect(tree.changesSince(old).freshInstance).toBe(true)
    tree.put('/b', file())
    expect(tree.changesSince(tree.token()).freshInstance).toBe(false)
  })

  it('[V6.8] a reader behind the recent changes still finds all of them', () => {
    const tree = make()
    const token = tree.token()
    for (let i = 0; i < 70_000; i += 1) tree.put(`/f${i}`, file())
    const paths: string[] = []
    for (let at = token, more = true; more;) {
      const answer = tree.changesSince(at)
      expect(answer.freshInstance).toBe(false)
      for (const change of answer.changes) paths.push(change.path)
      at = answer.token
      more = answer.more
    }
    expect(paths).toEqual(Array.from({ length: 70_000 }, (_, i) => `/f${i}`))
  })

  it('[V6.8] dropped removals give a fresh instance only to readers that missed one', () => {
    const tree = make()
    tree.put('/f', file())
    const before = tree.token()
    tree.remove(tree.find('/f'))
    const after = tree.token()
    for (let i = 0; i < 65_536; i += 1) {
      tree.put('/g', file())
      tree.remove(tree.find('/g'))
    }
    expect(tree.changesSince(before).freshInstance).toBe(true)
    expect(tree.changesSince(after).freshInstance).toBe(false)
  })

  it('[V6.8] remembers when sensors saw each file change, and never gives the changes of a removed file to another one', () => {
    const tree = make()
    const seen = (at: number): Row => ({ ...file(), lastUpdatedAt: at, seenAt: at })
    const filesSeen = (from: number, to: number) =>
      [...tree.filesSeenWithin(from, to)].map(([node, at]) => [tree.pathOf(node), at])
    const first = tree.put('/a', seen(10))
    tree.put('/a', seen(20))
    tree.put('/scanned', file())
    tree.put('/d', { ...directory, lastUpdatedAt: 20, seenAt: 20 })
    expect(filesSeen(0, 20)).toEqual([
      ['/a', 20],
      ['/a', 10],
    ])
    expect(filesSeen(11, 19)).toEqual([])
    tree.remove(first)
    expect(tree.put('/b', seen(30))).toBe(first)
    expect(filesSeen(0, 40)).toEqual([['/b', 30]])
    tree.put('/b', { ...directory, lastUpdatedAt: 40, seenAt: 40 })
    tree.put('/b', seen(50))
    expect(filesSeen(0, 60)).toEqual([['/b', 50]])
    for (let i = 0; i < 65_536; i += 1) tree.put('/c', seen(60))
    expect(filesSeen(0, 59)).toEqual([])
  })
})

/** Tests that the bytes of a response equal JSON.stringify for any names, numbers and flags. */
import { entryFieldNames, type EntryField } from '@bellwether/protocol/http'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { JsonBytes } from '../../src/view/render/json-bytes.js'
import { treePieces, type RenderOptions } from '../../src/view/render/render.js'
import { RenderedCache } from '../../src/view/render/rendered-cache.js'
import { flag, none, root, Tree, type NodeId } from '../../src/view/tree/tree.js'

const uriOf = (agent: string | undefined) => (agent === 'known' ? '/mnt/"quoted"' : undefined)

/** The response as objects. */
function shown(tree: Tree, node: NodeId, depth: number, fields: readonly EntryField[]): Record<string, unknown> {
  const isDirectory = tree.isDirectory(node)
  const kind = isDirectory ? 'directory' : tree.isSymlink(node) ? 'symlink' : 'file'
  const agent = tree.agentOf(node)
  const ownPath = tree.pathOf(node)
  const children = isDirectory && depth > 0 ? { children: [...tree.children(node)].map(below) } : {}
  function below(child: NodeId) {
    return shown(tree, child, depth - 1, fields)
  }
  const all = {
    name: node === root ? '/' : ownPath.slice(ownPath.lastIndexOf('/') + 1),
    content_type: kind,
    path: ownPath,
    size: tree.size(node),
    modified_time: tree.modifiedTime(node),
    created_time: tree.createdTime(node) === 0 ? null : tree.createdTime(node),
    integrity_suspect: tree.has(node, flag.integritySuspect),
    ...(isDirectory ? { audit_skipped: tree.has(node, flag.auditSkipped) } : {}),
    ...(tree.has(node, flag.unreadable) ? { unreadable: true } : {}),
    last_agent_id: agent ?? null,
    source_uri: uriOf(agent) ?? null,
    agent_missing: !tree.has(node, flag.knownByAgent) && agent !== undefined,
  }
  if (fields.length === entryFieldNames.length) return { ...all, ...children }
  const { path, content_type, ...rest } = all
  const names: readonly string[] = fields
  const chosen = Object.entries(rest).filter(([key]) => names.includes(key))
  return { path, content_type, ...Object.fromEntries(chosen), ...children }
}

const rendered = (tree: Tree, top: NodeId, options: Omit<RenderOptions, 'uriOf'>, tail?: string) =>
  Buffer.concat([...treePieces(tree, top, { ...options, uriOf }, tail)]).toString()

const name = fc
  .oneof(
    fc.string({ minLength: 1, maxLength: 12, unit: 'binary-ascii' }),
    fc.string({ minLength: 1, maxLength: 8 }),
    fc.constantFrom(
      'plain.txt',
      'caf\udce9',
      '\udcff',
      'ü',
      '"',
      '\\',
      '\u2028',
      '😀',
      '\u007f',
      '\u0001',
      'n'.repeat(255),
    ),
  )
  .filter((text) => !/^\.{1,2}$|[/\0]/.test(text) && Buffer.byteLength(text) <= 255)
const seconds = fc.oneof(
  fc.double({ min: -1e10, max: 1e11, noNaN: true }),
  fc.integer({ min: 0, max: 4_102_444_800 }),
  fc.integer({ min: 0, max: 4_102_444_800_000 }).map((ms) => ms / 1_000),
  fc.integer({ min: 0, max: 2 ** 53 - 1 }).map((ns) => ns / 1e6),
)
const row = fc.record({
  path: fc.array(name, { minLength: 1, maxLength: 4 }).map((names) => `/${names.join('/')}`),
  isDirectory: fc.boolean(),
  size: fc.oneof(fc.maxSafeNat(), fc.nat(5_000)),
  modifiedTime: seconds,
  createdTime: fc.option(seconds, { nil: undefined }),
  agent: fc.constantFrom(undefined, 'known', 'unkn"own'),
  set: fc.integer({ min: 0, max: 127 }),
})

describe('a rendered tree', () => {
  it('[V6.8] [V6.1] equals the output of JSON.stringify byte by byte', () => {
    fc.assert(
      fc.property(
        fc.array(row, { maxLength: 12 }),
        fc.nat(3),
        fc.subarray([...entryFieldNames]),
        fc.nat(12),
        (rows, depth, some, pick) => {
          const tree = new Tree({ id: 'r' })
          for (const { path, ...rest } of rows) tree.put(path, rest)
          const found = rows.length === 0 ? none : tree.find(rows[pick % rows.length]!.path)
          for (const top of [root, found === none ? root : found])
            for (const maxDepth of [depth, Infinity])
              for (const fields of [entryFieldNames, some, []])
                expect(rendered(tree, top, { maxDepth, fields })).toBe(
                  JSON.stringify(shown(tree, top, maxDepth, fields)),
                )
        },
      ),
      { numRuns: 300 },
    )
  })

  it('[V6.8] writes numbers like JavaScript', () => {
    const written = (value: number) => {
      const out = new JsonBytes(24)
      out.number(value)
      return out.take(0).toString()
    }
    fc.assert(
      fc.property(fc.oneof(seconds, fc.maxSafeNat(), fc.double({ noNaN: true, noDefaultInfinity: true })), (value) => {
        expect(written(value)).toBe(String(value))
      }),
      { numRuns: 5_000 },
    )
    for (const value of [
      0,
      -0,
      1,
      9,
      10,
      99,
      1e8,
      999_999_999,
      1e9,
      2 ** 31,
      2 ** 32,
      2 ** 53 - 1,
      1e21,
      1e-7,
      0.5,
      -1.5,
    ])
      expect(written(value)).toBe(String(value))
  })

  it('[V6.8] writes the same bytes in many pieces, with a tail in the outermost object', () => {
    const tree = new Tree({ id: 'r' })
    for (let i = 0; i < 12_000; i += 1)
      tree.put(i < 6_000 ? `/flat/${(i * 7_919) % 6_000}` : `/d${i % 7}/${i}`, {
        isDirectory: false,
        size: i,
        modifiedTime: i,
      })
    const options = { maxDepth: Infinity, fields: entryFieldNames }
    const text = rendered(tree, root, options, '"job_id":null')
    expect([...treePieces(tree, root, { ...options, uriOf })].length).toBeGreaterThan(4)
    expect(text).toBe(`${JSON.stringify(shown(tree, root, Infinity, entryFieldNames)).slice(0, -1)},"job_id":null}`)
  })

  it('[V6.8] leaves out the rest of a directory that was removed during writing', () => {
    const tree = new Tree({ id: 'r' })
    const file = { isDirectory: false, size: 1, modifiedTime: 1 }
    for (let i = 0; i < 3_000; i += 1) tree.put(`/gone/a-file-with-a-long-name-${i}`, file)
    tree.put('/stays', file)
    const pieces: Buffer[] = []
    for (const piece of treePieces(tree, root, { maxDepth: Infinity, fields: entryFieldNames, uriOf })) {
      if (pieces.length === 0) {
        tree.remove(tree.find('/gone'))
        for (let i = 0; i < 3_000; i += 1) tree.put(`/new/another-file-${i}`, file)
      }
      pieces.push(piece)
    }
    const text = Buffer.concat(pieces).toString()
    const answer = JSON.parse(text) as { children: { path: string; children?: { path: string }[] }[] }
    expect(answer.children.map(({ path }) => path)).toEqual(['/gone', '/stays'])
    expect(answer.children[0]!.children!.length).toBeLessThan(3_000)
    expect(text).not.toContain('another-file')
  })
})

describe('the cache of rendered directories', () => {
  const paths = ['/', '/a', '/a/b', '/a/b/c', '/a/x', '/ab', '/ab/c', '/b', '/b/c', '/c', '/c/d', '/d']
  const path = fc.constantFrom(...paths.slice(1))
  const agent = fc.constantFrom('known', 'other')
  const put = fc.record({ kind: fc.constant('put' as const), path, agent, isDirectory: fc.boolean(), size: fc.nat(9) })
  const change = fc.oneof(
    { arbitrary: put, weight: 6 },
    fc.record({ kind: fc.constant('remove' as const), path }),
    fc.record({ kind: fc.constant('suspect' as const), path }),
    fc.record({ kind: fc.constant('agent' as const), path, agent }),
    fc.record({ kind: fc.constant('clear' as const) }),
    fc.record({ kind: fc.constant('mount' as const), uri: fc.constantFrom('/one', '/two') }),
  )

  it('[V6.8] returns the bytes of an uncached response after any changes', () => {
    let hits = 0
    const stale: string[] = []
    fc.assert(
      fc.property(fc.array(change, { minLength: 10, maxLength: 40 }), fc.nat(2), (changes, depth) => {
        const tree = new Tree({ id: 'r' })
        const cache = new RenderedCache()
        let uri = '/one'
        const render = (top: NodeId) => {
          const options = { maxDepth: depth, fields: entryFieldNames, uriOf: () => uri }
          return Buffer.concat([...treePieces(tree, top, options)])
        }
        const check = () => {
          for (const wanted of paths) {
            const node = tree.find(wanted)
            if (node === none) continue
            const expected = render(node)
            const cached = cache.get(wanted, tree, node, wanted)
            if (cached === undefined) cache.put(wanted, tree, node, expected)
            else {
              hits += 1
              if (!cached.equals(expected))
                stale.push(`${wanted}: ${cached.toString()} instead of ${expected.toString()}`)
            }
          }
        }
        for (const one of changes) {
          const node = 'path' in one ? tree.find(one.path) : none
          if (one.kind === 'clear') tree.clear()
          else if (one.kind === 'mount') {
            if (uri !== one.uri) tree.countSensorChange()
            uri = one.uri
          } else if (one.kind === 'put')
            tree.put(one.path, { isDirectory: one.isDirectory, size: one.size, modifiedTime: 1, agent: one.agent })
          else if (node === none) continue
          else if (one.kind === 'remove') tree.remove(node)
          else if (one.kind === 'suspect')
            tree.setFlags(
              node,
              flag.integritySuspect,
              tree.has(node, flag.integritySuspect) ? flag.integritySuspect : 0,
            )
          else
            tree.put(one.path, {
              isDirectory: tree.isDirectory(node),
              size: tree.size(node),
              modifiedTime: tree.modifiedTime(node),
              agent: one.agent,
            })
          check()
        }
        expect(stale).toEqual([])
      }),
      { numRuns: 300 },
    )
    expect(hits).toBeGreaterThan(500)
  })

  it('keeps the bytes of a directory while other directories change, and drops old entries above its bound', () => {
    const tree = new Tree({ id: 'r' })
    const file = { isDirectory: false, size: 1, modifiedTime: 1 }
    for (let i = 0; i < 20; i += 1) tree.put(`/d${i}/file`, file)
    const cache = new RenderedCache(10_000)
    const bytes = () => Buffer.from(new ArrayBuffer(1_000))
    const node = (i: number) => tree.find(`/d${i}`)
    cache.put('/d0', tree, node(0), bytes())
    tree.put('/d1/other', file)
    tree.remove(tree.find('/d2/file'))
    expect(cache.get('/d0', tree, node(0), '/d0')).toHaveLength(1_000)
    tree.put('/d0/other', file)
    expect(cache.get('/d0', tree, node(0), '/d0')).toBeUndefined()
    expect(cache.bytes).toBe(0)
    for (let i = 0; i < 20; i += 1) cache.put(`/d${i}`, tree, node(i), bytes())
    expect(cache.bytes).toBeLessThanOrEqual(10_000)
    expect(cache.get('/d0', tree, node(0), '/d0')).toBeUndefined()
    expect(cache.get('/d19', tree, node(19), '/d19')).toHaveLength(1_000)
    cache.put('large', tree, node(0), Buffer.from(new ArrayBuffer(5_000)))
    expect(cache.get('large', tree, node(0), '/d0')).toBeUndefined()
  })
})

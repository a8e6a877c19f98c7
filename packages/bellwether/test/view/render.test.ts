/** Tests that the bytes of a response equal JSON.stringify for any names, numbers and flags. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { JsonBytes } from '../../src/view/render/json-bytes.js'
import { treePieces, type RenderOptions } from '../../src/view/render/render.js'
import { flag, none, root, Tree, type NodeId } from '../../src/view/tree/tree.js'

const uriOf = (agent: string | undefined) => (agent === 'known' ? '/mnt/"quoted"' : undefined)

/** The response as objects. */
function shown(tree: Tree, node: NodeId, depth: number, onlyPath: boolean): Record<string, unknown> {
  const isDirectory = tree.isDirectory(node)
  const kind = isDirectory ? 'directory' : tree.isSymlink(node) ? 'symlink' : 'file'
  const agent = tree.agentOf(node)
  const children = isDirectory && depth > 0 ? { children: [...tree.children(node)].map(below) } : {}
  function below(child: NodeId) {
    return shown(tree, child, depth - 1, onlyPath)
  }
  if (onlyPath) return { path: tree.pathOf(node), content_type: kind, ...children }
  return {
    name: node === root ? '/' : tree.nameOf(node),
    content_type: kind,
    path: tree.pathOf(node),
    size: tree.size(node),
    modified_time: tree.modifiedTime(node),
    created_time: tree.createdTime(node) === 0 ? null : tree.createdTime(node),
    integrity_suspect: tree.has(node, flag.integritySuspect),
    ...(isDirectory ? { audit_skipped: tree.has(node, flag.auditSkipped) } : {}),
    ...(tree.has(node, flag.unreadable) ? { unreadable: true } : {}),
    last_agent_id: agent ?? null,
    source_uri: uriOf(agent) ?? null,
    agent_missing: !tree.has(node, flag.knownByAgent) && agent !== undefined,
    ...children,
  }
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
        fc.boolean(),
        fc.nat(12),
        (rows, depth, onlyPath, pick) => {
          const tree = new Tree({ id: 'r' })
          for (const { path, ...rest } of rows) tree.put(path, rest)
          const found = rows.length === 0 ? none : tree.find(rows[pick % rows.length]!.path)
          for (const top of [root, found === none ? root : found])
            for (const maxDepth of [depth, Infinity])
              expect(rendered(tree, top, { maxDepth, onlyPath })).toBe(
                JSON.stringify(shown(tree, top, maxDepth, onlyPath)),
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
    const options = { maxDepth: Infinity, onlyPath: false }
    const text = rendered(tree, root, options, '"job_id":null')
    expect([...treePieces(tree, root, { ...options, uriOf })].length).toBeGreaterThan(4)
    expect(text).toBe(`${JSON.stringify(shown(tree, root, Infinity, false)).slice(0, -1)},"job_id":null}`)
  })

  it('[V6.8] leaves out the rest of a directory that was moved or removed during writing', () => {
    const tree = new Tree({ id: 'r' })
    const file = { isDirectory: false, size: 1, modifiedTime: 1 }
    for (let i = 0; i < 3_000; i += 1) tree.put(`/gone/a-file-with-a-long-name-${i}`, file)
    tree.put('/stays', file)
    const pieces: Buffer[] = []
    for (const piece of treePieces(tree, root, { maxDepth: Infinity, onlyPath: false, uriOf })) {
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

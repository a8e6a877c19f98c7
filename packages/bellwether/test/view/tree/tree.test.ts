/** Tests the tree against a reference model: any sequence of writes, then every query. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { treeProblems } from '../invariants.js'
import { Model, operations, type Operation } from './model.js'
import { search } from '../../../src/view/tree/search.js'
import { flag, none, root, Tree, type NodeId } from '../../../src/view/tree/tree.js'

function run(steps: readonly Operation[], look: (tree: Tree, model: Model) => void): { tree: Tree; model: Model } {
  const tree = new Tree({ id: 'a', entryMax: 60, seed: 7 })
  const model = new Model(60)
  for (const step of steps) {
    const wanted = model.apply(step)
    expect(step.apply(tree)).toBe(wanted)
    look(tree, model)
  }
  return { tree, model }
}

function sameAsModel(tree: Tree, model: Model): void {
  const paths = [...tree.walk(root)].map((node) => tree.pathOf(node))
  expect(paths.toSorted()).toEqual([...model.entries.keys()].filter((path) => path !== '/').toSorted())
  for (const [path, entry] of model.entries) {
    const node = tree.find(path)
    expect(node).not.toBe(none)
    expect({
      isDirectory: tree.isDirectory(node),
      size: tree.size(node),
      modifiedTime: tree.modifiedTime(node),
      isPlaceholder: tree.has(node, flag.placeholder),
      isSuspect: tree.has(node, flag.integritySuspect),
    }).toEqual(entry)
    expect(tree.stats(node)).toEqual(model.stats(path))
    expect(tree.newest(node)).toBe(model.newest(path))
    expect(Array.from(tree.children(node), (child) => tree.pathOf(child))).toEqual(model.children(path))
    expect(node === root ? root : tree.child(tree.parentOf(node), path.slice(path.lastIndexOf('/') + 1))).toBe(node)
  }
}

describe('a tree', () => {
  it('[V6.8] a tree is consistent after every write and agrees with the reference model after any sequence of writes', () => {
    fc.assert(
      fc.property(operations, (steps) => {
        const { tree, model } = run(steps, (tree) => expect(treeProblems(tree)).toEqual([]))
        sameAsModel(tree, model)
        expect(tree.count).toBe(model.entries.size - 1)
      }),
      { numRuns: 80 },
    )
  })

  it('agrees with the reference model after every write', () => {
    fc.assert(
      fc.property(operations, (steps) => {
        const { tree, model } = run(steps, sameAsModel)
        expect(tree.count).toBe(model.entries.size - 1)
      }),
      { numRuns: 5 },
    )
  })

  it('[V6.8] finds by text and glob what a walk over all names finds', () => {
    const patterns = fc.constantFrom('a', 'é', 'b*', '*a', '?', '[a-c]*', 'a*b', '/a/', '/a/*', '**/b', 'a/**/b')
    fc.assert(
      fc.property(operations, patterns, (steps, pattern) => {
        const { tree, model } = run(steps, () => {})
        const found = [...search(tree, { pattern })].flat().map((node) => tree.pathOf(node))
        expect(found.toSorted()).toEqual(model.search(pattern))
        const below = [...tree.walk(root)].find((node) => tree.isDirectory(node))
        if (below === undefined) return
        const prefix = `${tree.pathOf(below)}/`
        const foundBelow = [...search(tree, { pattern, under: below })].flat().map((node) => tree.pathOf(node))
        expect(foundBelow.toSorted()).toEqual(model.search(pattern).filter((path) => path.startsWith(prefix)))
      }),
      { numRuns: 120 },
    )
  })

  it('a reader that polls changes always reaches the state of the tree', () => {
    fc.assert(
      fc.property(operations, fc.integer({ min: 1, max: 7 }), fc.integer({ min: 1, max: 9 }), (steps, every, max) => {
        const known = new Map<string, boolean>()
        let token = ''
        let step = 0
        const catchUp = (tree: Tree) => {
          for (let more = true; more;) {
            const answer = tree.changesSince(token, max)
            if (answer.freshInstance) {
              known.clear()
              for (const node of tree.walk(root)) known.set(tree.pathOf(node), tree.isDirectory(node))
            }
            for (const { kind, path, isDirectory } of answer.changes) {
              if (kind === 'put' && path !== '/') known.set(path, isDirectory)
              if (kind === 'put') continue
              for (const other of known.keys()) if (other === path || other.startsWith(`${path}/`)) known.delete(other)
            }
            ;({ token, more } = answer)
          }
        }
        const { tree, model } = run(steps, (tree) => {
          step += 1
          if (step % every === 0) catchUp(tree)
        })
        catchUp(tree)
        const wanted = [...model.entries]
          .filter(([path]) => path !== '/')
          .map(([path, { isDirectory }]) => [path, isDirectory])
        expect(Object.fromEntries(known)).toEqual(Object.fromEntries(wanted))
      }),
      { numRuns: 120 },
    )
  })

  it('change numbers increase and are never repeated', () => {
    fc.assert(
      fc.property(operations, (steps) => {
        let last = 0
        const { tree } = run(steps, (tree) => {
          const seq = Number(tree.token().split(':')[1])
          expect(seq).toBeGreaterThanOrEqual(last)
          last = seq
        })
        const numbers = [...tree.walk(root)].map((node: NodeId) => tree.changeSeq(node))
        expect(new Set(numbers).size).toBe(numbers.length)
        expect(Math.max(0, ...numbers)).toBeLessThanOrEqual(last)
      }),
      { numRuns: 50 },
    )
  })
})

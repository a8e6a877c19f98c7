/** Tests the comparison of two trees. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { diff, type Difference } from '../../../src/view/tree/diff.js'
import { root, Tree, type Row } from '../../../src/view/tree/tree.js'
import { Model, operations } from './model.js'

const file: Row = { isDirectory: false, size: 1, modifiedTime: 1 }

function filled(): Tree {
  const tree = new Tree({ id: 'q' })
  for (const path of ['/b/2', '/b/1', '/a/x/deep/er', '/c']) tree.put(path, file)
  return tree
}

const differences = (left: Tree, right: Tree): Difference[] =>
  [...diff(left, right)].filter((difference) => difference !== undefined)

describe('the difference of two trees', () => {
  it('[V6.9] equal trees have no differences, and each difference is reported once', () => {
    const left = filled()
    const right = filled()
    expect(differences(left, right)).toEqual([])
    left.put('/only/here', file)
    right.put('/b/2', { ...file, size: 2 })
    right.put('/c/now/a/directory', file)
    right.remove(right.find('/a/x'))
    right.put('/a/y', file)
    const found = differences(left, right).map(({ path, kind }) => `${kind} ${path}`)
    expect(found.toSorted()).toEqual(
      ['content /b/2', 'only_left /a/x', 'only_left /only', 'only_right /a/y', 'type /c'].toSorted(),
    )
  })

  it('[V6.9] applying the differences of any two trees makes them equal', () => {
    fc.assert(
      fc.property(operations, operations, (one, other) => {
        const [left, right] = [one, other].map((steps) => {
          const tree = new Tree({ id: 'd' })
          for (const step of steps) step.apply(tree)
          return tree
        }) as [Tree, Tree]
        for (const { path, kind, left: node } of differences(left, right)) {
          if (right.find(path) !== -1) right.remove(right.find(path))
          if (kind === 'only_right') continue
          for (const each of [node!, ...left.walk(node!)])
            right.put(left.pathOf(each), {
              isDirectory: left.isDirectory(each),
              size: left.size(each),
              modifiedTime: left.modifiedTime(each),
            })
        }
        expect(differences(left, right)).toEqual([])
        expect(right.stats(root)).toEqual(left.stats(root))
      }),
      { numRuns: 40 },
    )
  })

  it('the reference model rejects entries when full, like the tree', () => {
    expect(new Model(1).put('/a/b', file)).toBe('full')
  })
})

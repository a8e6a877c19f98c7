/** Subtrees as objects, and the differences of two trees. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { diff } from '../../../src/view/tree/diff.js'
import { subtree } from '../../../src/view/tree/subtree.js'
import { root, Tree, type Row } from '../../../src/view/tree/tree.js'
import { Model, operations } from './model.js'

const file: Row = { isDirectory: false, size: 1, modifiedTime: 1 }
const render = (_node: number, path: string, name: string) => ({ path, name })

function filled(): Tree {
  const tree = new Tree({ id: 'q' })
  for (const path of ['/b/2', '/b/1', '/a/x/deep/er', '/c']) tree.put(path, file)
  return tree
}

describe('a subtree', () => {
  it('[V6.8] stands in the order of names, with paths, as deep as asked', () => {
    const tree = filled()
    expect(subtree(tree, root, { maxDepth: 1, render })).toEqual({
      node: {
        path: '/',
        name: '/',
        children: [
          { path: '/a', name: 'a' },
          { path: '/b', name: 'b' },
          { path: '/c', name: 'c' },
        ],
      },
      count: 4,
      truncated: false,
    })
    expect(subtree(tree, tree.find('/b'), { render }).node).toEqual({
      path: '/b',
      name: 'b',
      children: [
        { path: '/b/1', name: '1' },
        { path: '/b/2', name: '2' },
      ],
    })
    expect(subtree(tree, tree.find('/c'), { render }).node).toEqual({ path: '/c', name: 'c' })
    expect(subtree(tree, root, { maxDepth: 0, render })).toEqual({
      node: { path: '/', name: '/' },
      count: 1,
      truncated: false,
    })
  })

  it('[V6.8] says when its limit left something out', () => {
    const tree = filled()
    const { count, truncated, node } = subtree(tree, root, { nodeMax: 5, render })
    expect({ count, truncated }).toEqual({ count: 5, truncated: true })
    expect(node.children?.map(({ children }) => children?.length)).toEqual([1, undefined, undefined])
    expect(subtree(tree, root, { nodeMax: 9, render })).toMatchObject({ count: 9, truncated: false })
  })
})

describe('the difference of two trees', () => {
  it('[V6.9] is nothing for the same tree, and names each difference once', () => {
    const left = filled()
    const right = filled()
    expect([...diff(left, right)]).toEqual([])
    left.put('/only/here', file)
    right.put('/b/2', { ...file, size: 2 })
    right.put('/c/now/a/directory', file)
    right.remove(right.find('/a/x'))
    right.put('/a/y', file)
    const told = [...diff(left, right)].map(({ path, kind }) => `${kind} ${path}`)
    expect(told.toSorted()).toEqual(
      ['content /b/2', 'only_left /a/x', 'only_left /only', 'only_right /a/y', 'type /c'].toSorted(),
    )
  })

  it('[V6.9] of any two trees, carried over, makes them the same', () => {
    fc.assert(
      fc.property(operations, operations, (one, other) => {
        const [left, right] = [one, other].map((steps) => {
          const tree = new Tree({ id: 'd' })
          for (const step of steps) step.apply(tree)
          return tree
        }) as [Tree, Tree]
        for (const { path, kind, left: node } of [...diff(left, right)]) {
          if (right.find(path) !== -1) right.remove(right.find(path))
          if (kind === 'only_right') continue
          for (const each of [node!, ...left.walk(node!)])
            right.put(left.pathOf(each), {
              isDirectory: left.isDirectory(each),
              size: left.size(each),
              modifiedTime: left.modifiedTime(each),
            })
        }
        expect([...diff(left, right)]).toEqual([])
        expect(right.stats(root)).toEqual(left.stats(root))
      }),
      { numRuns: 40 },
    )
  })

  it('the model of these tests refuses when it is full, as the tree does', () => {
    expect(new Model(1).put('/a/b', file)).toBe('full')
  })
})

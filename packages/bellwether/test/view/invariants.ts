/**
 * Checks a tree and the marks beside it after any step: parents, lists of children, totals, the free list, and that exactly
 * the marked entries are listed as suspects and blind spots. Each loop has a bound, so a broken tree fails instead of hanging.
 */
import { depthMax } from '../../src/view/tree/path.js'
import { flag, none, root, type NodeId, type Tree } from '../../src/view/tree/tree.js'
import type { SourceState } from '../../src/view/arbitration/source-state.js'

/** The violated invariants; empty if the tree is consistent. */
export function treeProblems(tree: Tree): string[] {
  const problems: string[] = []
  const reached = new Set<NodeId>([root])
  for (const directory of reached) {
    if (!tree.isDirectory(directory)) continue
    const totals = { files: 0, directories: 0, size: 0 }
    let newest = tree.modifiedTime(directory)
    for (const child of tree.unsorted(directory)) {
      if (reached.has(child)) problems.push(`entry ${child} has two parents`)
      else if (!tree.exists(child)) problems.push(`entry ${child} below ${directory} is not live`)
      else if (tree.parentOf(child) !== directory) problems.push(`entry ${child} is in the list of another parent`)
      reached.add(child)
      const below = tree.stats(child)
      totals.files += below.files + (tree.isDirectory(child) ? 0 : 1)
      totals.directories += below.directories + (tree.isDirectory(child) ? 1 : 0)
      totals.size += below.size + (tree.isDirectory(child) ? 0 : tree.size(child))
      newest = Math.max(newest, tree.newest(child))
    }
    if (JSON.stringify(tree.stats(directory)) !== JSON.stringify(totals)) problems.push(`totals of ${directory}`)
    if (tree.newest(directory) !== newest) problems.push(`newest time of ${directory}`)
  }
  const live: NodeId[] = []
  for (let node = tree.nextNode(none); node !== none; node = tree.nextNode(node)) live.push(node)
  if (live.length !== reached.size) problems.push(`${live.length} live entries, ${reached.size} in lists of children`)
  for (const node of live) {
    if (!reached.has(node)) problems.push(`live entry ${node} is in no list of children`)
    let depth = 0
    for (let up = node; up !== root && depth <= depthMax; up = tree.parentOf(up)) depth += 1
    if (depth > depthMax) problems.push(`the parents of entry ${node} form a loop`)
    else if (tree.find(tree.pathOf(node)) !== node) problems.push(`a lookup does not find entry ${node}`)
    if (tree.has(node, flag.placeholder) && !tree.isDirectory(node)) problems.push(`placeholder ${node} is a file`)
    if (tree.isSymlink(node) && tree.isDirectory(node)) problems.push(`symlink ${node} is a directory`)
    if (tree.has(node, flag.unreadable) && !tree.isDirectory(node)) problems.push(`unreadable ${node} is a file`)
  }
  return [...problems, ...freeListProblems(tree)]
}

/** Every free row is in the free list of its page once, and none of them is a live entry. */
function freeListProblems(tree: Tree): string[] {
  const problems: string[] = []
  for (const [position, page] of tree.store.entries.pages.entries()) {
    const free = new Set<number>()
    for (let row = page.free; row !== 0; row = page.link[(row - 1) * page.stride]!) {
      if (free.has(row) || row > page.fresh) {
        problems.push(`the free list of page ${position} is broken`)
        break
      }
      free.add(row)
      if (tree.exists(position * tree.store.entries.rows + row - 1)) problems.push(`free row ${row} is live`)
    }
    if (page.live + free.size !== page.fresh) problems.push(`page ${position}: ${page.live} used, ${free.size} free`)
  }
  return problems
}

/** The same for a source: also its suspects and blind spots. */
export function sourceProblems({ tree, suspects, blindSpots }: SourceState): string[] {
  const problems = treeProblems(tree)
  const check = (kind: string, marked: ReadonlySet<NodeId>, bit: number) => {
    for (const node of marked) {
      if (!tree.exists(node)) problems.push(`${kind} ${node} is not live`)
      else if (!tree.has(node, bit)) problems.push(`${kind} ${node} has no mark`)
    }
    for (let node = tree.nextNode(none); node !== none; node = tree.nextNode(node))
      if (tree.has(node, bit) && !marked.has(node)) problems.push(`marked entry ${node} is not in the list: ${kind}`)
  }
  const suspected = new Set(suspects.nodes())
  check('suspect', suspected, flag.integritySuspect)
  check('blind spot', blindSpots.additions, flag.blindSpot)
  for (const node of suspected)
    if (tree.exists(node) && tree.isDirectory(node)) problems.push(`suspect ${node} is a directory`)
  return problems
}

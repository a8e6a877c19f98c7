/**
 * Places a turn, its parent and its children in a graph: one column per generation, one row per leaf. Pure. A first child is in the row of its
 * parent, so that children that are added later move nothing above them. Of more relatives than fit, the nearest generations are shown.
 */
import type { Relative, TurnDetail } from '../api/types.js'
import { countRelatives } from './relatives.js'

interface Place {
  readonly key: string
  readonly column: number
  readonly row: number
  /** The node that this one came from; null: the first one. */
  readonly from: LineageNode | null
}

export type LineageNode = Place &
  (
    | { readonly what: 'self' }
    | { readonly what: 'relative'; readonly relative: Relative }
    /** This many turns below `from` are not shown; the first of them. */
    | { readonly what: 'more'; readonly count: number; readonly first: string }
  )

export interface LineageGraph {
  /** In the order of a tree: each node after the one that it came from. */
  readonly nodes: readonly LineageNode[]
  readonly columns: number
  readonly rows: number
}

type Related = Pick<TurnDetail, 'agent_turn_id' | 'parent' | 'children'>

export function lineageOf(turn: Related, most: number): LineageGraph {
  const shown = nearest(turn.children, most)
  const nodes: LineageNode[] = []
  let rows = 0
  const put = (node: LineageNode): LineageNode => {
    nodes.push(node)
    rows = Math.max(rows, node.row + 1)
    return node
  }
  const addBelow = (from: LineageNode, relatives: readonly Relative[]) => {
    let isFirst = true
    const place = (key: string) => {
      const row = isFirst ? from.row : rows
      isFirst = false
      return { key, column: from.column + 1, row, from }
    }
    const hidden = relatives.filter((one) => !shown.has(one))
    for (const relative of relatives.filter((one) => shown.has(one)))
      addBelow(put({ ...place(relative.agent_turn_id), what: 'relative', relative }), relative.children ?? [])
    const first = hidden[0]?.agent_turn_id
    if (first !== undefined) put({ ...place(`more ${from.key}`), what: 'more', count: countRelatives(hidden), first })
  }
  const { agent_turn_id: key, parent } = turn
  const from =
    parent === null
      ? null
      : put({ key: parent.agent_turn_id, column: 0, row: 0, from: null, what: 'relative', relative: parent })
  addBelow(put({ key, column: from === null ? 0 : 1, row: 0, from, what: 'self' }), turn.children)
  return { nodes, columns: Math.max(...nodes.map(({ column }) => column)) + 1, rows }
}

/** The first relatives, generation by generation. */
function nearest(children: readonly Relative[], most: number): ReadonlySet<Relative> {
  const found = new Set<Relative>()
  for (let generation = children; generation.length > 0; generation = generation.flatMap((one) => one.children ?? []))
    for (const one of generation) {
      if (found.size >= most) return found
      found.add(one)
    }
  return found
}

const relationWords: Readonly<Record<Relative['relation'], string>> = {
  enqueued: 'enqueued',
  delegate: 'delegate',
  fork_join: 'fork_join',
  follow_up: 'follow-up',
  fork: 'fork',
}

/** How a child began. */
export const relationText = ({ relation }: Pick<Relative, 'relation'>): string => relationWords[relation]

/** How the turn itself began. */
export function selfText({ parent, forked_from: fork }: Pick<TurnDetail, 'parent' | 'forked_from'>): string {
  if (parent === null) return 'this turn'
  return `this turn, ${fork === null ? relationText(parent) : `fork at step ${fork.step}`}`
}

/** How often another worker continued the turn. */
export const takeoversOf = ({ interventions }: Pick<TurnDetail, 'interventions'>): number =>
  interventions.filter(({ kind }) => kind === 'reclaim').length

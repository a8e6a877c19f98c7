import { describe, expect, it } from 'vitest'
import { childOf, interventionOf } from '../../test/support/samples.js'
import type { ChildTurn } from '../api/types.js'
import { lineageOf, selfText, takeoversOf } from './lineage.js'

const child = (id: string, ...children: ChildTurn[]) => childOf({ agent_turn_id: id, children })
const parentOf = (relation: ChildTurn['relation']) => ({ ...childOf({ agent_turn_id: 'p' }), relation })

/** Each node as key, column, row, and the node that it came from. */
const placesOf = (turn: Parameters<typeof lineageOf>[0], most = 200) =>
  lineageOf(turn, most).nodes.map(({ key, column, row, from }) => [key, column, row, from?.key ?? null])

describe('the graph of a turn', () => {
  it('has one column per generation and one row per leaf, and a first child in the row of its parent', () => {
    const children = [child('a', child('a1'), child('a2')), child('b', child('b1')), child('c')]
    const turn = { agent_turn_id: 't', parent: parentOf('delegate'), children }
    expect(placesOf(turn)).toEqual([
      ['p', 0, 0, null],
      ['t', 1, 0, 'p'],
      ['a', 2, 0, 't'],
      ['a1', 3, 0, 'a'],
      ['a2', 3, 1, 'a'],
      ['b', 2, 2, 't'],
      ['b1', 3, 2, 'b'],
      ['c', 2, 3, 't'],
    ])
    expect(lineageOf(turn, 200)).toMatchObject({ columns: 4, rows: 4 })
  })

  it('has one node for a turn without parent and children', () => {
    expect(lineageOf({ agent_turn_id: 't', parent: null, children: [] }, 200)).toMatchObject({ columns: 1, rows: 1 })
  })

  it('no two nodes have the same place, and a later child moves no node', () => {
    const children = Array.from({ length: 30 }, (_, at) => child(`${at}`, child(`${at}a`), child(`${at}b`)))
    const turn = { agent_turn_id: 't', parent: null, children }
    const places = placesOf(turn)
    expect(new Set(places.map(([, column, row]) => `${column} ${row}`)).size).toBe(places.length)
    expect(placesOf({ ...turn, children: [...children, child('new')] }).slice(0, -1)).toEqual(places)
  })

  it('shows the nearest generations, and counts the turns that it does not show below the node that they came from', () => {
    const children = [child('a', child('a1', child('a11')), child('a2')), child('b', child('b1')), child('c')]
    const graph = lineageOf({ agent_turn_id: 't', parent: null, children }, 4)
    expect(graph.nodes.map((node) => [node.key, node.what === 'more' ? node.count : null, node.row])).toEqual([
      ['t', null, 0],
      ['a', null, 0],
      ['a1', null, 0],
      ['more a1', 1, 0],
      ['more a', 1, 1],
      ['b', null, 2],
      ['more b', 1, 2],
      ['c', null, 3],
    ])
  })

  it('says how the turn began and how many workers took it over', () => {
    expect(selfText({ parent: null, forked_from: null })).toBe('this turn')
    expect(selfText({ parent: parentOf('follow_up'), forked_from: null })).toBe('this turn, follow-up')
    const fork = { agent_turn_id: 'p', step: 3 }
    expect(selfText({ parent: parentOf('fork'), forked_from: fork })).toBe('this turn, fork at step 3')
    const interventions = [interventionOf(), interventionOf({ kind: 'tool_timeout' }), interventionOf()]
    expect(takeoversOf({ interventions })).toBe(2)
  })
})

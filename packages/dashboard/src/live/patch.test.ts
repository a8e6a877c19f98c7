/** What events do to rows that are shown. */
import { describe, expect, it } from 'vitest'
import { agentOf, headOf, turnOf } from '../../test/support/samples.js'
import type { Agent, Agents, LiveEvent, Turn } from '../api/types.js'
import { patchAgents, patchTurns } from './patch.js'

const head = headOf({ turn_deadline: '2030-01-01T00:00:00Z' })
const agent = (agent_id: string, state = head) => agentOf({ agent_id, state })
const roster = (...agents: Agent[]): Agents => ({ agents, cut: false, readAtMs: 0 })
const state = (status: string, epoch: number, turn = 't1', metadata: object = {}): LiveEvent => ({
  kind: 'state',
  agent_turn_id: turn,
  created_at: '2029-06-01T00:00:00Z',
  payload: { agent_id: 'a', agent_turn_id: turn, status, turn_epoch: epoch, metadata },
})
const ended = (turn: string, status: string): LiveEvent => ({
  kind: 'task',
  agent_turn_id: turn,
  created_at: '2029-06-01T00:00:01Z',
  payload: { agent_id: 'a', agent_turn_id: turn, status },
})

describe('agents', () => {
  it('a suspended turn shows its tool and the number of waits and keeps its deadline', () => {
    const waits = { activity: 'awaiting_tool_result', current_tool: 'run_tests', waiting_tool_count: 2 }
    const { agents } = patchAgents(roster(agent('a'), agent('b')), [state('suspended', 5, 't1', waits)])
    expect(agents[0]!.state).toMatchObject({ status: 'suspended', current_tool: 'run_tests', waiting_tool_count: 2 })
    expect(agents[0]!.state!.turn_deadline).toBe(head.turn_deadline)
  })

  it('an event of an older epoch changes nothing, not even the object', () => {
    const before = roster(agent('a'))
    expect(patchAgents(before, [state('idle', 4)])).toBe(before)
  })

  it('the end of a turn does not end the next one with the same epoch', () => {
    const before = roster(agent('a', { ...head, active_agent_turn_id: 't2' }))
    expect(patchAgents(before, [state('idle', 5, 't1')])).toBe(before)
  })

  it('an ended turn leaves the agent idle and becomes its last turn', () => {
    const [one] = patchAgents(roster(agent('a')), [ended('t1', 'failed'), state('idle', 5)]).agents
    expect(one!.state).toMatchObject({ status: 'idle', active_agent_turn_id: null, turn_deadline: null })
    expect(one!.last_turn).toMatchObject({ agent_turn_id: 't1', outcome: 'failed' })
  })

  it('ignores unknown agents and unknown payloads', () => {
    const before = roster(agent('b'))
    const strange = { ...state('running', 9), payload: { agent_id: 'b', status: 7, turn_epoch: 'x' } }
    expect(patchAgents(before, [state('idle', 9), strange])).toBe(before)
  })
})

describe('turns', () => {
  const turn = turnOf()
  const pages = (...turns: Turn[]) => ({ pages: [{ turns, cursor: null }], pageParams: [undefined] })

  it('a turn ends once: events after its task event change nothing', () => {
    const { data } = patchTurns(pages(turn), [ended('t1', 'success'), state('idle', 5), state('running', 6)])
    expect(data.pages[0]!.turns[0]).toMatchObject({
      status: 'success',
      outcome: 'success',
      ended_at: '2029-06-01T00:00:01Z',
    })
  })

  it('reports turns that are not listed', () => {
    const before = pages(turn)
    expect(patchTurns(before, [ended('t9', 'success')])).toEqual({ data: before, unknown: true })
    expect(patchTurns(before, [])).toEqual({ data: before, unknown: false })
  })
})

/** The models behind the pages. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  agentOf,
  cardOf,
  childOf,
  componentOf,
  headOf,
  questionOf,
  stepOf,
  taskOf,
  waitOf,
} from '../../test/support/samples.js'
import type { Agent, ChildTurn, Component, Head, Task, TaskBudget, TurnBudget } from '../api/types.js'
import { makeKeys } from '../keyboard/shortcuts.js'
import { budgetUseOf, columnsOf, needsPerson, reasonText, recoveryText } from './board.js'
import { cascadeOf } from './cascade.js'
import { assess, recentTurns } from './fleet.js'
import { countRelatives, tallyRelatives } from './relatives.js'
import { answerOf, questionIn } from './question.js'
import { boardColumns } from './status.js'
import { oneLine, pieces, safeUrl, visible } from './text.js'
import { ago, clockTime, countdown, instant, span } from './time.js'
import { rowsOf } from './tree.js'
import { originOf, fieldsIn, nearestOf, timeline, whyOf } from './turn.js'

const now = Date.parse('2030-01-01T12:00:00Z')
const at = (seconds: number) => new Date(now + seconds * 1_000).toISOString()

describe('times', () => {
  it('countdowns show seconds, become urgent in the last minute, and then show how late it is', () => {
    expect(countdown(at(125), now)).toEqual({ text: '2 min 5 s', urgency: 'calm' })
    expect(countdown(at(59), now)).toEqual({ text: '59 s', urgency: 'soon' })
    expect(countdown(at(-61), now)).toEqual({ text: '1 min 1 s late', urgency: 'late' })
    expect(countdown(at(3_599), now).text).toBe('59 min')
    expect(countdown(null, now)).toEqual({ text: '–', urgency: 'none' })
    expect(countdown('not a time', now).urgency).toBe('none')
  })

  it('an instant names its time zone, and its date unless it is today', () => {
    expect(clockTime(at(0), now)).toMatch(/^\d\d:00:00 \S+$/)
    expect(clockTime(at(200_000), now)).toMatch(/^2030-01-0\d \d\d:33:20 \S+$/)
    expect(instant(at(0))).toMatch(/^2030-01-0\d \d\d:00:00 \S+$/)
  })

  it('formatted times are short for any input', () => {
    fc.assert(
      fc.property(fc.double({ min: -1e15, max: 1e15, noNaN: true }), (ms) => {
        expect(span(ms).length).toBeLessThanOrEqual(14)
      }),
    )
    expect(ago(at(-3_700), now)).toBe('1 h ago')
    expect(ago(at(5), now)).toBe('now')
  })
})

describe('hostile text', () => {
  it('only http and https URLs without a user name become links', () => {
    const text =
      'see https://example.org/a?b=1). or javascript:alert(1) data:text/html,x http://good@evil.org/ HTTP://x.org'
    const links = pieces(text).flatMap(({ href }) => (href === undefined ? [] : [href]))
    expect(links).toEqual(['https://example.org/a?b=1', 'http://x.org/'])
    expect(
      pieces(text)
        .map((piece) => piece.text)
        .join(''),
    ).toBe(text)
    expect(safeUrl('javascript:alert(1)')).toBeUndefined()
  })

  it('shows invisible characters and direction marks, and stays on one line', () => {
    expect(visible('a\u202egpj.exe')).toBe('a⟪RLO⟫gpj.exe')
    expect(visible('nul\0 esc\u001b[31m')).toBe('nul␀ esc␛[31m')
    expect(visible('bad\udcff name')).toBe('bad\\xff name')
    expect(oneLine('one\n\ntwo\tthree')).toBe('one two three')
    fc.assert(
      fc.property(fc.uint16Array({ maxLength: 60 }), (units) => {
        expect(visible(String.fromCharCode(...units))).not.toMatch(/[\u202a-\u202e\u2066-\u2069\u200b\0]/)
      }),
    )
  })
})

const agent = (state: Partial<Head> | null, more: Partial<Agent> = {}) =>
  agentOf({
    worker_target: 'gpu',
    state: state && headOf({ turn_deadline: at(600), leased_at: at(-5), updated_at: at(-1), ...state }),
    ...more,
  })

describe('the fleet', () => {
  const condition = (one: Agent, knownMs = now) => assess(one, now, knownMs).condition
  it('distinguishes working, waiting, starting and resting agents', () => {
    expect(condition(agent({}))).toBe('working')
    expect(condition(agent({ status: 'suspended', resume_deadline: at(30) }))).toBe('waiting')
    expect(condition(agent({ status: 'dispatched' }))).toBe('starting')
    expect(condition(agent({ status: 'idle', turn_deadline: null }))).toBe('resting')
    expect(condition(agent(null))).toBe('resting')
    expect(condition(agent({}, { status: 'retired' }))).toBe('retired')
  })

  it('an agent that is late, unclaimed or silent is stuck, with the reason', () => {
    expect(assess(agent({ turn_deadline: at(-60) }), now, now).why).toContain('past its deadline')
    expect(assess(agent({ status: 'suspended', resume_deadline: at(-60) }), now, now).why).toContain(
      'past its deadline',
    )
    expect(assess(agent({ status: 'dispatched', leased_at: at(-120) }), now, now).why).toContain('no worker of gpu')
    expect(assess(agent({ updated_at: at(-300) }), now, now).why).toContain('no heartbeat')
  })

  it('does not count its own gap as the agent’s silence', () => {
    expect(condition(agent({ updated_at: at(-300) }), now - 290_000)).toBe('working')
  })

  it('lists the most recently ended turns up to a limit', () => {
    const ended = (agent_id: string, seconds: number) =>
      agent(null, { agent_id, last_turn: { agent_turn_id: agent_id, outcome: 'success', ended_at: at(seconds) } })
    const agents = [ended('a', -30), agent(null), ended('b', -10), ended('c', -20)]
    expect(recentTurns(agents, 2).map((one) => one.agent)).toEqual(['b', 'c'])
  })
})

describe('the board', () => {
  it('the board has a column per status, known or not, and loses no task', () => {
    const columns = columnsOf([taskOf({ status: 'done' }), taskOf({ status: 'odd' as Task['status'] }), taskOf()])
    expect(columns.map(({ status }) => status)).toEqual([...boardColumns, 'odd'])
    expect(columns.flatMap(({ tasks }) => tasks)).toHaveLength(3)
  })

  it('marks tasks that need a person', () => {
    for (const waitCode of ['approval', 'review', 'held', 'person'])
      expect(needsPerson(taskOf({ waitCode }))).toBe(true)
    for (const waitCode of [null, 'cooldown', 'open_run', 'done', 'failed', 'frozen', 'dependency'])
      expect(needsPerson(taskOf({ waitCode }))).toBe(false)
  })

  it('shows the nearest limit of a task, if any', () => {
    const limits = { maxTaskTokens: null, maxTaskCostUsd: null, maxTaskWallTimeSec: null, maxTaskRetries: null }
    const kinds = { inputTokens: 60, outputTokens: 40, cacheReadTokens: 900, cacheWriteTokens: 0, costMicros: 0 }
    const used = { agent: 'a', tokenUsage: 100, ...kinds, elapsedMs: 90_000, retryCount: 1, exceededCount: 0, limits }
    const near = (unit: NonNullable<TaskBudget['nearest']>['unit'], spent: number, limit: number) =>
      budgetUseOf({ ...used, nearest: { unit, used: spent, limit, fraction: spent / limit } })
    expect(near('ms', 90_000, 100_000)).toEqual({ part: 0.9, label: '1 min 30 s of 1 min 40 s' })
    expect(near('runs', 1, 3)?.label).toBe('1 of 3 runs')
    expect(near('micros', 1_234_567, 20_000_000)?.label).toBe('$1.23 of $20.00')
    expect(near('tokens', 1_500, 1_000)).toEqual({ part: 1.5, label: '1.5k of 1.0k tokens' })
    expect(budgetUseOf({ ...used, nearest: null })).toEqual({ part: null, label: '100 tokens' })
    expect(budgetUseOf(null)).toBeNull()
  })

  it('describes the recovery and turns codes into words', () => {
    const retry = { action: 'retry', nextAssignee: 'debugger', recoveryState: 'recovery_scheduled' } as const
    expect(recoveryText(retry)).toBe('next: debugger')
    expect(recoveryText({ ...retry, action: 'human', recoveryState: 'human_handoff' })).toBe('handed to a person')
    expect(reasonText('incomplete_output: a_b.md is missing', now)).toBe('incomplete output: a_b.md is missing')
    expect(reasonText('look at a_b: it is odd', now)).toBe('look at a_b: it is odd')
    expect(reasonText('ann is at it since 2030-01-01T11:58:00.123Z', now)).toMatch(
      /^ann is at it since \S*\d\d:58:00 \S+$/,
    )
  })
})

describe('a question', () => {
  const question = (args: unknown) => questionOf({ arguments: args })
  const draft = (values: object) => new Map<string, string>(Object.entries(values))
  const fields = [
    { name: 'severity', type: 'integer', required: true },
    { name: 'public', type: 'boolean' },
    { name: 'tags', type: 'array' },
  ]

  it('converts answers to the types of the fields', () => {
    const parsed = questionIn(question({ question: 'q', result_fields: fields }))
    expect(answerOf(parsed, draft({ severity: '2', public: 'true', tags: '["a"]' }))).toEqual({
      answer: {
        status: 'success',
        result: {
          fields: [
            { name: 'severity', value: 2 },
            { name: 'public', value: true },
            { name: 'tags', value: ['a'] },
          ],
        },
      },
    })
    expect(answerOf(parsed, draft({ severity: '2.5', tags: '{}' }))).toEqual({
      wrong: draft({ severity: 'must be a whole number', tags: 'must be a JSON array' }),
    })
    expect(answerOf(parsed, draft({}))).toEqual({ wrong: draft({ severity: 'required' }) })
  })

  it('accepts field names such as __proto__', () => {
    const names = ['__proto__', 'constructor', 'toString']
    const parsed = questionIn(
      question({ question: 'q', result_fields: names.map((name) => ({ name, required: true })) }),
    )
    expect(answerOf(parsed, new Map())).toEqual({ wrong: new Map(names.map((name) => [name, 'required'])) })
    expect(answerOf(parsed, new Map(names.map((name) => [name, 'x'])))).toEqual({
      answer: { status: 'success', result: { fields: names.map((name) => ({ name, value: 'x' })) } },
    })
  })

  it('shows a question of any form and rejects an empty answer', () => {
    for (const args of [null, undefined, 7, [], 'plain', { choices: [1, 'a'], result_fields: ['x', {}] }]) {
      const parsed = questionIn(question(args))
      expect(parsed.text).not.toBe('')
      expect(parsed.fields).toEqual([])
      expect(answerOf(parsed, draft({ text: '  ' }))).toHaveProperty('wrong')
    }
  })
})

describe('timeline', () => {
  it('the timeline starts with the inbox row, ends with the deliverable, and contains every call', () => {
    const turn = {
      created_at: at(5),
      started_at: at(1),
      ended_at: at(2),
      claimed_by: null,
      steps: [stepOf({ step_id: 's1', started_at: at(3) })],
      waits: [
        waitOf({ tool_call_id: 'c1', step_id: 's1', created_at: at(3) }),
        waitOf({ tool_call_id: 'c2', step_id: 'lost', created_at: at(4) }),
      ],
      interventions: [],
      context_cards: [cardOf({ card_id: 'i', type: 'task.instruction', created_at: at(0) })],
      cards: [cardOf({ card_id: 'c', type: 'tool.call', created_at: at(3) })],
    }
    const moments = timeline(turn)
    expect(moments.map(({ what }) => what)).toEqual(['inbox', 'card', 'start', 'step', 'step', 'end'])
    expect(
      moments.flatMap((moment) => (moment.what === 'step' ? moment.waits : [])).map(({ tool_call_id: id }) => id),
    ).toEqual(['c1', 'c2'])
  })
})

describe('a turn', () => {
  it('names who requested a turn: an agent, or a person with an action', () => {
    const cards = [cardOf({ type: 'tool.call', content: { tool_name: 'refund', requested_by: 'key desk' } })]
    const origin = { message_type: 'turn', source_agent_id: null, cards }
    expect(originOf(origin)).toBe('Added to the inbox')
    expect(originOf({ ...origin, source_agent_id: 'boss' })).toBe('Added to the inbox by boss')
    expect(originOf({ ...origin, message_type: 'ui_action' })).toBe(
      'An action of a person calls refund, requested by key desk',
    )
    expect(originOf({ ...origin, message_type: 'ui_action', cards: [] })).toBe('An action of a person')
  })

  it('shows the nearest limit of a turn', () => {
    const budget: TurnBudget = {
      budget_id: 'b',
      parent_budget_id: null,
      exceeded_keys: [],
      agent_limits: [],
      tokens: { used: 10_000, limit: 100_000 },
      cost_micros: { used: 5, limit: null },
      wall_ms: { used: 60_000, limit: 90_000 },
      fraction: 2 / 3,
      nearest: 'wall_ms',
    }
    expect(nearestOf(budget)).toEqual({ part: 2 / 3, label: '1 min of 1 min 30 s' })
    expect(nearestOf({ ...budget, nearest: 'tokens' })?.label).toBe('10k of 100k tokens')
    expect(nearestOf({ ...budget, nearest: null })).toBeNull()
    expect(nearestOf(null)).toBeNull()
  })

  it('says why a turn did not succeed: the first line of its fallback, else its error in words', () => {
    const fallback = { reason: 'command_exit_3', ended_by: 'worker', cards: 1, tool_results: 0, box_id: null } as never
    const error = 'command_exit_3'
    const deliverable = (text: unknown) => ({ content: { text }, fallback }) as never
    expect(whyOf({ error, deliverable: deliverable('\nThe agent exited with 3: no disk\nmore') })).toBe(
      'The agent exited with 3: no disk',
    )
    for (const other of [
      null,
      deliverable(''),
      deliverable(7),
      { content: { text: 'a result' }, fallback: null } as never,
    ])
      expect(whyOf({ error, deliverable: other })).toBe('agent exited with 3')
    expect(whyOf({ error: null, deliverable: deliverable('x') })).toBeNull()
  })

  it('reads the named fields of a deliverable and none from other forms', () => {
    const fields = [{ name: 'a', value: 1 }, { name: '__proto__' }, { name: 2 }, null, 'x']
    expect(fieldsIn({ fields })).toEqual([
      { name: 'a', value: 1 },
      { name: '__proto__', value: null },
    ])
    for (const content of [null, 'text', { text: 'x' }, { fields: 'x' }, []]) expect(fieldsIn(content)).toEqual([])
  })

  it('counts descendants of all generations', () => {
    const child = (status: string | null, ...children: ChildTurn[]) => childOf({ status, children })
    const family = [child('success', child('failed'), child('success')), child(null)]
    expect(countRelatives(family)).toBe(4)
    expect(tallyRelatives(family)).toEqual([
      ['success', 2],
      ['failed', 1],
    ])
  })
})

describe('the tree', () => {
  it('the tree shows open folders, with unseen deletions at their place', () => {
    const file = (path: string) => ({ path, content_type: 'file' as const })
    const folder = (path: string) => ({ path, content_type: 'directory' as const })
    const folders = new Map([
      ['/', [file('/z'), folder('/a'), folder('/b')]],
      ['/a', []],
    ])
    const rows = rowsOf({ open: new Set(['/a', '/b']), folder: (path) => folders.get(path), gone: ['/a/old', '/was'] })
    expect(rows.map(({ what, key }) => `${what} ${key}`)).toEqual([
      'entry /a',
      'gone /a/old-gone',
      'entry /b',
      'loading /b?',
      'entry /z',
      'gone /was-gone',
    ])
  })
})

describe('the cascade', () => {
  it('every component appears once below its cause, also in a dependency cycle', () => {
    const part = (name: string, depends_on: string[], state: Component['state'] = 'ok') =>
      componentOf({ kind: 'k', name, state, depends_on })
    const trees = cascadeOf([
      part('view', ['k:pipe']),
      part('pipe', ['k:source']),
      part('source', [], 'failed'),
      part('x', ['k:y']),
      part('y', ['k:x']),
    ])
    expect(trees.map(({ component }) => component.name)).toEqual(['source', 'x'])
    expect(trees[0]!.effects[0]!.effects[0]!.component.name).toBe('view')
    expect(trees[1]!.effects[0]!.component.name).toBe('y')
  })
})

describe('the keyboard', () => {
  it('handles key pairs and ignores keys typed into fields or used by the browser', () => {
    const read = makeKeys()
    const press = (key: string, more: object = {}) =>
      read({ key, withModifier: false, inField: false, atMs: now, ...more })
    press('g')
    expect(press('b')).toEqual({ what: 'go', to: 'board' })
    expect(press('b')).toEqual({ what: 'nothing' })
    press('g')
    expect(press('t', { atMs: now + 5_000 })).toEqual({ what: 'nothing' })
    expect(press('j')).toEqual({ what: 'next' })
    expect(press('j', { inField: true })).toEqual({ what: 'nothing' })
    expect(press('k', { withModifier: true })).toEqual({ what: 'nothing' })
    for (const key of ['constructor', '__proto__', 'toString']) expect(press(key)).toEqual({ what: 'nothing' })
  })
})

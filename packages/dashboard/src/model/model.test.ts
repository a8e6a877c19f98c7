/** The models behind the pages. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { encodePath } from '../api/client.js'
import type { Component, Task } from '../api/board-types.js'
import type { Agent, Kin, Question, TurnDetail } from '../api/types.js'
import { makeKeys } from '../keyboard/shortcuts.js'
import { budgetUseOf, columnsOf, needsPerson, reasonText, recoveryText } from './board.js'
import { cascadeOf } from './cascade.js'
import { assess, recentTurns } from './fleet.js'
import { countRelatives, tallyRelatives } from './relatives.js'
import { answerOf, questionIn } from './question.js'
import { oneLine, pieces, safeUrl, visible } from './text.js'
import { ago, countdown, span } from './time.js'
import { rowsOf } from './tree.js'
import { fieldsIn, nearestOf, timeline } from './turn.js'

const now = Date.parse('2030-01-01T12:00:00Z')
const at = (seconds: number) => new Date(now + seconds * 1_000).toISOString()

describe('times', () => {
  it('countdowns show seconds, become urgent in the last minute, and then show how late it is', () => {
    expect(countdown(at(125), now)).toEqual({ text: '2:05', urgency: 'calm' })
    expect(countdown(at(59), now)).toEqual({ text: '59 s', urgency: 'soon' })
    expect(countdown(at(-61), now)).toEqual({ text: 'late 1:01', urgency: 'late' })
    expect(countdown(null, now)).toEqual({ text: '–', urgency: 'none' })
    expect(countdown('not a time', now).urgency).toBe('none')
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

  it('encodes a file name in a URL as its original bytes', () => {
    expect(encodePath('/a b/\udcff?é')).toBe('%2Fa%20b%2F%FF%3F%C3%A9')
  })
})

const agent = (state: Partial<NonNullable<Agent['state']>> | null, more: Partial<Agent> = {}): Agent => ({
  agent_id: 'a',
  profile_id: null,
  worker_target: 'gpu',
  status: 'active',
  metadata: {},
  queued: 0,
  last_turn: null,
  state:
    state === null
      ? null
      : {
          status: 'running',
          active_agent_turn_id: 't',
          turn_epoch: 1,
          activity: null,
          current_tool: null,
          waiting_tool_count: 0,
          resume_deadline: null,
          turn_deadline: at(600),
          leased_at: at(-5),
          updated_at: at(-1),
          ...state,
        },
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

const task = (more: Partial<Task>): Task => ({
  taskId: 'T',
  title: '',
  status: 'pending',
  priority: 0,
  impact: 0,
  assignee: null,
  reason: null,
  dependencies: [],
  createdAt: '',
  updatedAt: '',
  waitsFor: null,
  waitCode: null,
  waitUntil: null,
  recovery: null,
  budget: null,
  costMicros: null,
  next: null,
  ...more,
})

describe('the board', () => {
  it('the board has a column per status, known or not, and loses no task', () => {
    const columns = columnsOf([task({ status: 'done' }), task({ status: 'odd' }), task({})])
    expect(columns.map(({ status }) => status)).toEqual([
      'pending',
      'claimed',
      'in_progress',
      'review',
      'blocked',
      'failed',
      'done',
      'odd',
    ])
    expect(columns.flatMap(({ tasks }) => tasks)).toHaveLength(3)
  })

  it('marks tasks that need a person', () => {
    for (const waitCode of ['approval', 'review', 'held', 'person']) expect(needsPerson(task({ waitCode }))).toBe(true)
    for (const waitCode of [null, 'cooldown', 'under_way', 'done', 'failed', 'frozen', 'dependency'])
      expect(needsPerson(task({ waitCode }))).toBe(false)
  })

  it('shows the nearest limit of a task, if any', () => {
    const used = { agent: 'a', tokenUsage: 100, elapsedMs: 90_000, retryCount: 1 }
    const near = (unit: 'tokens' | 'ms' | 'runs', spent: number, limit: number) =>
      budgetUseOf({ ...used, nearest: { unit, used: spent, limit, fraction: spent / limit } })
    expect(near('ms', 90_000, 100_000)).toEqual({ part: 0.9, label: '1:30 / 1:40' })
    expect(near('runs', 1, 3)?.label).toBe('1 / 3 attempts')
    expect(near('tokens', 1_500, 1_000)).toEqual({ part: 1.5, label: '1.5k / 1.0k tokens' })
    expect(budgetUseOf({ ...used, nearest: null })).toEqual({ part: null, label: '100 tokens' })
    expect(budgetUseOf(null)).toBeNull()
  })

  it('describes the recovery and turns codes into words', () => {
    const recovery = { reasonCode: 'x', attempt: 2, maxAttempts: 3, nextAssignee: 'debugger', action: 'retry' }
    const rest = { recoveryState: 'recovery_scheduled', cooldownUntilTs: 0, deadlineTs: 0 }
    expect(recoveryText({ ...recovery, ...rest })).toBe('next: debugger')
    expect(recoveryText({ ...recovery, ...rest, action: 'human', recoveryState: 'human_handoff' })).toBe(
      'handed to a person',
    )
    expect(reasonText('incomplete_output: a_b.md is missing', now)).toBe('incomplete output: a_b.md is missing')
    expect(reasonText('look at a_b: it is odd', now)).toBe('look at a_b: it is odd')
    expect(reasonText('ann is at it since 2030-01-01T11:58:00.123Z', now)).toMatch(/^ann is at it since \S*\d\d:58:00$/)
  })
})

describe('a question', () => {
  const question = (args: unknown): Question => ({
    tool_call_id: 'c',
    agent_id: 'a',
    agent_turn_id: 't',
    arguments: args,
    asked_at: at(0),
    deadline: null,
  })
  const draft = (values: object) => new Map<string, string>(Object.entries(values))
  const fields = [
    { name: 'severity', type: 'integer', required: true },
    { name: 'public', type: 'boolean' },
    { name: 'tags', type: 'array' },
  ]

  it('converts answers to the types of the fields', () => {
    const asked = questionIn(question({ question: 'q', result_fields: fields }))
    expect(answerOf(asked, draft({ severity: '2', public: 'true', tags: '["a"]' }))).toEqual({
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
    expect(answerOf(asked, draft({ severity: '2.5', tags: '{}' }))).toEqual({
      wrong: draft({ severity: 'must be a whole number', tags: 'must be a JSON array' }),
    })
    expect(answerOf(asked, draft({}))).toEqual({ wrong: draft({ severity: 'required' }) })
  })

  it('accepts field names such as __proto__', () => {
    const names = ['__proto__', 'constructor', 'toString']
    const asked = questionIn(
      question({ question: 'q', result_fields: names.map((name) => ({ name, required: true })) }),
    )
    expect(answerOf(asked, new Map())).toEqual({ wrong: new Map(names.map((name) => [name, 'required'])) })
    expect(answerOf(asked, new Map(names.map((name) => [name, 'x'])))).toEqual({
      answer: { status: 'success', result: { fields: names.map((name) => ({ name, value: 'x' })) } },
    })
  })

  it('shows a question of any form and rejects an empty answer', () => {
    for (const args of [null, undefined, 7, [], 'plain', { choices: [1, 'a'], result_fields: ['x', {}] }]) {
      const asked = questionIn(question(args))
      expect(asked.text).not.toBe('')
      expect(asked.fields).toEqual([])
      expect(answerOf(asked, draft({ text: '  ' }))).toHaveProperty('wrong')
    }
  })
})

describe('timeline', () => {
  it('the timeline starts with the inbox row, ends with the deliverable, and contains every call', () => {
    const turn = {
      created_at: at(5),
      started_at: at(1),
      ended_at: at(2),
      steps: [
        {
          step_id: 's1',
          phase: 'think',
          status: 'success',
          tool_call_ids: [],
          metadata: {},
          error: null,
          started_at: at(3),
          ended_at: null,
        },
      ],
      waits: [
        { tool_call_id: 'c1', step_id: 's1', created_at: at(3) },
        { tool_call_id: 'c2', step_id: 'lost', created_at: at(4) },
      ],
      interventions: [],
      context_cards: [{ card_id: 'i', type: 'task.instruction', content: {}, created_at: at(0) }],
      cards: [{ card_id: 'c', type: 'tool.call', content: {}, created_at: at(3) }],
    } as unknown as TurnDetail
    const moments = timeline(turn)
    expect(moments.map(({ what }) => what)).toEqual(['inbox', 'card', 'start', 'step', 'step', 'end'])
    expect(
      moments.flatMap((moment) => (moment.what === 'step' ? moment.waits : [])).map(({ tool_call_id: id }) => id),
    ).toEqual(['c1', 'c2'])
  })
})

describe('a turn', () => {
  it('shows the nearest limit of a turn', () => {
    const none = { used: 5, limit: null }
    const budget = { tokens: { used: 10, limit: 100 }, cost_micros: none, wall_ms: { used: 60_000, limit: 90_000 } }
    expect(nearestOf(budget)?.label).toBe('1:00 / 1:30')
    expect(nearestOf({ tokens: none, cost_micros: none, wall_ms: none })).toBeNull()
    expect(nearestOf(null)).toBeNull()
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
    const kin = (id: string, status: string | null, children: readonly Kin[] = []): Kin => ({
      agent_turn_id: id,
      agent_id: id,
      status,
      children,
    })
    const family = [kin('a', 'success', [kin('b', 'failed'), kin('c', 'success')]), kin('d', null)]
    expect(countRelatives(family)).toBe(4)
    expect(tallyRelatives(family)).toEqual([
      ['success', 2],
      ['failed', 1],
    ])
  })
})

describe('the tree', () => {
  it('the tree shows open folders, with unseen deletions at their place', () => {
    const file = (path: string) => ({ name: path.split('/').at(-1)!, path, content_type: 'file' as const })
    const folder = (path: string) => ({ name: path.slice(1), path, content_type: 'directory' as const })
    const folders = new Map([
      ['/', { path: '/', children: [file('/z'), folder('/a'), folder('/b')] }],
      ['/a', { path: '/a', children: [] }],
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
    const part = (name: string, depends: string[], state: Component['state'] = 'ok'): Component => ({
      kind: 'k',
      name,
      state,
      because: null,
      restarts: 0,
      error: null,
      depends_on: depends,
    })
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

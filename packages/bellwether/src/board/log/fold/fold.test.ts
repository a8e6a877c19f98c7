import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { dependencyCycles } from '../../tasks/cycles.js'
import { Fold } from './fold.js'
import { fieldsMax, runsMax } from './reduce.js'
import {
  eventTypes,
  leadsTo,
  taskStatuses,
  transitions,
  type BoardState,
  type EventType,
  type TaskEvent,
  type TaskStatus,
} from '../task.js'

let made = 0
function event(type: EventType, payload: Record<string, unknown> = {}, more: Partial<TaskEvent> = {}): TaskEvent {
  made += 1
  const at = new Date(made * 1_000).toISOString()
  return { eventId: `e${made}`, taskId: 'T', type, messageType: '', actor: 'coder', at, payload, ...more }
}

function take(fold: Fold, one: unknown): string | undefined {
  const bytes = Buffer.from(typeof one === 'string' ? one : JSON.stringify(one))
  return fold.take(bytes, 0, bytes.length, 0)
}

/** The state after a few events. */
function foldEvents(events: Iterable<TaskEvent>): BoardState {
  const fold = new Fold()
  for (const one of events) take(fold, one)
  return fold.state()
}

/** The way to each status. */
const ways: Readonly<Record<TaskStatus, readonly EventType[]>> = {
  pending: [],
  claimed: ['task_claimed'],
  in_progress: ['task_claimed', 'task_started'],
  review: ['task_claimed', 'task_started', 'task_review'],
  done: ['task_claimed', 'task_done'],
  blocked: ['task_blocked'],
  failed: ['task_claimed', 'task_started', 'task_failed'],
}

describe('the fold', () => {
  it('[H5.1] a claim of the reference hands work over, and its reopened task is pending again, even a done one', () => {
    const start = [event('task_created'), event('task_claimed', { from: 'pending', to: 'claimed', owner: 'coder' })]
    const working = [...start, event('task_claimed', { from: 'claimed', to: 'in_progress', owner: 'coder' })]
    const handedOver = event('task_claimed', { from: 'in_progress', to: 'in_progress', owner: 'debugger' })
    expect(foldEvents([...working, handedOver]).tasks.get('T')).toMatchObject({
      status: 'in_progress',
      assignee: 'debugger',
    })
    const done = event('task_done', { from: 'in_progress', to: 'done' })
    const reopened = event('task_reopened', { from: 'done', to: 'pending' })
    expect(foldEvents([...working, done, reopened]).tasks.get('T')?.status).toBe('pending')
    for (const other of [{}, { from: 'in_progress', to: 'pending' }, { from: 'done', to: 'in_progress' }]) {
      const fold = new Fold()
      for (const one of [...working, done]) take(fold, one)
      expect([other, take(fold, event('task_reopened', other))]).toEqual([other, 'invalid_transition'])
    }
  })

  it('[H5.1] blockers of the reference are dependencies', () => {
    const payload = { dependsOn: ['A', 'B'], blockedBy: ['B', 'C', 7] }
    expect(foldEvents([event('task_created', payload)]).tasks.get('T')?.dependencies).toEqual(['A', 'B', 'C'])
  })

  it('[H3.3] the fold accepts exactly the legal transitions', () => {
    for (const status of taskStatuses)
      for (const type of eventTypes) {
        const fold = new Fold()
        for (const step of ['task_created' as const, ...ways[status]]) expect(take(fold, event(step))).toBeUndefined()
        const target = leadsTo[type]
        const legal = target === null || (target !== 'pending' && transitions[status].includes(target))
        expect(take(fold, event(type)), `${status} ${type}`).toBe(legal ? undefined : 'invalid_transition')
        expect(fold.state().tasks.get('T')?.status).toBe(legal ? (target ?? status) : status)
      }
  })

  it('[H3.3] the fold skips lines that do not count and says why', () => {
    const fold = new Fold()
    const first = event('task_created')
    expect(take(fold, first)).toBeUndefined()
    expect(take(fold, first)).toBe('duplicate_event_id')
    expect(take(fold, '{"eventId":')).toBe('broken_json')
    expect(take(fold, { ...event('task_claimed'), taskId: undefined })).toBe('missing_keys')
    expect(take(fold, { ...event('task_claimed'), type: 'task_eaten' })).toBe('unknown_type')
    expect(take(fold, event('task_done'))).toBe('invalid_transition')
    expect(take(fold, event('task_claimed', {}, { taskId: 'other' }))).toBe('missing_task')
    expect(fold.state()).toMatchObject({ eventCount: 1, lastEventAt: first.at })
    expect(take(fold, event('task_claimed'))).toBeUndefined()
  })

  it('[H2.5] the fold skips a line below the highest token, and counts its event when it comes again with a higher one', () => {
    const fold = new Fold()
    take(fold, event('task_created', {}, { token: 3 }))
    const late = event('task_claimed', {}, { token: 2 })
    expect(take(fold, late)).toBe('stale_token')
    expect(fold.state().tasks.get('T')?.status).toBe('pending')
    expect(take(fold, event('board_control', { fence: 5 }, { taskId: 'board', token: 5 }))).toBeUndefined()
    expect(take(fold, { ...late, token: 4 })).toBe('stale_token')
    expect(take(fold, { ...late, token: 5 })).toBeUndefined()
    expect(fold.state()).toMatchObject({ token: 5, control: {} })
    // A line of another program has no token and counts.
    expect(take(fold, event('task_started'))).toBeUndefined()
    expect(fold.unfenced).toBe(1)
  })

  it('task_started opens a run, and the first event with an outcome closes it', () => {
    const started = event('task_started', { run: { agent: 'debugger' }, changeToken: 'c1' })
    const noted = event('task_noted', { runId: started.eventId, agentTurnId: 'turn-1' })
    const ended = event('task_blocked', {
      runId: started.eventId,
      outcome: 'failed',
      reasonCode: 'spawn_failed',
      tokenUsage: 12,
      elapsedMs: 34,
      reason: 'no answer',
    })
    const again = event('task_noted', { run: { runId: started.eventId, outcome: 'success' } })
    const state = foldEvents([event('task_created'), event('task_claimed'), started, noted, ended, again])
    expect(state.tasks.get('T')).toMatchObject({
      assignee: 'debugger',
      reason: 'no answer',
      fields: { changeToken: 'c1', reasonCode: 'spawn_failed' },
      runs: [
        {
          runId: started.eventId,
          agent: 'debugger',
          agentTurnId: 'turn-1',
          startedAt: started.at,
          endedAt: ended.at,
          outcome: 'failed',
          reasonCode: 'spawn_failed',
          tokenUsage: 12,
          elapsedMs: 34,
        },
      ],
    })
    expect(Object.keys(state.tasks.get('T')!.fields)).toEqual(['changeToken', 'reasonCode'])
  })

  it('a note closes the run of a task that a person moved', () => {
    const started = event('task_started', { run: { agent: 'a' } })
    const events = [event('task_created'), event('task_claimed'), started, event('task_blocked', { reason: 'by hand' })]
    const note = event('task_noted', { run: { runId: started.eventId, outcome: 'canceled', tokenUsage: 5 } })
    const task = foldEvents([...events, note]).tasks.get('T')!
    expect(task).toMatchObject({ status: 'blocked', reason: 'by hand' })
    expect(task.runs).toMatchObject([{ outcome: 'canceled', tokenUsage: 5, endedAt: note.at }])
  })

  it('the number of runs and fields of a task is bounded', () => {
    const events = [event('task_created'), event('task_claimed')]
    for (let at = 0; at < runsMax + 10; at += 1)
      events.push(event('task_started', { run: { agent: `a${at}` } }), event('task_blocked'), event('task_claimed'))
    for (let at = 0; at < fieldsMax * 2; at += 1) events.push(event('task_noted', { [`f${at}`]: at }))
    const task = foldEvents(events).tasks.get('T')!
    expect(task.runs).toHaveLength(runsMax)
    expect(task.runs.at(-1)!.agent).toBe(`a${runsMax + 9}`)
    expect(Object.keys(task.fields)).toHaveLength(fieldsMax)
  })

  it('the fold reads lines of the reference: owners, reasons, and a second claim that starts the work', () => {
    const events = [
      event('task_created', { title: 'fix', assigneeHint: 'coder' }),
      event('task_claimed', { from: 'pending', to: 'claimed', owner: 'ann' }),
      event('task_claimed', { from: 'claimed', to: 'in_progress', owner: 'bob' }),
      event('task_blocked', { from: 'in_progress', to: 'blocked', reason: 'no key' }),
      event('task_blocked', { from: 'blocked', to: 'blocked', reason: 'no door' }),
    ]
    expect(foldEvents(events).tasks.get('T')).toMatchObject({
      title: 'fix',
      status: 'blocked',
      assignee: 'bob',
      reason: 'no door',
      fields: { assigneeHint: 'coder' },
    })
    expect(foldEvents([...events, event('task_claimed', {}, { actor: 'eve' })]).tasks.get('T')).toMatchObject({
      status: 'claimed',
      assignee: 'eve',
      reason: null,
    })
  })

  it('the fold ignores values of the wrong type and prototype keys', () => {
    const hostile = JSON.parse(
      '{"title":5,"priority":1e999,"impact":"3","dependencies":["a",5,null],"__proto__":{"polluted":true},"constructor":"c"}',
    ) as Record<string, unknown>
    const task = foldEvents([event('task_created', hostile)]).tasks.get('T')!
    expect(task).toMatchObject({ title: '', priority: 0, impact: 3, dependencies: ['a'], fields: { constructor: 'c' } })
    expect('polluted' in task.fields).toBe(false)
    const control = foldEvents([event('board_control', hostile)]).control
    expect('polluted' in control).toBe(false)
  })

  it('a returned state never changes', () => {
    const fold = new Fold()
    take(fold, event('task_created', { a: 1 }))
    const before = fold.state()
    const copy = structuredClone(before)
    take(fold, event('task_claimed', { a: 2 }))
    take(fold, event('task_started', { run: { agent: 'x' }, b: 1 }))
    take(fold, event('task_created', {}, { taskId: 'other' }))
    expect(before).toEqual(copy)
    expect(fold.state().tasks.get('T')).toMatchObject({ status: 'in_progress', fields: { a: 2, b: 1 } })
    expect(fold.state().tasks.size).toBe(2)
  })

  it('[H3.1] the same events give the same state, however often it is read in between', () => {
    const one = fc.record({
      type: fc.constantFrom(...eventTypes),
      taskId: fc.constantFrom('a', 'b', 'c', 'ü'),
      eventId: fc.string({ minLength: 1, maxLength: 2 }),
      payload: fc.dictionary(fc.constantFrom('title', 'x', 'y', 'owner', 'reason'), fc.jsonValue({ maxDepth: 1 })),
      token: fc.option(fc.nat(5), { nil: undefined }),
      look: fc.boolean(),
    })
    fc.assert(
      fc.property(fc.array(one, { maxLength: 60 }), (steps) => {
        const [asked, straight] = [new Fold(), new Fold()]
        for (const { look, ...step } of steps) {
          const line = { messageType: '', actor: 'x', at: '2026-01-01T00:00:00Z', ...step }
          expect(take(asked, line)).toBe(take(straight, line))
          if (look) asked.state()
        }
        expect(asked.state()).toEqual(straight.state())
      }),
      { numRuns: 300 },
    )
  })
})

describe('dependency cycles', () => {
  const tasks = (wants: Record<string, string[]>) =>
    foldEvents(
      Object.entries(wants).map(([taskId, dependencies]) => event('task_created', { dependencies }, { taskId })),
    ).tasks.values()

  it('each dependency cycle is found once, and a long chain is not a cycle', () => {
    expect(dependencyCycles(tasks({ a: ['b'], b: ['c', 'x'], c: ['a'], d: ['a'], e: ['e'], f: [] }))).toEqual([
      ['a', 'b', 'c'],
      ['e'],
    ])
    const chain = Object.fromEntries(Array.from({ length: 20_000 }, (_, at) => [`t${at}`, [`t${at + 1}`]]))
    expect(dependencyCycles(tasks(chain))).toEqual([])
  })
})

/** The rules one by one, then their properties over any sequence of rows. */
import { messageSources, type MessageSource } from '@bellwether/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  decide,
  missingIsDeleted,
  type Context,
  type Known,
  type RowEvent,
  type Take,
  type Tombstone,
} from './arbiter.js'
import { authority } from './authority.js'

const looks = messageSources.filter((from) => from !== 'realtime')

const row = (from: MessageSource, more: Partial<RowEvent> = {}): RowEvent => ({
  from,
  isDirectory: false,
  size: 10,
  modifiedTime: 100,
  atomic: true,
  parentMtime: undefined,
  agent: 'a',
  seenAt: 5_000,
  ...more,
})

const context = (more: Partial<Context> = {}): Context => ({
  known: undefined,
  tombstone: undefined,
  parent: undefined,
  watermark: 1_000_000,
  hotSeconds: 60,
  lookBeganAt: undefined,
  look: 'routine',
  ...more,
})

const known = (more: Partial<Known> = {}): Known => ({
  isDirectory: false,
  size: 10,
  modifiedTime: 100,
  lastUpdatedAt: 1_000,
  agent: 'a',
  placeholder: false,
  ...more,
})

const tombstone = (more: Partial<Tombstone> = {}): Tombstone => ({
  logical: 200,
  physicalAt: 2_000,
  seenAt: 2_000,
  agent: 'a',
  ...more,
})

const taken = (from: MessageSource, more: Partial<RowEvent> = {}, given: Partial<Context> = {}): Take => {
  const decision = decide(row(from, more), context(given))
  if (!decision.take) throw new Error(`kept: ${decision.reason}`)
  return decision
}
const why = (from: MessageSource, more: Partial<RowEvent> = {}, given: Partial<Context> = {}) => {
  const decision = decide(row(from, more), context(given))
  return decision.take ? 'taken' : decision.reason
}

describe('the permission matrix', () => {
  it('[V6.2] says of each source what it may do, and the decisions follow it', () => {
    const table = messageSources.map((from) => {
      const cold = taken(from)
      const hot = taken(from, { modifiedTime: 999_990, atomic: false })
      return [from, cold.suspect, hot.suspect, cold.blindSpot, cold.touches, cold.knownByAgent, cold.samplesClock]
    })
    expect(table).toEqual([
      ['realtime', 'clear', 'mark', 'clear', true, true, true],
      ['snapshot', 'leave', 'mark', 'leave', false, true, false],
      ['audit', 'leave', 'mark', 'mark', false, false, false],
      ['on_demand_job', 'leave', 'mark', 'mark', false, false, false],
    ])
  })

  it('[V6.2] lets realtime make a suspect by a partial write only, however hot the file is', () => {
    expect(taken('realtime', { modifiedTime: 999_999, atomic: true }).suspect).toBe('clear')
    expect(taken('realtime', { modifiedTime: 100, atomic: false }).suspect).toBe('mark')
  })

  it('[V6.2] lets every source reincarnate a file that is newer than its tombstone', () => {
    for (const from of messageSources)
      expect(taken(from, { modifiedTime: 201 }, { tombstone: tombstone() }).reincarnates).toBe(true)
  })
})

describe('tombstones', () => {
  it('[V6.3] stop looks whose file is not newer than the deletion', () => {
    for (const from of looks)
      for (const modifiedTime of [1, 199, 200])
        expect(why(from, { modifiedTime }, { tombstone: tombstone() })).toBe('tombstone')
  })

  it('[V6.3] let a realtime row of the deleting sensor through, also with an old mtime: it came after', () => {
    expect(why('realtime', { modifiedTime: 1 }, { tombstone: tombstone() })).toBe('taken')
  })

  it('[V6.3] stop realtime news of another sensor that was seen before the deletion, and no other', () => {
    const others = { tombstone: tombstone({ agent: 'b' }) }
    expect(why('realtime', { modifiedTime: 1, seenAt: 1_999 }, others)).toBe('tombstone')
    expect(why('realtime', { modifiedTime: 1, seenAt: 2_001 }, others)).toBe('taken')
  })

  it('[V6.3] yield to a scan that the view asked for to settle it, if it began after the deletion', () => {
    const given = { tombstone: tombstone(), look: 'settling' } as const
    expect(why('on_demand_job', { modifiedTime: 1 }, { ...given, lookBeganAt: 2_001 })).toBe('taken')
    expect(why('on_demand_job', { modifiedTime: 1 }, { ...given, lookBeganAt: 1_999 })).toBe('tombstone')
    expect(why('on_demand_job', { modifiedTime: 1 }, { ...given, look: 'asked', lookBeganAt: 2_001 })).toBe('tombstone')
  })
})

describe('rows of audits', () => {
  it('[V6.6] lose against memory with the same or a newer mtime', () => {
    expect(why('audit', { modifiedTime: 99 }, { known: known() })).toBe('memory_newer')
    expect(why('audit', { modifiedTime: 100 }, { known: known() })).toBe('same')
    expect(why('audit', { modifiedTime: 100, size: 11 }, { known: known() })).toBe('memory_newer')
    expect(why('audit', { modifiedTime: 101 }, { known: known() })).toBe('taken')
  })

  it('[V6.6] also when memory was learned before the audit: then the disagreement is noted, and a scan settles it', () => {
    const decision = decide(row('audit', { modifiedTime: 50 }), context({ known: known(), lookBeganAt: 1_001 }))
    expect(decision).toEqual({ take: false, reason: 'memory_newer', disputed: 'path' })
    const during = decide(row('audit', { modifiedTime: 50 }), context({ known: known(), lookBeganAt: 999 }))
    expect(during).toEqual({ take: false, reason: 'memory_newer', disputed: 'no' })
    const settling = { known: known(), lookBeganAt: 1_001, look: 'settling' } as const
    expect(why('on_demand_job', { modifiedTime: 50 }, settling)).toBe('taken')
  })

  it('[V6.6] of an unknown file are dropped when memory knows its directory newer', () => {
    const parent = { modifiedTime: 500, lastUpdatedAt: 1_000 }
    expect(why('audit', { parentMtime: 499 }, { parent })).toBe('parent_newer')
    expect(why('audit', { parentMtime: 500 }, { parent })).toBe('taken')
    expect(why('audit', { parentMtime: 499, modifiedTime: 101 }, { parent, known: known() })).toBe('taken')
    expect(why('snapshot', { parentMtime: 499 }, { parent })).toBe('taken')
  })

  it('[V6.6] an item that was not seen is deleted, unless it is tombstoned or was updated after the audit began', () => {
    expect(missingIsDeleted({ lastUpdatedAt: 0, tombstoned: false, auditBeganAt: 10 })).toBe(true)
    expect(missingIsDeleted({ lastUpdatedAt: 9, tombstoned: false, auditBeganAt: 10 })).toBe(true)
    expect(missingIsDeleted({ lastUpdatedAt: 11, tombstoned: false, auditBeganAt: 10 })).toBe(false)
    expect(missingIsDeleted({ lastUpdatedAt: 0, tombstoned: true, auditBeganAt: 10 })).toBe(false)
  })
})

describe('suspects', () => {
  it('[V6.4] are files younger than the threshold, for as long as they stay so, and at least a second', () => {
    const seconds = (modifiedTime: number) => taken('audit', { modifiedTime }).suspectSeconds
    expect(taken('audit', { modifiedTime: 1_000_000 - 60 }).suspect).toBe('leave')
    expect(seconds(1_000_000 - 59.5)).toBe(1)
    expect(seconds(1_000_000 - 20)).toBe(40)
    expect(seconds(1_000_000)).toBe(60)
    expect(seconds(1_000_000 + 3_600)).toBe(60)
  })

  it('[V6.4] are never directories', () => {
    expect(taken('snapshot', { isDirectory: true, modifiedTime: 1_000_000 }).suspect).toBe('leave')
  })
})

/** A file in memory, as the rules alone see it. */
interface State {
  readonly known: Known | undefined
  readonly tombstone: Tombstone | undefined
  readonly suspect: boolean
}

type Step = { readonly row: RowEvent } | { readonly delete: Tombstone }

function run(steps: readonly Step[], from: State = { known: undefined, tombstone: undefined, suspect: false }): State {
  let state = from
  for (const step of steps) {
    if ('delete' in step) {
      state = { known: undefined, tombstone: step.delete, suspect: false }
      continue
    }
    const decision = decide(step.row, context({ known: state.known, tombstone: state.tombstone }))
    if (!decision.take) continue
    const { isDirectory, size, modifiedTime, agent, seenAt } = step.row
    state = {
      known: {
        isDirectory,
        size,
        modifiedTime,
        agent,
        placeholder: false,
        lastUpdatedAt: decision.touches
          ? Math.max(seenAt, state.known?.lastUpdatedAt ?? 0)
          : (state.known?.lastUpdatedAt ?? 0),
      },
      tombstone: undefined,
      suspect: decision.suspect === 'mark' || (decision.suspect === 'leave' && state.suspect),
    }
  }
  return state
}

/** A version of a file: its size follows from its mtime, as one moment has one content. */
const version = fc.integer({ min: 1, max: 300 }).map((modifiedTime) => ({ modifiedTime, size: modifiedTime * 7 }))
const look = fc.constantFrom<MessageSource>(...looks)

const sees = ({ known: file }: State) => file && { modifiedTime: file.modifiedTime, size: file.size }

describe('whatever order rows come in', () => {
  it('[V6.6] rows of equal authority end in the same file', () => {
    const rows = fc.array(version, { minLength: 1, maxLength: 8 })
    const shuffled = rows.chain((all) =>
      fc.tuple(fc.constant(all), fc.shuffledSubarray(all, { minLength: all.length, maxLength: all.length })),
    )
    fc.assert(
      fc.property(look, shuffled, (from, [one, other]) => {
        const end = (all: typeof one) => sees(run(all.map((seen) => ({ row: row(from, seen) }))))
        expect(end(one)).toEqual(end(other))
      }),
    )
  })

  it('[V6.2] realtime rows of several sensors end in what was seen last', () => {
    // What is seen later is at least as new; each from a sensor of its own, so that no order of sending helps.
    const seen = fc
      .uniqueArray(fc.integer({ min: 1, max: 1_000 }), { minLength: 1, maxLength: 8 })
      .map((times) =>
        times
          .sort((a, b) => a - b)
          .map((at) => row('realtime', { modifiedTime: at, size: at, seenAt: at, agent: `s${at}` })),
      )
    const orders = seen.chain((all) =>
      fc.tuple(fc.constant(all), fc.shuffledSubarray(all, { minLength: all.length, maxLength: all.length })),
    )
    fc.assert(
      fc.property(orders, ([inOrder, any]) => {
        expect(sees(run(any.map((one) => ({ row: one }))))).toEqual({
          modifiedTime: inOrder.at(-1)!.modifiedTime,
          size: inOrder.at(-1)!.size,
        })
      }),
    )
  })

  it('[V6.3] no sequence of looks resurrects a deleted file', () => {
    const before = fc.array(fc.tuple(fc.constantFrom(...messageSources), version), { maxLength: 6 })
    const after = fc.array(fc.tuple(look, fc.integer({ min: 0, max: 300 })), { maxLength: 12 })
    fc.assert(
      fc.property(before, after, (early, late) => {
        const state = run([
          ...early.map(([from, seen]) => ({ row: row(from, seen) })),
          { delete: tombstone({ logical: 300, agent: 'z' }) },
          ...late.map(([from, modifiedTime]) => ({ row: row(from, { modifiedTime }) })),
        ])
        expect(state.known).toBeUndefined()
      }),
    )
  })

  it('[V6.2] the same row twice is the same as once', () => {
    const any = fc.tuple(fc.constantFrom(...messageSources), version, fc.boolean())
    fc.assert(
      fc.property(fc.array(any, { maxLength: 6 }), any, (history, [from, seen, atomic]) => {
        const start = run(history.map(([of, what, whole]) => ({ row: row(of, { ...what, atomic: whole }) })))
        const once = run([{ row: row(from, { ...seen, atomic }) }], start)
        expect(run([{ row: row(from, { ...seen, atomic }) }], once)).toEqual(once)
      }),
    )
  })

  it('[V6.2] only realtime and its atomic writes ever clear a suspect', () => {
    for (const from of looks) expect(authority[from].clearsSuspect).toBe('never')
    fc.assert(
      fc.property(fc.array(fc.tuple(look, version), { maxLength: 8 }), (rows) => {
        const marked = run([{ row: row('realtime', { modifiedTime: 1, atomic: false }) }])
        expect(
          run(
            rows.map(([from, seen]) => ({ row: row(from, seen) })),
            marked,
          ).suspect,
        ).toBe(true)
      }),
    )
  })
})

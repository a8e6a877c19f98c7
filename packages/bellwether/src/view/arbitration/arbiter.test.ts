/** Tests each rule alone, then properties over any sequence of rows. */
import { messageSources, type MessageSource } from '@bellwether/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  decide,
  missingIsDeleted,
  type Context,
  type KnownEntry,
  type RowEvent,
  type Take,
  type Tombstone,
} from './arbiter.js'
import { authority } from './authority.js'

const scans = messageSources.filter((origin) => origin !== 'realtime')

const row = (origin: MessageSource, more: Partial<RowEvent> = {}): RowEvent => ({
  origin,
  isDirectory: false,
  isSymlink: false,
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
  scanBeganAt: undefined,
  scanPurpose: 'routine',
  ...more,
})

const known = (more: Partial<KnownEntry> = {}): KnownEntry => ({
  isDirectory: false,
  isSymlink: false,
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

const accepted = (origin: MessageSource, more: Partial<RowEvent> = {}, settings: Partial<Context> = {}): Take => {
  const decision = decide(row(origin, more), context(settings))
  if (!decision.take) throw new Error(`kept: ${decision.reason}`)
  return decision
}
const outcome = (origin: MessageSource, more: Partial<RowEvent> = {}, settings: Partial<Context> = {}) => {
  const decision = decide(row(origin, more), context(settings))
  return decision.take ? 'accepted' : decision.reason
}

describe('the permission matrix', () => {
  it('[V6.2] applies the permission matrix to rows of each origin', () => {
    const table = messageSources.map((origin) => {
      const cold = accepted(origin)
      const hot = accepted(origin, { modifiedTime: 999_990, atomic: false })
      return [origin, cold.suspect, hot.suspect, cold.blindSpot, cold.touches, cold.knownByAgent, cold.samplesClock]
    })
    expect(table).toEqual([
      ['realtime', 'clear', 'mark', 'clear', true, true, true],
      ['snapshot', 'leave', 'mark', 'leave', false, true, false],
      ['audit', 'leave', 'mark', 'mark', false, false, false],
      ['on_demand_job', 'leave', 'mark', 'mark', false, false, false],
    ])
  })

  it('[V6.2] marks a suspect on a realtime row only after a partial write, however recent the file is', () => {
    expect(accepted('realtime', { modifiedTime: 999_999, atomic: true }).suspect).toBe('clear')
    expect(accepted('realtime', { modifiedTime: 100, atomic: false }).suspect).toBe('mark')
  })

  it('[V6.2] lets rows of every origin recreate a file that is newer than its tombstone', () => {
    for (const origin of messageSources)
      expect(accepted(origin, { modifiedTime: 201 }, { tombstone: tombstone() }).reincarnates).toBe(true)
  })
})

describe('tombstones', () => {
  it('[V6.3] a tombstone rejects scan rows whose file is not newer than the deletion', () => {
    for (const origin of scans)
      for (const modifiedTime of [1, 199, 200])
        expect(outcome(origin, { modifiedTime }, { tombstone: tombstone() })).toBe('tombstone')
  })

  it('[V6.3] a tombstone accepts a later realtime row of the deleting sensor, even with an old mtime', () => {
    expect(outcome('realtime', { modifiedTime: 1 }, { tombstone: tombstone() })).toBe('accepted')
  })

  it('[V6.3] a tombstone rejects realtime rows of another sensor only if they were seen before the deletion', () => {
    const others = { tombstone: tombstone({ agent: 'b' }) }
    expect(outcome('realtime', { modifiedTime: 1, seenAt: 1_999 }, others)).toBe('tombstone')
    expect(outcome('realtime', { modifiedTime: 1, seenAt: 2_001 }, others)).toBe('accepted')
  })

  it('[V6.3] a tombstone yields to a settling scan that began after the deletion', () => {
    const settling = { tombstone: tombstone(), scanPurpose: 'settling' } as const
    expect(outcome('on_demand_job', { modifiedTime: 1 }, { ...settling, scanBeganAt: 2_001 })).toBe('accepted')
    expect(outcome('on_demand_job', { modifiedTime: 1 }, { ...settling, scanBeganAt: 1_999 })).toBe('tombstone')
    expect(
      outcome('on_demand_job', { modifiedTime: 1 }, { ...settling, scanPurpose: 'requested', scanBeganAt: 2_001 }),
    ).toBe('tombstone')
  })
})

describe('audit rows', () => {
  it('[V6.6] audit rows lose against memory with the same or a newer mtime', () => {
    expect(outcome('audit', { modifiedTime: 99 }, { known: known() })).toBe('memory_newer')
    expect(outcome('audit', { modifiedTime: 100 }, { known: known() })).toBe('same')
    expect(outcome('audit', { modifiedTime: 100, size: 11 }, { known: known() })).toBe('memory_newer')
    expect(outcome('audit', { modifiedTime: 101 }, { known: known() })).toBe('accepted')
  })

  it('[V6.6] memory that is older than the audit but has a newer mtime becomes a dispute, which a settling scan decides', () => {
    const decision = decide(row('audit', { modifiedTime: 50 }), context({ known: known(), scanBeganAt: 1_001 }))
    expect(decision).toEqual({ take: false, reason: 'memory_newer', disputed: 'path' })
    const during = decide(row('audit', { modifiedTime: 50 }), context({ known: known(), scanBeganAt: 999 }))
    expect(during).toEqual({ take: false, reason: 'memory_newer', disputed: 'no' })
    const settling = { known: known(), scanBeganAt: 1_001, scanPurpose: 'settling' } as const
    expect(outcome('on_demand_job', { modifiedTime: 50 }, settling)).toBe('accepted')
  })

  it('[V6.6] audit rows of an unknown file are dropped if memory has a newer parent directory', () => {
    const parent = { modifiedTime: 500, lastUpdatedAt: 1_000 }
    expect(outcome('audit', { parentMtime: 499 }, { parent })).toBe('parent_newer')
    expect(outcome('audit', { parentMtime: 500 }, { parent })).toBe('accepted')
    expect(outcome('audit', { parentMtime: 499, modifiedTime: 101 }, { parent, known: known() })).toBe('accepted')
    expect(outcome('snapshot', { parentMtime: 499 }, { parent })).toBe('accepted')
  })

  it('[V6.6] an entry that the audit did not see is deleted unless it is tombstoned or was updated after the audit began', () => {
    expect(missingIsDeleted({ lastUpdatedAt: 0, tombstoned: false, auditBeganAt: 10 })).toBe(true)
    expect(missingIsDeleted({ lastUpdatedAt: 9, tombstoned: false, auditBeganAt: 10 })).toBe(true)
    expect(missingIsDeleted({ lastUpdatedAt: 11, tombstoned: false, auditBeganAt: 10 })).toBe(false)
    expect(missingIsDeleted({ lastUpdatedAt: 0, tombstoned: true, auditBeganAt: 10 })).toBe(false)
  })
})

describe('suspects', () => {
  it('[V6.4] scans mark files younger than the hot threshold as suspects until they pass it, for at least one second', () => {
    const seconds = (modifiedTime: number) => accepted('audit', { modifiedTime }).suspectSeconds
    expect(accepted('audit', { modifiedTime: 1_000_000 - 60 }).suspect).toBe('leave')
    expect(seconds(1_000_000 - 59.5)).toBe(1)
    expect(seconds(1_000_000 - 20)).toBe(40)
    expect(seconds(1_000_000)).toBe(60)
    expect(seconds(1_000_000 + 3_600)).toBe(60)
  })

  it('[V6.4] directories are never suspects', () => {
    expect(accepted('snapshot', { isDirectory: true, modifiedTime: 1_000_000 }).suspect).toBe('leave')
  })
})

/** A file in memory, as far as the rules see it. */
interface State {
  readonly known: KnownEntry | undefined
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
        isSymlink: false,
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

/** A version of a file. Its size follows from its mtime, because a file has one content at a time. */
const version = fc.integer({ min: 1, max: 300 }).map((modifiedTime) => ({ modifiedTime, size: modifiedTime * 7 }))
const scan = fc.constantFrom<MessageSource>(...scans)

const fileOf = ({ known: file }: State) => file && { modifiedTime: file.modifiedTime, size: file.size }

describe('any order of rows', () => {
  it('[V6.6] rows of the same origin give the same file in any order', () => {
    const rows = fc.array(version, { minLength: 1, maxLength: 8 })
    const shuffled = rows.chain((all) =>
      fc.tuple(fc.constant(all), fc.shuffledSubarray(all, { minLength: all.length, maxLength: all.length })),
    )
    fc.assert(
      fc.property(scan, shuffled, (origin, [one, other]) => {
        const end = (all: typeof one) => fileOf(run(all.map((seen) => ({ row: row(origin, seen) }))))
        expect(end(one)).toEqual(end(other))
      }),
    )
  })

  it('[V6.2] realtime rows of several sensors give the version seen last, in any order', () => {
    // A later version is at least as new. Each row comes from its own sensor, so the order of sending does not help.
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
        expect(fileOf(run(any.map((one) => ({ row: one }))))).toEqual({
          modifiedTime: inOrder.at(-1)!.modifiedTime,
          size: inOrder.at(-1)!.size,
        })
      }),
    )
  })

  it('[V6.3] no sequence of scan rows recreates a deleted file', () => {
    const before = fc.array(fc.tuple(fc.constantFrom(...messageSources), version), { maxLength: 6 })
    const after = fc.array(fc.tuple(scan, fc.integer({ min: 0, max: 300 })), { maxLength: 12 })
    fc.assert(
      fc.property(before, after, (early, late) => {
        const state = run([
          ...early.map(([origin, seen]) => ({ row: row(origin, seen) })),
          { delete: tombstone({ logical: 300, agent: 'z' }) },
          ...late.map(([origin, modifiedTime]) => ({ row: row(origin, { modifiedTime }) })),
        ])
        expect(state.known).toBeUndefined()
      }),
    )
  })

  it('[V6.2] applying a row twice equals applying it once', () => {
    const any = fc.tuple(fc.constantFrom(...messageSources), version, fc.boolean())
    fc.assert(
      fc.property(fc.array(any, { maxLength: 6 }), any, (history, [origin, seen, atomic]) => {
        const start = run(
          history.map(([origin, file, isAtomic]) => ({ row: row(origin, { ...file, atomic: isAtomic }) })),
        )
        const once = run([{ row: row(origin, { ...seen, atomic }) }], start)
        expect(run([{ row: row(origin, { ...seen, atomic }) }], once)).toEqual(once)
      }),
    )
  })

  it('[V6.2] only atomic realtime writes clear a suspect', () => {
    for (const origin of scans) expect(authority[origin].clearsSuspect).toBe('never')
    fc.assert(
      fc.property(fc.array(fc.tuple(scan, version), { maxLength: 8 }), (rows) => {
        const marked = run([{ row: row('realtime', { modifiedTime: 1, atomic: false }) }])
        expect(
          run(
            rows.map(([origin, seen]) => ({ row: row(origin, seen) })),
            marked,
          ).suspect,
        ).toBe(true)
      }),
    )
  })
})

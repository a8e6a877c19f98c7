import { deletedRow, fileEvent, fileRow } from '@bellwether/protocol/pipe'
import { fileEventTypes, messageSources, pipeLimits } from '@bellwether/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { checkEvent, parentPath, deletionProblem, rowProblem } from './row-checks.js'

const good = { path: '/a', size: 1, modified_time: 1.5, is_directory: false }
const notAnObject = 'a row must be an object'
const wrongSize = '"size" must be a whole number of bytes, 0 or more'
const wrongTime = '"modified_time" must be a number of seconds since 1970'
const wrongFlag =
  '"is_directory", "is_symlink", "unreadable", "audit_skipped", "scan_complete" and "is_atomic_write" must be true or false'

describe('rows', () => {
  it.each<[what: string, row: unknown]>([
    ['a file', good],
    ['optional fields', { ...good, created_time: null, parent_path: '/', parent_mtime: 2, is_atomic_write: true }],
    ['a directory without a size', { path: '/d', modified_time: 1, is_directory: true }],
  ])('[V6.1] accepts a well-formed row: %s', (_what, row) => {
    expect(rowProblem(row)).toBeUndefined()
  })

  it.each<[row: unknown, problem: string]>([
    [null, notAnObject],
    [[], notAnObject],
    ['x', notAnObject],
    [{ ...good, path: 1 }, '"path" must be a string'],
    [{ ...good, size: -1 }, wrongSize],
    [{ ...good, size: 1.5 }, wrongSize],
    [{ ...good, size: '1' }, wrongSize],
    [{ ...good, size: undefined }, 'a file needs "size"'],
    [{ ...good, modified_time: undefined }, wrongTime],
    [{ ...good, modified_time: '1' }, wrongTime],
    [{ ...good, modified_time: Number.NaN }, wrongTime],
    [{ ...good, modified_time: 1_700_000_000_000_000_000 }, wrongTime],
    [{ ...good, is_directory: 'no' }, wrongFlag],
    [{ ...good, is_atomic_write: 1 }, wrongFlag],
    [{ ...good, parent_mtime: 'x' }, '"parent_mtime" must be a number of seconds since 1970'],
    [{ ...good, parent_path: 1 }, '"parent_path" must be a string'],
    [{ ...good, created_time: {} }, '"created_time" must be a number of seconds since 1970'],
  ])('[V6.1] rejects %j: %s', (row, problem) => {
    expect(rowProblem(row)).toBe(problem)
  })

  it('[V6.1] requires only a path of a deletion', () => {
    expect(deletionProblem({ path: '/a' })).toBeUndefined()
    expect(deletionProblem({})).toBe('"path" must be a string')
    expect(deletionProblem(null)).toBe(notAnObject)
  })

  it('[V6.1] accepts or rejects values of any shape and never throws', () => {
    fc.assert(
      fc.property(fc.anything(), (value) => {
        const results = [rowProblem(value), deletionProblem(value), checkEvent(value)]
        expect(results.every((one) => one === undefined || typeof one === 'string' || Array.isArray(one.rows))).toBe(
          true,
        )
      }),
    )
  })
})

describe('the schemas of the contract', () => {
  const max = pipeLimits.fileTimeMax
  const value = fc.oneof(
    fc.constantFrom<unknown>(
      undefined,
      null,
      true,
      false,
      0,
      -0,
      1,
      -1,
      1.5,
      max,
      -max,
      max + 1,
      -max - 1,
      2 ** 53,
      'a',
      '',
    ),
    fc.double(),
    fc.anything(),
  )
  /** Rows that are valid except for some fields, so that each field decides alone often enough. */
  const row = fc.oneof(
    fc.record({
      path: fc.oneof(fc.constant('/a'), value),
      size: fc.oneof(fc.nat(), value),
      modified_time: fc.oneof(fc.constant(1.5), value),
      is_directory: fc.oneof(fc.boolean(), value),
    }),
    fc
      .dictionary(fc.constantFrom(...Object.keys(fileRow.shape)), value)
      .map((fields) => ({ path: '/a', size: 1, modified_time: 1, ...fields })),
    value,
  )
  const event = fc.oneof(
    fc.record(
      {
        event_type: fc.oneof(fc.constantFrom(...fileEventTypes, 'INSERT', 'Update'), value),
        event_schema: fc.oneof(fc.constant('fs'), value),
        message_source: fc.oneof(fc.constantFrom(...messageSources), value),
        rows: fc.oneof(fc.array(fc.anything(), { maxLength: 2 }), value),
        index: value,
        table: value,
      },
      { requiredKeys: ['event_type', 'rows'] },
    ),
    value,
  )
  const runs = { numRuns: 2_000 }

  it('[V6.1] accept exactly the rows that the hand-written checks accept', () => {
    let accepted = 0
    fc.assert(
      fc.property(row, (one) => {
        const valid = rowProblem(one) === undefined
        accepted += Number(valid)
        expect([valid, deletionProblem(one) === undefined]).toEqual([
          fileRow.safeParse(one).success,
          deletedRow.safeParse(one).success,
        ])
      }),
      runs,
    )
    expect(accepted).toBeGreaterThan(20)
  })

  it('[V6.1] accept and read exactly the events that the hand-written check accepts', () => {
    // The rows of an event are checked one by one, so that a malformed row is rejected alone.
    const envelope = fileEvent.extend({ rows: z.array(z.unknown()) })
    let accepted = 0
    fc.assert(
      fc.property(event, (one) => {
        const checked = checkEvent(one)
        const { data } = envelope.safeParse(one)
        accepted += Number(data !== undefined)
        const read = data && {
          type: data.event_type,
          origin: data.message_source ?? 'realtime',
          index: data.index,
          rows: data.rows,
        }
        expect(typeof checked === 'string' ? undefined : checked).toEqual(read)
      }),
      runs,
    )
    expect(accepted).toBeGreaterThan(20)
  })
})

describe('events', () => {
  it('[V6.2] reads the type and message source of an event, upper-case types included', () => {
    expect(checkEvent({ event_type: 'UPDATE', rows: [], message_source: 'audit', index: 5 })).toEqual({
      type: 'update',
      origin: 'audit',
      index: 5,
      rows: [],
    })
    expect(checkEvent({ event_type: 'insert', rows: [], index: 'x' })).toMatchObject({
      origin: 'realtime',
      index: undefined,
    })
  })

  it.each<[event: unknown, problem: string]>([
    [7, 'an event must be an object'],
    [{}, '"event_type" must be insert, update or delete'],
    [{ event_type: 'move', rows: [] }, '"event_type" must be insert, update or delete'],
    [{ event_type: 'insert', event_schema: 'sql', rows: [] }, '"event_schema" must be fs'],
    [{ event_type: 'insert' }, '"rows" must be a list'],
    [
      { event_type: 'insert', rows: [], message_source: 'gossip' },
      '"message_source" must be realtime, snapshot, audit or on_demand_job',
    ],
  ])('[V6.2] rejects the event %j: %s', (event, problem) => {
    expect(checkEvent(event)).toBe(problem)
  })

  it('finds the parent directory of a path', () => {
    expect(['/a/b', '/a', '/'].map(parentPath)).toEqual(['/a', '/', '/'])
  })
})

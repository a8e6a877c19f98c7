/** Tests that tree and marks stay consistent, whatever sensors report: also if an entry changes between file and directory. */
import fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import type { FileRow, MessageSource } from '@bellwether/protocol'
import { uuidv7 } from '../../src/ports/ids.js'
import { sentinelSaw } from '../../src/http/routes/pipe.js'
import { openFusion } from '../../src/view/fusion.js'
import { Tree } from '../../src/view/tree/tree.js'
import { handClock } from '../support/hand-clock.js'
import { quietLog } from '../support/quiet-log.js'
import { sourceProblems } from './invariants.js'
import { directory, file, openViewServer, settings, type ViewServer } from './pipe-client.js'

describe('a suspect that becomes a directory', () => {
  let server: ViewServer
  afterEach(() => server.close())

  it('[V6.4] keeps no mark, and a late sentinel report about the file changes nothing', async () => {
    server = await openViewServer()
    const sensor = await server.connect('host')
    await sensor.snapshot(directory('/d'))
    const partial = (path: string) => file(path, undefined, { is_atomic_write: false })
    await sensor.realtime(partial('/x'))
    await sensor.realtime(...Array.from({ length: 12 }, (_, at) => file(`/d/${at}`)))
    await sensor.realtime(...Array.from({ length: 5 }, (_, at) => partial(`/x/y${at}`)))
    await sensor.request('POST', '/pipe/consistency/sentinel/feedback', {
      type: 'suspect_update',
      session_id: sensor.id,
      updates: [{ path: '/x', mtime: 5, status: 'exists' }],
    })
    const { state } = server.fusion.view('v').sources.get('default')!.pipe
    expect(sourceProblems(state)).toEqual([])
    const listed = (await server.get('/views/v/suspect-list')).body.suspects?.map(({ path }) => path)
    expect(listed?.toSorted()).toEqual(['/x/y0', '/x/y1', '/x/y2', '/x/y3', '/x/y4'])
    expect((await server.get('/views/v/tree?path=/x')).body).toMatchObject({ content_type: 'directory' })
  })
})

describe('a tree', () => {
  it('fails with an error for an entry that was removed, instead of following its free list', () => {
    const tree = new Tree({ id: 'a' })
    const nodes = Array.from({ length: 5 }, (_, at) =>
      tree.put(`/d/${at}`, { isDirectory: false, size: 1, modifiedTime: 1 }),
    )
    tree.remove(tree.find('/d'))
    for (const node of nodes) {
      expect(() => tree.pathOf(node)).toThrow('broken')
      expect(() => tree.isWithin(node, node + 1_000)).toThrow('broken')
    }
  })
})

const paths = ['/a', '/b', '/a/x', '/a/y', '/a/x/p', '/a/x/q', '/b/x', '/b/x/p', '/c'] as const
const path = fc.constantFrom(...paths)
const row = fc.record({
  path,
  is_directory: fc.boolean(),
  is_symlink: fc.boolean(),
  unreadable: fc.oneof({ weight: 5, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
  size: fc.integer({ min: 0, max: 3 }),
  modified_time: fc.integer({ min: 1, max: 6 }),
  is_atomic_write: fc.boolean(),
})
const origin = fc.constantFrom<MessageSource>('realtime', 'snapshot', 'audit', 'on_demand_job')
const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ do: fc.constant('rows' as const), origin, rows: fc.array(row, { maxLength: 6 }) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('delete' as const), origin, paths: fc.array(path, { maxLength: 2 }) }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('sentinel' as const),
      path,
      mtime: fc.integer({ min: 1, max: 6 }),
      status: fc.constantFrom('exists', 'missing'),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('audit' as const),
      complete: fc.boolean(),
      rows: fc.array(row, { maxLength: 6 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('reconnect' as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.constantFrom(10, 61_000) }) },
)

describe('any sequence of reports', () => {
  it('[V6.2] [V6.4] [V6.5] leaves tree, free list, suspects and blind spots consistent after every step', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40, size: 'max' }), async (steps) => {
        const clock = handClock()
        const fusion = openFusion({
          views: { v: { ...settings, live: false, sessionTimeoutSeconds: 1e6, auditIntervalSeconds: 1e6 } },
          clock,
          ids: uuidv7(clock, { bytes: (count) => new Uint8Array(count) }),
          random: { next: () => 0, bytes: (count) => new Uint8Array(count) },
          log: quietLog,
        })
        const view = fusion.view('v')
        const connect = () =>
          view.connect({ taskId: 'one', clientInfo: {}, timeoutSeconds: undefined, clientAddress: '' })
        let session = connect()
        const send = (
          from: MessageSource,
          type: 'update' | 'delete',
          rows: readonly Partial<FileRow>[],
          metadata = {},
        ) =>
          view.ingest(session, {
            events: [{ event_type: type, event_schema: 'fs', rows, index: clock.wallMs(), message_source: from }],
            sourceType: from === 'realtime' ? 'message' : from,
            isEnd: false,
            metadata,
          })
        let audits = 0
        for (const one of steps) {
          if (one.do === 'rows') await send(one.origin, 'update', one.rows)
          else if (one.do === 'delete')
            await send(
              one.origin,
              'delete',
              one.paths.map((path) => ({ path })),
            )
          else if (one.do === 'sentinel') sentinelSaw(view, undefined, [one], clock)
          else if (one.do === 'audit') {
            const id = `audit-${(audits += 1)}`
            await view.startAudit(session, id)
            await send('audit', 'update', one.rows, { audit_id: id })
            const closing = one.rows
              .filter(({ is_directory: is }) => is)
              .map((each) => ({ ...each, scan_complete: true }))
            await send('audit', 'update', closing, { audit_id: id })
            await view.endAudit(session, id, one.complete)
          } else if (one.do === 'reconnect') {
            view.end(session, 'disconnected')
            session = connect()
          } else {
            await clock.advance(one.ms)
            fusion.step()
          }
          session.takeCommands()
          expect(sourceProblems(view.sources.get('default')!.pipe.state)).toEqual([])
        }
      }),
      { numRuns: 150 },
    )
  })
})

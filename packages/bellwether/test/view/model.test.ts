/**
 * Tests any history of a small disk with two sensors that lose and delay events and audits that read it while it changes:
 * after a last audit and the settling scans, the view equals the disk, entry by entry.
 */
import type { FileRow, IngestMetadata, MessageSource, PipeCommand, SourceType } from '@bellwether/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { uuidv7 } from '../../src/ports/ids.js'
import { openFusion } from '../../src/view/fusion.js'
import type { Session } from '../../src/view/sessions/sessions.js'
import { handClock } from '../support/hand-clock.js'
import { quietLog } from '../support/quiet-log.js'
import { sourceProblems } from './invariants.js'
import { settings } from './pipe-client.js'

interface Entry {
  readonly isDirectory: boolean
  readonly size: number
  readonly mtime: number
}

const parent = (path: string) => path.slice(0, path.lastIndexOf('/')) || '/'
const below = (path: string, other: string) => other.startsWith(path === '/' ? '/' : `${path}/`)

/** A disk where creating and removing an entry changes the mtime of its directory. */
class Disk {
  readonly entries = new Map<string, Entry>([['/', { isDirectory: true, size: 0, mtime: 1 }]])

  constructor(private readonly now: () => number) {}

  isDirectory = (path: string) => this.entries.get(path)?.isDirectory === true

  write(path: string, size: number, mtime = this.now()): boolean {
    if (!this.isDirectory(parent(path)) || this.isDirectory(path)) return false
    if (!this.entries.has(path)) this.touch(parent(path))
    this.entries.set(path, { isDirectory: false, size, mtime })
    return true
  }

  mkdir(path: string): boolean {
    if (!this.isDirectory(parent(path)) || this.entries.has(path)) return false
    this.touch(parent(path))
    this.entries.set(path, { isDirectory: true, size: 0, mtime: this.now() })
    return true
  }

  remove(path: string): boolean {
    if (path === '/' || !this.entries.has(path)) return false
    for (const other of [...this.entries.keys()]) if (below(path, other)) this.entries.delete(other)
    this.entries.delete(path)
    this.touch(parent(path))
    return true
  }

  rename(from: string, to: string): boolean {
    if (from === '/' || to === '/' || from === to || below(from, to) || below(to, from)) return false
    if (!this.entries.has(from) || !this.isDirectory(parent(to))) return false
    this.remove(to)
    for (const [path, entry] of [...this.entries]) {
      if (path !== from && !below(from, path)) continue
      this.entries.delete(path)
      this.entries.set(to + path.slice(from.length), entry)
    }
    this.touch(parent(from))
    this.touch(parent(to))
    return true
  }

  children = (path: string) => [...this.entries.keys()].filter((other) => other !== '/' && parent(other) === path)

  row(path: string, more: Partial<FileRow> = {}): FileRow {
    const { isDirectory, size, mtime } = this.entries.get(path)!
    return { path, size, modified_time: mtime, is_directory: isDirectory, ...more }
  }

  /** The rows of a full listing of one directory. */
  read(path: string): FileRow[] {
    const own = this.row(path)
    const rows = this.children(path).map((child) =>
      this.row(child, { parent_path: path, parent_mtime: own.modified_time! }),
    )
    return [own, ...rows, { ...own, scan_complete: true }]
  }

  private touch(path: string): void {
    this.entries.set(path, { ...this.entries.get(path)!, mtime: this.now() })
  }
}

const paths = ['/a', '/b', '/a/x', '/a/y', '/b/x', '/a/d', '/a/d/x', '/b/d/x', '/b/d'] as const
const path = fc.constantFrom(...paths)
/** Which sensors see the change: none, one or both. */
const seen = fc.constantFrom<readonly number[]>([], [0], [1], [0, 1])
const step = fc.oneof(
  fc.record({ do: fc.constant('write' as const), path, size: fc.integer({ min: 0, max: 3 }), seen }),
  fc.record({
    do: fc.constant('restore' as const),
    path,
    size: fc.integer({ min: 0, max: 3 }),
    age: fc.integer({ min: 1, max: 50 }),
    seen,
  }),
  fc.record({ do: fc.constant('mkdir' as const), path, seen }),
  fc.record({ do: fc.constant('remove' as const), path, seen }),
  fc.record({ do: fc.constant('rename' as const), path, to: path, seen }),
  fc.record({ do: fc.constant('deliver' as const), sensor: fc.constantFrom(0, 1) }),
  fc.record({ do: fc.constant('audit' as const) }),
  fc.record({ do: fc.constant('wait' as const), ms: fc.integer({ min: 0, max: 90_000 }) }),
)

interface Sending {
  readonly type: 'update' | 'delete'
  readonly rows: readonly { readonly path: string }[]
  readonly index: number
}

type Line = (string | boolean | number)[]

interface Outcome {
  readonly view: readonly Line[]
  readonly disk: readonly Line[]
  readonly suspects: number
}

async function play(steps: readonly (typeof step extends fc.Arbitrary<infer S> ? S : never)[]): Promise<Outcome> {
  const clock = handClock()
  const fusion = openFusion({
    views: { v: { ...settings, sessionTimeoutSeconds: 1e6, auditIntervalSeconds: 1e6 } },
    clock,
    ids: uuidv7(clock, { bytes: (count) => new Uint8Array(count) }),
    random: { next: () => 0, bytes: (count) => new Uint8Array(count) },
    log: quietLog,
  })
  const view = fusion.view('v')
  const disk = new Disk(() => clock.wallMs() / 1_000)
  const sessions = ['one', 'two'].map((taskId) =>
    view.connect({ taskId, clientInfo: {}, timeoutSeconds: undefined, clientAddress: '' }),
  ) as [Session, Session]
  for (const session of sessions) view.heartbeat(session, true, undefined)
  const queues: [Sending[], Sending[]] = [[], []]
  const send = (
    session: Session,
    from: MessageSource,
    sending: Sending,
    sourceType: SourceType,
    isEnd: boolean,
    metadata: IngestMetadata,
  ) =>
    view.ingest(session, {
      events: [
        {
          event_type: sending.type,
          event_schema: 'fs',
          rows: sending.rows,
          index: sending.index,
          message_source: from,
        },
      ],
      sourceType,
      isEnd,
      metadata,
    })
  const report = (sensors: readonly number[], type: Sending['type'], rows: Sending['rows']) => {
    for (const sensor of sensors) queues[sensor as 0 | 1].push({ type, rows, index: clock.wallMs() })
  }
  const tellTree = (sensors: readonly number[], top: string) => {
    const rows = [...disk.entries.keys()].filter((one) => one === top || below(top, one)).toSorted()
    report(
      sensors,
      'update',
      rows.map((one) => disk.row(one)),
    )
  }
  const deliver = async (sensor: number) => {
    for (const sending of queues[sensor as 0 | 1].splice(0))
      await send(sessions[sensor]!, 'realtime', sending, 'message', false, {})
  }
  const looked = (rows: readonly FileRow[]): Sending => ({ type: 'update', rows, index: clock.wallMs() })

  // One audit at a time, directory by directory, while the disk changes.
  let audit: { readonly id: string; open: string[] } | undefined
  let audits = 0
  const stepAudit = async () => {
    if (audit === undefined) {
      audits += 1
      audit = { id: `audit-${audits}`, open: ['/'] }
      await view.startAudit(sessions[0], audit.id)
      return
    }
    const next = audit.open.shift()
    const metadata = { audit_id: audit.id }
    if (next === undefined) {
      await send(sessions[0], 'audit', looked([]), 'audit', true, { ...metadata, complete: true })
      audit = undefined
    } else if (disk.isDirectory(next)) {
      audit.open.push(...disk.children(next).filter(disk.isDirectory))
      await send(sessions[0], 'audit', looked(disk.read(next)), 'audit', false, metadata)
    }
  }
  const wholeAudit = async () => {
    do await stepAudit()
    while (audit !== undefined)
  }
  const answer = async (commands: readonly PipeCommand[]) => {
    for (const command of commands) {
      if (command.type !== 'scan') continue
      const metadata = { job_id: command.job_id }
      const there = disk.entries.has(command.path)
      const tops = command.recursive ? [...disk.entries.keys()].filter(disk.isDirectory).toSorted() : [command.path]
      if (!there)
        await send(
          sessions[0],
          'on_demand_job',
          { type: 'delete', rows: [{ path: command.path }], index: 1 },
          'on_demand_job',
          false,
          metadata,
        )
      else
        for (const top of tops)
          await send(
            sessions[0],
            'on_demand_job',
            looked(disk.isDirectory(top) ? disk.read(top) : [disk.row(top)]),
            'on_demand_job',
            false,
            metadata,
          )
      await send(sessions[0], 'on_demand_job', looked([]), 'job_complete', false, metadata)
    }
  }

  await send(sessions[0], 'snapshot', looked([]), 'snapshot', true, {})
  for (const one of steps) {
    await clock.advance(7)
    fusion.step()
    if (one.do === 'deliver') await deliver(one.sensor)
    else if (one.do === 'audit') await stepAudit()
    else if (one.do === 'wait') await clock.advance(one.ms)
    else if (one.do === 'remove') {
      if (disk.remove(one.path)) report(one.seen, 'delete', [{ path: one.path }])
    } else if (one.do === 'rename') {
      if (!disk.rename(one.path, one.to)) continue
      report(one.seen, 'delete', [{ path: one.path }, { path: one.to }])
      tellTree(one.seen, one.to)
    } else {
      const wrote =
        one.do === 'mkdir'
          ? disk.mkdir(one.path)
          : disk.write(one.path, one.size, one.do === 'restore' ? clock.wallMs() / 1_000 - one.age * 1_000 : undefined)
      if (wrote) report(one.seen, 'update', [disk.row(one.path), disk.row(parent(one.path))])
    }
    const problems = sourceProblems(view.sources.get('default')!.pipe.state)
    if (problems.length > 0) throw new Error(problems.join('; '))
  }

  // Delivers all delayed events, runs one complete audit, then the settling scans.
  await clock.advance(10)
  await deliver(0)
  await deliver(1)
  if (audit !== undefined) await wholeAudit()
  await answer(sessions.flatMap((session) => session.takeCommands()))
  await clock.advance(10)
  await wholeAudit()
  await answer(sessions.flatMap((session) => session.takeCommands()))

  const source = view.sources.get('default')!
  const viewed = [...source.tree.walk(0)].map((node) => [
    source.tree.pathOf(node),
    source.tree.isDirectory(node),
    source.tree.size(node),
    source.tree.modifiedTime(node),
  ])
  const is = [...disk.entries]
    .filter(([one]) => one !== '/')
    .map(([one, entry]) => [one, entry.isDirectory, entry.size, entry.mtime])
  const inOrder = (all: Line[]) => all.toSorted((a, b) => (String(a[0]) < String(b[0]) ? -1 : 1))
  // Suspects expire, and they are exactly the marked files.
  for (let i = 0; i < 4; i += 1) {
    await clock.advance(61_000)
    fusion.step()
  }
  return { view: inOrder(viewed), disk: inOrder(is), suspects: source.pipe.state.suspects.size }
}

describe('after a last audit', () => {
  it('[V6.6] [V6.3] [V6.4] the view equals the disk after any history', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        const { view, disk, suspects } = await play(steps)
        expect(view).toEqual(disk)
        expect(suspects).toBe(0)
      }),
      { numRuns: 150 },
    )
  })
})

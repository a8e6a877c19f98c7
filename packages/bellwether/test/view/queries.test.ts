/** Tests queries: trees, searches, statistics, several sources, changes and streams. */
import { defined } from '@bellwether/base'
import { request } from 'node:http'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { viewEvidence } from '../../src/view/queries/file-evidence.js'
import { directory, file, keyOf, old, openViewServer, scanned, type ViewServer, type Sensor } from './pipe-client.js'

let server: ViewServer
let sensor: Sensor
beforeEach(async () => {
  server = await openViewServer({ v: {}, small: { entryMax: 3 } })
  sensor = await server.connect('host')
})
afterEach(() => server.close())

const names = (children: readonly { readonly [field: string]: unknown }[] | undefined) =>
  children?.map(({ name }) => name)

describe('trees', () => {
  it('[V6.8] a view is not readable before its first snapshot is complete', async () => {
    const paths = ['tree', 'search?pattern=a', 'stats', 'blind-spots', 'suspect-list', 'changes']
    await sensor.send('snapshot', [file('/a')])
    for (const path of paths) {
      const answer = await server.get(`/views/v/${path}`)
      expect([path, answer.status, answer.body['code'], answer.headers['retry-after']]).toEqual([
        path,
        503,
        'view_not_ready',
        '1',
      ])
    }
    await sensor.snapshot()
    for (const path of paths) expect((await server.get(`/views/v/${path}`)).status).toBe(200)
  })

  it('[V6.8] rejects unknown and invalid query parameters by name', async () => {
    await sensor.snapshot(file('/a'))
    for (const [query, name] of [
      ['tree?recursive=maybe', 'recursive'],
      ['tree?max_depth=-1', 'max_depth'],
      ['tree?depth=1', 'depth'],
      ['stats?paths=/a', 'paths'],
      ['changes?limit=0', 'limit'],
      ['suspect-list?x=1', 'x'],
    ] as const) {
      const answer = await server.get(`/views/v/${query}`)
      expect([query, answer.status]).toEqual([query, 400])
      expect(answer.text).toContain(name)
    }
    for (const query of ['tree?recursive=no', 'tree?recursive', 'tree?only_path=0'])
      expect((await server.get(`/views/v/${query}`)).status).toBe(200)
  })

  it('[V6.8] returns entries with all fields, to the requested depth', async () => {
    await sensor.snapshot(
      directory('/a'),
      directory('/a/b'),
      file('/a/b/c', old + 0.5, { size: 7, created_time: old }),
      file('/z'),
    )
    const { body } = await server.get('/views/v/tree')
    expect(names(body.children)).toEqual(['a', 'z'])
    expect(body.children?.[0]?.children?.[0]?.children?.[0]).toEqual({
      name: 'c',
      content_type: 'file',
      path: '/a/b/c',
      size: 7,
      modified_time: old + 0.5,
      created_time: old,
      integrity_suspect: false,
      last_agent_id: 'host',
      source_uri: '/mnt/host',
      agent_missing: false,
    })
    expect(body).toMatchObject({ job_id: null, job_pending: false })
    const flat = (await server.get('/views/v/tree?recursive=false')).body
    expect([names(flat.children), flat.children?.[0]?.children]).toEqual([['a', 'z'], undefined])
    const deep = (await server.get('/views/v/tree?path=/a&max_depth=1')).body
    expect([names(deep.children), deep.children?.[0]?.children]).toEqual([['b'], undefined])
    expect((await server.get('/views/v/tree?path=/z&only_path=true')).body).toMatchObject({
      path: '/z',
      content_type: 'file',
    })
    const some = (await server.get('/views/v/tree?path=/z&fields=name,size')).body
    expect(Object.keys(some).toSorted()).toEqual(
      ['content_type', 'job_id', 'job_pending', 'name', 'path', 'size', 'source_id'].toSorted(),
    )
    expect((await server.get('/views/v/tree?fields=name,sise')).body).toMatchObject({ status: 400 })
    expect((await server.get('/views/v/tree?path=/nobody')).body).toMatchObject({ status: 404, code: 'unknown_path' })
  })

  it('[V6.1] [V6.2] shows a symbolic link as one in tree, search and changes, and a change between link and file as a change', async () => {
    const link = (more: object = {}) => file('/d/link', old, { is_symlink: true, ...more })
    await sensor.snapshot(directory('/d'), file('/d/file'), link())
    const kinds = async () =>
      (await server.get('/views/v/tree?path=/d')).body.children?.map((one) => one['content_type'])
    expect(await kinds()).toEqual(['file', 'symlink'])
    expect((await server.get('/views/v/tree?path=/d/link&only_path=1')).body['content_type']).toBe('symlink')
    expect((await server.get('/views/v/search?pattern=link')).body.results?.[0]?.['content_type']).toBe('symlink')
    const { token } = (await server.get('/views/v/changes')).body
    // The same size and mtime: only the kind differs, and the scan that was requested later decides.
    const { body } = await server.get('/views/v/tree?path=/d/link&force-real-time=1')
    await sensor.send('on_demand_job', [link({ is_symlink: false })], { metadata: { job_id: body.job_id } })
    expect(await kinds()).toEqual(['file', 'file'])
    await sensor.realtime(link({ modified_time: Date.now() / 1_000, is_atomic_write: false }))
    const { changes } = (await server.get(`/views/v/changes?since=${token}`)).body
    expect(changes?.at(-1)).toMatchObject({ path: '/d/link', kind: 'put', is_directory: false, is_symlink: true })
    // A link is written in one step, so it is never incomplete.
    expect((await server.get('/views/v/suspect-list')).body['count']).toBe(0)
    await sensor.deleted('/d/link')
    const last = (await server.get(`/views/v/changes?since=${token}`)).body.changes?.at(-1)
    expect(last).toMatchObject({ kind: 'removed', is_symlink: true })
  })

  it('[V6.6] marks a directory that a scan could not read, keeps its entries, and clears the mark after a complete listing', async () => {
    await sensor.snapshot(directory('/locked'), file('/locked/inside'), directory('/open'))
    const locked = async () => (await server.get('/views/v/tree?path=/locked')).body
    expect(await locked()).not.toHaveProperty('unreadable')
    await sensor.startAudit('one')
    await sensor.audit('one', directory('/'), directory('/locked'), directory('/open'))
    await sensor.audit('one', directory('/locked', old, { unreadable: true }), scanned('/open'), scanned('/'))
    await sensor.endAudit('one')
    expect(await locked()).toMatchObject({ unreadable: true, children: [{ path: '/locked/inside' }] })
    expect((await server.get('/views/v/tree?path=/open')).body).not.toHaveProperty('unreadable')
    await sensor.completeAudit('two', ['/', '/locked', '/open'], file('/locked/inside'))
    expect(await locked()).not.toHaveProperty('unreadable')
  })

  it('[V6.8] returns a large tree completely, even while it changes', async () => {
    const rows = Array.from({ length: 12_000 }, (_, i) => file(`/d${i % 40}/file-with-a-name-${i}`))
    await sensor.snapshot(...rows)
    const reading = server.get('/views/v/tree')
    const changing = [
      sensor.deleted('/d7', '/d8'),
      sensor.realtime(...rows.slice(0, 3_000).map((row) => ({ ...row, path: `/new${row.path}` }))),
    ]
    const { status, body } = await reading
    await Promise.all(changing)
    expect(status).toBe(200)
    expect(body.children?.length).toBeGreaterThanOrEqual(38)
    const after = (await server.get('/views/v/tree?only_path=1')).body
    expect(after.children?.flatMap(({ children }) => children).length).toBeGreaterThan(11_000)
  })

  it('[V6.1] returns names that are not UTF-8 without loss', async () => {
    await sensor.snapshot(file('/caf\udce9/\udcff.txt'), file('/café'))
    const { text } = await server.get('/views/v/tree?path=/caf%E9')
    expect(text).toContain('"path":"/caf\\udce9/\\udcff.txt"')
    expect((await server.get('/views/v/tree?path=/caf%C3%A9')).body['name']).toBe('café')
    expect((await server.get(`/views/v/search?pattern=${encodeURIComponent('*.txt')}`)).body['count']).toBe(1)
  })
})

describe('searches and numbers', () => {
  it('[V6.8] finds entries by glob and by part of a name, below a path, and reports a cut list', async () => {
    await sensor.snapshot(
      ...Array.from({ length: 50 }, (_, i) => file(`/src/${i}.ts`)),
      file('/doc/read.md'),
      file('/doc/1.ts'),
    )
    const found = async (query: string) => (await server.get(`/views/v/search?${query}`)).body
    expect((await found('pattern=*.ts'))['count']).toBe(51)
    expect((await found('pattern=*.ts&path=/doc')).results).toMatchObject([{ path: '/doc/1.ts', source_id: 'default' }])
    expect((await found('pattern=ead')).results).toMatchObject([{ name: 'read.md' }])
    expect(await found('pattern=*.ts&limit=10')).toMatchObject({ count: 10, truncated: true })
    expect((await server.get('/views/v/search')).status).toBe(400)
    expect((await server.get('/views/v/search?pattern=x&path=/nobody')).status).toBe(404)
  })

  it('[V6.8] counts entries, also below a path', async () => {
    await sensor.snapshot(
      directory('/a'),
      file('/a/1', old, { size: 5 }),
      file('/a/2', old + 9, { size: 6 }),
      file('/b'),
    )
    expect((await server.get('/views/v/stats')).body).toMatchObject({
      item_count: 4,
      total_files: 3,
      total_directories: 1,
      total_size: 21,
      latest_mtime: old + 9,
      has_blind_spot: false,
      suspect_file_count: 0,
      audit_cycle_count: 0,
      is_auditing: false,
    })
    expect((await server.get('/views/v/stats?path=/a')).body).toMatchObject({ total_files: 2, total_size: 11 })
  })

  it('[V6.8] a full view reports it, stays readable, and reports when there is space again', async () => {
    const small = await server.connect('host', { view: 'small' })
    const full = await small.snapshot(file('/1'), file('/2'), file('/3'), file('/4'))
    expect(full.body).toMatchObject({ status: 'full', rejected: 1, count: 3 })
    expect((await server.get('/views/small/stats', 'small')).body).toMatchObject({ full: true, total_files: 3 })
    expect((await small.heartbeat()).body.health).toMatchObject({
      status: 'degraded',
      troubled: { 'view:small': 'degraded' },
    })
    await small.realtime(file('/1', old + 1))
    await small.deleted('/1', '/2')
    await small.realtime(file('/5'))
    expect((await server.get('/views/small/stats', 'small')).body).toMatchObject({ full: false, total_files: 2 })
  })
})

describe('several sources', () => {
  it('[V6.9] each source has a tree and a leader, and sources can be compared', async () => {
    const west = await server.connect('w', { source: 'west' })
    const east = await server.connect('e', { source: 'east' })
    await sensor.end()
    expect([west.role, east.role]).toEqual(['leader', 'leader'])
    await west.snapshot(file('/a', old, { size: 1 }), file('/only-west', old, { size: 1 }))
    await east.snapshot(file('/a', old + 5, { size: 100 }))
    const { body } = await server.get('/views/v/stats')
    expect(body).toMatchObject({
      total_files: 3,
      sources: { west: { total_files: 2 }, east: { total_files: 1 } },
      best: { file_count: 'west', total_size: 'east', latest_mtime: 'east' },
    })
    expect((await server.get('/views/v/tree?path=/a')).body.members).toMatchObject({
      west: { size: 1 },
      east: { size: 100 },
    })
    expect((await server.get('/views/v/tree?path=/a&source=east')).body).toMatchObject({ size: 100, source_id: 'east' })
    expect((await server.get('/views/v/tree?path=/a&best=file_count')).body).toMatchObject({
      size: 1,
      source_id: 'west',
    })
    expect((await server.get('/views/v/diff?left=west&right=east')).body.differences).toEqual([
      { path: '/a', kind: 'content' },
      { path: '/only-west', kind: 'only_left' },
    ])
    expect((await server.get('/views/v/tree?source=north')).status).toBe(404)
    await west.end()
    expect((await server.get('/views/v/tree')).body).toMatchObject({ source_id: 'east' })
  })
})

describe('changes', () => {
  it('[V6.8] returns each change since a token once; a token of another run gives a fresh instance', async () => {
    await sensor.snapshot(file('/a'), file('/b'))
    const start = (await server.get('/views/v/changes')).body
    expect(start).toMatchObject({ fresh_instance: true, changes: [] })
    await sensor.realtime(file('/a', old + 1), file('/c'))
    await sensor.deleted('/b')
    const since = (token: string | undefined) => server.get(`/views/v/changes?since=${token}`)
    const next = (await since(start.token)).body
    expect(next.changes?.map(({ path, kind }) => `${kind} ${path}`)).toEqual(['put /a', 'put /c', 'removed /b'])
    expect((await since(next.token)).body).toMatchObject({ fresh_instance: false, changes: [], more: false })
    expect((await since('nonsense')).body['fresh_instance']).toBe(true)
    await sensor.end()
    sensor = await server.connect('host')
    await sensor.snapshot(file('/a'))
    expect((await since(next.token)).body['fresh_instance']).toBe(true)
  })

  it('[V6.8] streams changes as events; a client that reconnects with its last id misses none', async () => {
    await sensor.snapshot(file('/a'))
    const first = await follow()
    expect((await first.next()).event).toBe('hello')
    await sensor.realtime(file('/b'))
    await advanceUntil(first)
    const seen = await first.next()
    expect(seen).toMatchObject({ event: 'changes', data: { changes: [{ path: '/b', kind: 'put' }] } })
    first.close()
    await sensor.realtime(file('/c'))
    await sensor.deleted('/a')
    const back = await follow(seen.id)
    expect((await back.next()).data.changes.map(({ path }) => path)).toEqual(['/c', '/a'])
    back.close()
    const lost = await follow('bm9uc2Vuc2U')
    expect((await lost.next()).event).toBe('reset')
    lost.close()
  })
})

describe('evidence', () => {
  it('[V4.2] reports missing only after a finished scan, and not_ready until then', async () => {
    const view = server.fusion.view('v')
    const evidence = viewEvidence({ view, clock: server.clock, waitMs: 5_000, hash: async () => 'abc' })
    expect(await evidence.checkFiles(['/a'], null)).toEqual([{ path: '/a', found: 'not_ready' }])
    await sensor.snapshot(file('/a'), file('/old'))
    const token = await evidence.changeToken()
    await server.clock.advance(2_000)
    const waiting = sensor.heartbeat({ wait_seconds: 9 })
    const looking = evidence.checkFiles(['a', '/old', '/nobody', '../x', '/out'], token)
    const [barrier] = (await waiting).body.commands ?? []
    expect(barrier).toMatchObject({ type: 'barrier' })
    await sensor.send('realtime', [file('/a', old + 1, { size: 77 })], {
      metadata: { barriers: [barrier?.barrier_id] },
    })
    const scans = (await sensor.heartbeat({ wait_seconds: 9 })).body.commands ?? []
    expect(scans.map(({ path }) => path)).toEqual(['/a', '/old', '/nobody', '/out'])
    for (const { job_id: id, path } of scans) {
      const metadata = { job_id: id, ...(path === '/out' ? { complete: false, excluded: true } : {}) }
      if (path === '/nobody') await sensor.send('on_demand_job', [{ path }], { type: 'delete', metadata })
      else if (path !== '/out')
        await sensor.send('on_demand_job', [path === '/a' ? file('/a', old + 1, { size: 77 }) : file('/old')], {
          metadata,
        })
      await sensor.send('on_demand_job', [], { sourceType: 'job_complete', metadata })
    }
    expect(await looking).toEqual([
      { path: 'a', found: 'present', kind: 'file', size: 77, sha256: 'abc', changedSince: true },
      { path: '/old', found: 'present', kind: 'file', size: 10, sha256: 'abc', changedSince: false },
      { path: '/nobody', found: 'missing' },
      { path: '../x', found: 'missing' },
      { path: '/out', found: 'excluded' },
    ])
    const silent = evidence.checkFiles(['/a'], null)
    await server.pass(6)
    expect(await silent).toEqual([{ path: '/a', found: 'not_ready' }])
  })
})

it('[V4.2] a scan that does not find a path deletes it unless it was updated since', async () => {
  await sensor.snapshot(directory('/d'), file('/d/f'), file('/d/g'))
  const scan = (await server.get('/views/v/tree?path=/d&force-real-time=1')).body
  await sensor.commands()
  await sensor.realtime(file('/d/g', old + 1))
  const metadata = { job_id: scan.job_id }
  await sensor.send('on_demand_job', [directory('/d'), scanned('/d')], { metadata })
  await sensor.send('on_demand_job', [], { sourceType: 'job_complete', metadata })
  expect(names((await server.get('/views/v/tree?path=/d')).body.children)).toEqual(['g'])
  expect((await server.get('/views/v/blind-spots')).body['deletions']).toEqual(['/d/f'])
})

interface StreamEvent {
  readonly id: string
  readonly event: string
  readonly data: { readonly changes: readonly { readonly path: string }[] }
}

interface Following {
  next(): Promise<StreamEvent>
  readonly received: number
  close(): void
}

async function follow(lastId?: string): Promise<Following> {
  const events: StreamEvent[] = []
  let wake: (() => void) | undefined
  let rest = ''
  const pending = request(`${server.url}/api/v1/views/v/events`, {
    headers: { 'x-api-key': keyOf('v'), ...defined({ 'last-event-id': lastId }) },
  })
  pending.on('error', () => wake?.())
  pending.end()
  await new Promise<void>((resolve) => {
    pending.on('response', (response) => {
      response.on('error', () => wake?.())
      response.on('data', (piece: Buffer) => {
        rest += piece.toString()
        const parts = rest.split('\n\n')
        rest = parts.pop() ?? ''
        for (const part of parts) {
          if (part.startsWith(':')) continue
          const field = (name: string) =>
            part
              .split('\n')
              .find((line) => line.startsWith(`${name}: `))
              ?.slice(name.length + 2) ?? ''
          events.push({
            id: field('id'),
            event: field('event'),
            data: JSON.parse(field('data')) as StreamEvent['data'],
          })
        }
        wake?.()
      })
      resolve()
    })
  })
  return {
    get received() {
      return events.length
    },
    async next() {
      while (events.length === 0)
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      return events.shift()!
    },
    close: () => pending.destroy(),
  }
}

/** The stream batches changes by the manual clock: advance it until the event arrives. */
async function advanceUntil(stream: Following): Promise<void> {
  while (stream.received === 0) await server.clock.advance(30)
}

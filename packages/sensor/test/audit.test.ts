/** Tests what audits read, what they skip and how they end; and sentinels and on-demand scans. */
import { mkdirSync, renameSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { quickClock } from './support/quick-clock.js'
import { barrier, differences, openFixture, until, type Fixture } from './support/fixture.js'

describe('a directory that another host created', () => {
  let fixture: Fixture
  afterEach(() => fixture.end())

  it('[V3.1] a directory that another host created is watched when the server announces it', async () => {
    fixture = await openFixture({ role: 'follower' })
    mkdirSync(fixture.at('cold'))
    utimesSync(fixture.at('cold'), 1_000_000, 1_000_000)
    const sensor = fixture.sensor({ watchMax: 1 })
    await until('watching', () => sensor.watcher.isWatching())
    await barrier(fixture.server)
    writeFileSync(fixture.at('cold', 'before'), '1')
    await barrier(fixture.server)
    expect(fixture.server.tree.has('/cold/before')).toBe(false)
    // In a full watch set only a recent directory replaces another.
    const recent = Date.now() / 1_000 + 10
    utimesSync(fixture.at('cold'), recent, recent)
    const directories = [
      { path: '/cold', modified_time: recent + 1 },
      { path: '/absent', modified_time: recent },
    ]
    fixture.server.command({ type: 'watch', directories })
    await until('two watches', () => sensor.watcher.stats().watches === 2)
    writeFileSync(fixture.at('cold', 'after'), '22')
    await barrier(fixture.server)
    expect(fixture.server.tree.get('/cold/after')).toMatchObject({ size: 2 })
  })
})

describe('an audit', () => {
  let fixture: Fixture
  beforeEach(async () => {
    fixture = await openFixture()
    mkdirSync(fixture.at('quiet', 'below'), { recursive: true })
    mkdirSync(fixture.at('busy'))
    writeFileSync(fixture.at('quiet', 'f'), 'one')
    writeFileSync(fixture.at('quiet', 'below', 'g'), 'two')
    writeFileSync(fixture.at('busy', 'h'), 'three')
    // Old enough to be remembered; the root stays recent, which shows the time of the disk.
    for (const directory of ['quiet/below', 'quiet', 'busy']) utimesSync(fixture.at(directory), 1_000_000, 1_000_000)
  })
  afterEach(() => fixture.end())

  const audits = (count: number) => until(`${count} audits`, () => fixture.server.audits.length >= count)
  const skipped = (at: number) =>
    fixture.server.audits[at]!.rows.filter((row) => row.audit_skipped === true).map((row) => row.path)
  const reported = (at: number) => fixture.server.audits[at]!.rows.map((row) => row.path)
  async function again() {
    const before = fixture.server.audits.length
    fixture.server.command({ type: 'audit' })
    await audits(before + 1)
  }

  it('[V2.1] the first audit reads everything; later audits skip directories whose mtime has not changed', async () => {
    fixture.sensor()
    await audits(1)
    expect(skipped(0)).toEqual([])
    writeFileSync(fixture.at('busy', 'new'), 'x')
    await again()
    expect(skipped(1)).toEqual(expect.arrayContaining(['/quiet', '/quiet/below']))
    expect(skipped(1)).not.toContain('/busy')
    expect(reported(1)).toContain('/busy/new')
    expect(reported(1).filter((path) => path === '/busy')).toHaveLength(2)
    expect(differences(fixture.server, fixture.root)).toEqual([])
  })

  it('[V2.1] an audit that skips a directory still checks its recent files (hazard 23)', async () => {
    fixture.sensor({ watchMax: 1 })
    await audits(1)
    writeFileSync(fixture.at('quiet', 'below', 'g'), 'edited in place')
    await again()
    expect(skipped(1)).toContain('/quiet/below')
    expect(fixture.server.tree.get('/quiet/below/g')).toMatchObject({ size: 15 })
  })

  it('[V2.1] a host whose clock is two hours off skips no changed directory', async () => {
    for (const skewMs of [-7_200_000, 7_200_000]) {
      const skewed = await openFixture()
      try {
        mkdirSync(skewed.at('fresh'))
        writeFileSync(skewed.at('fresh', 'f'), '1')
        skewed.sensor({ clock: quickClock(1, skewMs), watchMax: 1 })
        await until('audit', () => skewed.server.audits.length === 1)
        writeFileSync(skewed.at('fresh', 'g'), '1')
        rmSync(skewed.at('fresh', 'f'))
        skewed.server.command({ type: 'audit' })
        await until('second audit', () => skewed.server.audits.length === 2)
        expect(differences(skewed.server, skewed.root)).toEqual([])
      } finally {
        await skewed.end()
      }
    }
  })

  it('[V2.2] rows arrive between the directory row and its closing marker, and the end says complete', async () => {
    fixture.sensor()
    await audits(1)
    const { rows, complete, id } = fixture.server.audits[0]!
    expect(complete).toBe(true)
    expect(fixture.server.of('POST consistency/audit/start')[0]!.body).toEqual({ session_id: 's1', audit_id: id })
    const at = (path: string, closed: boolean) =>
      rows.findIndex((row) => row.path === path && (row.scan_complete === true) === closed)
    for (const directory of ['/', '/quiet', '/quiet/below', '/busy']) {
      expect(at(directory, false)).toBeLessThan(at(directory, true))
      expect(at(directory, false)).toBeGreaterThanOrEqual(0)
    }
    expect(at('/busy/h', false)).toBeLessThan(at('/busy', true))
    expect(rows[at('/busy/h', false)]).toMatchObject({ parent_mtime: 1_000_000 })
  })

  it('[V2.2] a failed audit still sends its end as incomplete, deletes nothing, and the next audit reads everything', async () => {
    const sensor = fixture.sensor({ clock: quickClock(20), stuckSeconds: 100_000, watchMax: 1 })
    await audits(1)
    rmSync(fixture.at('busy', 'h'))
    fixture.server.fail = { route: /ingest/, status: 400, times: 1 }
    fixture.server.command({ type: 'audit' })
    await audits(2)
    expect(fixture.server.audits[1]).toMatchObject({ complete: false })
    expect(fixture.server.audits[1]!.error).toContain('400')
    expect(fixture.server.tree.has('/busy/h')).toBe(true)
    await audits(3)
    expect(fixture.server.audits[2]).toMatchObject({ complete: true })
    expect(skipped(2)).not.toContain('/busy')
    expect(differences(fixture.server, fixture.root)).toEqual([])
    expect(sensor.status()[0]!.session?.id).toBe('s1')
  })

  it('[V2.2] an audit whose start got no response still sends its end, so the server does not keep it open', async () => {
    fixture.server.loseResponseOf = 'POST consistency/audit/start'
    fixture.sensor({ clock: quickClock(20), stuckSeconds: 100_000 })
    await audits(2)
    expect(fixture.server.audits[0]).toMatchObject({ complete: false, rows: [] })
    expect(fixture.server.audits[1]).toMatchObject({ complete: true })
    const starts = fixture.server.of('POST consistency/audit/start').map(({ body }) => body['audit_id'])
    expect(starts).toEqual(fixture.server.audits.map(({ id }) => id))
  })

  it('[V2.2] an audit is incomplete if the root is replaced during it (hazard 24)', async () => {
    fixture.sensor({ clock: quickClock(20), stuckSeconds: 100_000 })
    await audits(1)
    const away = `${fixture.root}-away`
    renameSync(fixture.root, away)
    mkdirSync(fixture.root)
    fixture.server.command({ type: 'audit' })
    await audits(2)
    expect(fixture.server.audits[1]).toMatchObject({ complete: false })
    expect(fixture.server.tree.has('/quiet/below/g')).toBe(true)
    expect(fixture.server.realtime.filter(({ type }) => type === 'delete')).toEqual([])
    rmSync(fixture.root, { recursive: true })
    renameSync(away, fixture.root)
    await until('a complete audit', () => fixture.server.audits.at(-1)!.complete)
    expect(differences(fixture.server, fixture.root)).toEqual([])
  })

  it('[V3.2] audits and sentinels run at the intervals of the session, and no sooner', async () => {
    const quick = quickClock(1_000)
    const waits: number[] = []
    const sleep = (ms: number, signal?: AbortSignal) => {
      waits.push(ms)
      // An audit interval of 12 hours passes within 4 s, a sentinel interval of 5 minutes within 0.3 s.
      return quick.sleep(ms === 43_200_000 ? ms / 10 : ms, signal)
    }
    await fixture.end()
    fixture = await openFixture({ auditSeconds: 43_200, sentinelSeconds: 300 })
    fixture.sensor({ clock: { ...quick, sleep }, stuckSeconds: 1e9 })
    const rounds = () => fixture.server.of('GET consistency/sentinel/tasks').length
    await until('a second audit', () => fixture.server.audits.length >= 2)
    await until('a third round', () => rounds() >= 3)
    // One wait per repetition: none ran without its interval.
    const waited = (ms: number) => waits.filter((wait) => wait === ms).length
    expect(waited(43_200_000)).toBeGreaterThanOrEqual(fixture.server.audits.length - 1)
    expect(waited(300_000)).toBeGreaterThanOrEqual(rounds() - 1)
  })

  it('[V3.2] the sentinel reads the metadata of suspects and reports it', async () => {
    fixture.server.suspects = ['/quiet/f', '/nowhere', '/../etc/passwd']
    fixture.sensor()
    await until('feedback', () => fixture.server.feedback.length === 3)
    expect(fixture.server.feedback).toMatchObject([
      { path: '/quiet/f', status: 'exists', size: 3 },
      { path: '/nowhere', status: 'missing' },
      { path: '/../etc/passwd', status: 'missing' },
    ])
  })

  it('[V3.2] repeats audits and sentinel rounds at the intervals that the server assigns', async () => {
    const intervals = await openFixture({ auditSeconds: 0.6, sentinelSeconds: 0.3 })
    try {
      const { server } = intervals
      const started = () => server.of('POST consistency/audit/start')
      const rounds = () => server.of('GET consistency/sentinel/tasks')
      intervals.sensor()
      await until('three audits', () => started().length >= 3)
      await until('four rounds', () => rounds().length >= 4)
      expect(server.sessions).toBe(1)
    } finally {
      await intervals.end()
    }
  })

  it('[V4.1] [V4.2] a follower runs scans of a tree, a file or a missing path and rejects invalid paths', async () => {
    const { server } = fixture
    server.setRole('follower')
    fixture.sensor()
    server.command({ type: 'no-such-command' })
    const scan = async (job_id: string, path: string, recursive = true) => {
      server.command({ type: 'scan', path, recursive, job_id })
      return until(job_id, () =>
        server.jobs.get(job_id)?.complete === undefined ? undefined : server.jobs.get(job_id),
      )
    }
    const tree = await scan('j1', '/quiet')
    expect(
      tree.rows
        .filter((row) => row.scan_complete !== true)
        .map((row) => row.path)
        .sort(),
    ).toEqual(['/quiet', '/quiet/below', '/quiet/below/g', '/quiet/f'])
    expect((await scan('j2', '/quiet', false)).rows.map((row) => row.path)).not.toContain('/quiet/below/g')
    expect((await scan('j3', '/busy/h')).rows).toMatchObject([{ path: '/busy/h', size: 5 }])
    const gone = await scan('j4', '/busy/nothing/here')
    expect(gone.rows.some((row) => row.path === '/busy' && row.scan_complete === true)).toBe(true)
    expect(await scan('j5', '/../etc')).toMatchObject({ complete: false, rows: [] })
    await barrier(server)
  })

  it('[V4.1] [V6.6] completes 60 scans that are requested at once', async () => {
    const { server } = fixture
    fixture.sensor()
    await audits(1)
    const ids = Array.from({ length: 60 }, (_, at) => `together-${at}`)
    for (const job_id of ids) server.command({ type: 'scan', path: '/busy/h', recursive: false, job_id })
    await until('60 results', () => ids.every((id) => server.jobs.get(id)?.complete !== undefined))
    expect(ids.filter((id) => server.jobs.get(id)!.complete !== true)).toEqual([])
  })

  it('[V4.1] runs a scan while the watcher has failed and the snapshot cannot finish', async () => {
    const { server } = fixture
    const sensor = fixture.sensor({ clock: quickClock(5), stuckSeconds: 100_000, mustBeMounted: true })
    await until('the watcher failed', () =>
      sensor.units().some(({ kind, state }) => kind === 'source' && state === 'failed'),
    )
    server.command({ type: 'scan', path: '/busy', recursive: true, job_id: 'j' })
    await until('job', () => server.jobs.get('j')?.complete === true)
    expect(server.tree.has('/busy/h')).toBe(true)
    expect(server.snapshots).toBe(0)
  })
})

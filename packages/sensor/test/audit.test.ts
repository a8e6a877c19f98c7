/** Audits: what they read, what they leave alone, and how they end. */
import { mkdirSync, renameSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { quickClock } from './support/quick-clock.js'
import { barrier, differences, makeWorld, until, type World } from './support/world.js'

describe('an audit', () => {
  let world: World
  beforeEach(async () => {
    world = await makeWorld()
    mkdirSync(world.at('quiet', 'below'), { recursive: true })
    mkdirSync(world.at('busy'))
    writeFileSync(world.at('quiet', 'f'), 'one')
    writeFileSync(world.at('quiet', 'below', 'g'), 'two')
    writeFileSync(world.at('busy', 'h'), 'three')
    // Old enough to be remembered; the root stays fresh and says what time it is.
    for (const directory of ['quiet/below', 'quiet', 'busy']) utimesSync(world.at(directory), 1_000_000, 1_000_000)
  })
  afterEach(() => world.end())

  const audits = (count: number) => until(`${count} audits`, () => world.fusion.audits.length >= count)
  const skipped = (at: number) =>
    world.fusion.audits[at]!.rows.filter((row) => row.audit_skipped === true).map((row) => row.path)
  const told = (at: number) => world.fusion.audits[at]!.rows.map((row) => row.path)
  async function again() {
    const before = world.fusion.audits.length
    world.fusion.command({ type: 'audit' })
    await audits(before + 1)
  }

  it('[V2.1] the first is full; later ones leave directories unread whose time has not moved', async () => {
    world.sensor()
    await audits(1)
    expect(skipped(0)).toEqual([])
    writeFileSync(world.at('busy', 'new'), 'x')
    await again()
    expect(skipped(1)).toEqual(expect.arrayContaining(['/quiet', '/quiet/below']))
    expect(skipped(1)).not.toContain('/busy')
    expect(told(1)).toContain('/busy/new')
    expect(told(1).filter((path) => path === '/busy')).toHaveLength(2)
    expect(differences(world.fusion, world.root)).toEqual([])
  })

  it('[V2.1] silence skips the reading of a directory, not the look at its recent files (hazard 23)', async () => {
    world.sensor({ watchMax: 1 })
    await audits(1)
    writeFileSync(world.at('quiet', 'below', 'g'), 'edited in place')
    await again()
    expect(skipped(1)).toContain('/quiet/below')
    expect(world.fusion.tree.get('/quiet/below/g')).toMatchObject({ size: 15 })
  })

  it('[V2.1] a host whose clock is two hours off leaves nothing unread that has changed', async () => {
    for (const skewMs of [-7_200_000, 7_200_000]) {
      const skewed = await makeWorld()
      try {
        mkdirSync(skewed.at('fresh'))
        writeFileSync(skewed.at('fresh', 'f'), '1')
        skewed.sensor({ clock: quickClock(1, skewMs), watchMax: 1 })
        await until('audit', () => skewed.fusion.audits.length === 1)
        writeFileSync(skewed.at('fresh', 'g'), '1')
        rmSync(skewed.at('fresh', 'f'))
        skewed.fusion.command({ type: 'audit' })
        await until('second audit', () => skewed.fusion.audits.length === 2)
        expect(differences(skewed.fusion, skewed.root)).toEqual([])
      } finally {
        await skewed.end()
      }
    }
  })

  it('[V2.2] rows come between directory and closing marker, and the end says complete', async () => {
    world.sensor()
    await audits(1)
    const { rows, complete, id } = world.fusion.audits[0]!
    expect(complete).toBe(true)
    expect(world.fusion.of('POST consistency/audit/start')[0]!.body).toEqual({ session_id: 's1', audit_id: id })
    const at = (path: string, closed: boolean) =>
      rows.findIndex((row) => row.path === path && (row.scan_complete === true) === closed)
    for (const directory of ['/', '/quiet', '/quiet/below', '/busy']) {
      expect(at(directory, false)).toBeLessThan(at(directory, true))
      expect(at(directory, false)).toBeGreaterThanOrEqual(0)
    }
    expect(at('/busy/h', false)).toBeLessThan(at('/busy', true))
    expect(rows[at('/busy/h', false)]).toMatchObject({ parent_mtime: 1_000_000 })
  })

  it('[V2.2] one that fails half-way still ends, says so, deletes nothing, and the next one reads everything again', async () => {
    const sensor = world.sensor({ clock: quickClock(20), stuckSeconds: 100_000, watchMax: 1 })
    await audits(1)
    rmSync(world.at('busy', 'h'))
    world.fusion.fail = { route: /ingest/, status: 400, times: 1 }
    world.fusion.command({ type: 'audit' })
    await audits(2)
    expect(world.fusion.audits[1]).toMatchObject({ complete: false })
    expect(world.fusion.audits[1]!.error).toContain('400')
    expect(world.fusion.tree.has('/busy/h')).toBe(true)
    await audits(3)
    expect(world.fusion.audits[2]).toMatchObject({ complete: true })
    expect(skipped(2)).not.toContain('/busy')
    expect(differences(world.fusion, world.root)).toEqual([])
    expect(sensor.status()[0]!.session?.id).toBe('s1')
  })

  it('[V2.2] a root that is replaced while it is read makes the audit incomplete (hazard 24)', async () => {
    world.sensor({ clock: quickClock(20), stuckSeconds: 100_000 })
    await audits(1)
    const away = `${world.root}-away`
    renameSync(world.root, away)
    mkdirSync(world.root)
    world.fusion.command({ type: 'audit' })
    await audits(2)
    expect(world.fusion.audits[1]).toMatchObject({ complete: false })
    expect(world.fusion.tree.has('/quiet/below/g')).toBe(true)
    expect(world.fusion.realtime.filter(({ type }) => type === 'delete')).toEqual([])
    rmSync(world.root, { recursive: true })
    renameSync(away, world.root)
    await until('a complete one', () => world.fusion.audits.at(-1)!.complete)
    expect(differences(world.fusion, world.root)).toEqual([])
  })

  it('[V3.2] the sentinel asks which files are in doubt, looks, and says what is there', async () => {
    world.fusion.suspects = ['/quiet/f', '/nowhere', '/../etc/passwd']
    world.sensor()
    await until('feedback', () => world.fusion.feedback.length === 3)
    expect(world.fusion.feedback).toMatchObject([
      { path: '/quiet/f', status: 'exists', size: 3 },
      { path: '/nowhere', status: 'missing' },
      { path: '/../etc/passwd', status: 'missing' },
    ])
  })

  it('[V4.1] [V4.2] a scan runs as follower too and answers directly: a tree, a file, what is gone; tricks are refused', async () => {
    const { fusion } = world
    fusion.turn('follower')
    world.sensor()
    fusion.command({ type: 'no-such-command' })
    const scan = async (job_id: string, path: string, recursive = true) => {
      fusion.command({ type: 'scan', path, recursive, job_id })
      return until(job_id, () =>
        fusion.jobs.get(job_id)?.complete === undefined ? undefined : fusion.jobs.get(job_id),
      )
    }
    const whole = await scan('j1', '/quiet')
    expect(
      whole.rows
        .filter((row) => row.scan_complete !== true)
        .map((row) => row.path)
        .sort(),
    ).toEqual(['/quiet', '/quiet/below', '/quiet/below/g', '/quiet/f'])
    expect((await scan('j2', '/quiet', false)).rows.map((row) => row.path)).not.toContain('/quiet/below/g')
    expect((await scan('j3', '/busy/h')).rows).toMatchObject([{ path: '/busy/h', size: 5 }])
    const gone = await scan('j4', '/busy/nothing/here')
    expect(gone.rows.some((row) => row.path === '/busy' && row.scan_complete === true)).toBe(true)
    expect(await scan('j5', '/../etc')).toMatchObject({ complete: false, rows: [] })
    await barrier(fusion)
  })

  it('[V4.1] [V6.6] scans that come together are all answered, however many: the view settles what it doubts by them', async () => {
    const { fusion } = world
    world.sensor()
    await audits(1)
    const ids = Array.from({ length: 60 }, (_, at) => `together-${at}`)
    for (const job_id of ids) fusion.command({ type: 'scan', path: '/busy/h', recursive: false, job_id })
    await until('60 answers', () => ids.every((id) => fusion.jobs.get(id)?.complete !== undefined))
    expect(ids.filter((id) => fusion.jobs.get(id)!.complete !== true)).toEqual([])
  })

  it('[V4.1] a scan answers while the source cannot watch and the snapshot cannot finish', async () => {
    const { fusion } = world
    const sensor = world.sensor({ clock: quickClock(5), stuckSeconds: 100_000, mustBeMounted: true })
    await until('source failed', () =>
      sensor.units().some(({ kind, state }) => kind === 'source' && state === 'failed'),
    )
    fusion.command({ type: 'scan', path: '/busy', recursive: true, job_id: 'j' })
    await until('job', () => fusion.jobs.get('j')?.complete === true)
    expect(fusion.tree.has('/busy/h')).toBe(true)
    expect(fusion.snapshots).toBe(0)
  })
})

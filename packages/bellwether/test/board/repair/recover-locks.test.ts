import { chmod, mkdir, readFile, rename, symlink, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { acquire, generationName } from '../../../src/board/log/locks/locks.js'
import { recoverStaleLocks } from '../../../src/board/repair/recover-locks.js'
import { systemDisk } from '../../../src/ports/disk/disk.js'
import { add, boardOf, testRoot, testWorld, dead, lockOf, past, slowWorld } from '../log/test-root.js'

const terms = { owner: 'tester', ttlMs: 30_000, graceMs: 15_000, waitMs: 0 }

describe('recover-stale-locks', () => {
  const options = { apply: false, force: false, yes: false }

  it('[H2.3] recover-stale-locks lists by default, reclaims with apply, and records each reclaim with time and old owner', async () => {
    const root = await testRoot()
    const path = await root.writeLock('manual.lock', lockOf(3_600, { owner: 'gone' }))
    const dry = await recoverStaleLocks({ ...options, root: root.path }, testWorld)
    expect(dry).toMatchObject({ ok: true, mode: 'dry-run', reclaimed: [] })
    expect(dry.candidates).toMatchObject([{ path, owner: 'gone', reason: 'expired' }])
    expect(await root.lockNames()).toEqual(['manual.lock'])
    const acted = await recoverStaleLocks({ ...options, root: root.path, apply: true }, testWorld)
    expect(acted).toMatchObject({ ok: true, mode: 'apply', reclaimed: [{ path }] })
    expect(await root.lockNames()).toEqual(['recovery.audit.jsonl'])
    const audit = (await readFile(join(root.locks, 'recovery.audit.jsonl'), 'utf8')).trimEnd().split('\n')
    expect(audit.map((text) => JSON.parse(text))).toMatchObject([
      { action: 'reclaimed', lock: path, oldOwner: 'gone', owner: 'gone', reason: 'expired', at: expect.any(String) },
    ])
  })

  it('[H2.4] recover-stale-locks leaves a lock younger than its TTL unless forced', async () => {
    const root = await testRoot()
    await root.writeLock('fresh.lock', lockOf(10))
    const request = { ...options, root: root.path, apply: true }
    expect(await recoverStaleLocks(request, testWorld)).toMatchObject({
      candidates: [],
      held: [{ why: 'younger than its TTL' }],
    })
    expect(await root.lockNames()).toEqual(['fresh.lock'])
    expect(await recoverStaleLocks({ ...request, force: true }, testWorld)).toMatchObject({
      reclaimed: [{ reason: 'forced' }],
    })
    expect(await root.lockNames()).toEqual(['recovery.audit.jsonl'])
  })

  it('[H2.4] recover-stale-locks rejects more than one lock at once without yes', async () => {
    const root = await testRoot()
    await root.writeLock('a.lock', lockOf(100))
    await root.writeLock('b.lock', lockOf(100))
    const request = { ...options, root: root.path, apply: true }
    const refused = await recoverStaleLocks(request, testWorld)
    expect(refused).toMatchObject({ ok: false, reclaimed: [], refused: expect.stringContaining('--yes') })
    expect(await root.lockNames()).toEqual(['a.lock', 'b.lock'])
    expect((await recoverStaleLocks({ ...request, yes: true }, testWorld)).reclaimed).toHaveLength(2)
  })

  it('[H2.2] recover-stale-locks uses the same staleness rules as the board', async () => {
    const root = await testRoot()
    await root.writeLock('dead.lock', lockOf(35))
    await root.writeLock('alive.lock', lockOf(35, { pid: process.pid, createdAtTs: past(-1) }))
    await root.writeLock('elsewhere.lock', lockOf(35, { host: 'another-host' }))
    const old = await root.writeLock('empty.lock', '')
    await utimes(old, past(100), past(100))
    await root.writeLock('new-empty.lock', '')
    await mkdir(join(root.locks, 'folder.lock'))
    await symlink('/etc/passwd', join(root.locks, 'link.lock'))
    const { candidates, held } = await recoverStaleLocks({ ...options, root: root.path }, testWorld)
    const names = (list: readonly { path: string }[]) => list.map(({ path }) => path.slice(root.locks.length + 1))
    expect(names(candidates)).toEqual(['dead.lock', 'empty.lock'])
    expect(candidates.map(({ reason }) => reason)).toEqual(['owner-dead', 'expired'])
    expect(names(held)).toEqual(['alive.lock', 'elsewhere.lock', 'folder.lock', 'link.lock', 'new-empty.lock'])
  })

  it('[H2.5] recover-stale-locks leaves a new lock that replaced the checked one', async () => {
    const root = await testRoot()
    const path = await root.writeLock('swapped.lock', lockOf(100))
    const fresh = JSON.stringify(lockOf(1, { owner: 'fresh' }))
    const disk = {
      ...systemDisk,
      move: async (from: string, to: string) => {
        if (from === path) {
          await writeFile(`${path}.new`, fresh)
          await rename(`${path}.new`, path)
        }
        return systemDisk.move(from, to)
      },
    }
    const request = { ...options, root: root.path, apply: true }
    expect(await recoverStaleLocks(request, { ...testWorld, disk })).toMatchObject({ ok: false, reclaimed: [] })
    expect(await readFile(path, 'utf8')).toBe(fresh)
    expect(await readFile(join(root.locks, 'recovery.audit.jsonl'), 'utf8')).toContain('not_reclaimed')
  })

  it('[H2.5] the next holder after a reclaim appends a fence', async () => {
    const root = await testRoot()
    const world = slowWorld(dead)
    await acquire(root.locks, 0, terms, world)
    world.pass(31_000)
    const report = await recoverStaleLocks({ ...options, root: root.path, apply: true }, world)
    expect(report.reclaimed).toMatchObject([{ token: 1, reason: 'owner-dead' }])
    expect(await root.lockNames()).toContain(generationName(1, 'void'))
    expect(await acquire(root.locks, 0, terms, world)).toMatchObject({ token: 2, mustFence: true })
  })

  it('recover-stale-locks fails and reclaims nothing if it cannot write its audit log', async () => {
    const root = await testRoot()
    await root.writeLock('a.lock', lockOf(100))
    await mkdir(join(root.locks, 'recovery.audit.jsonl'))
    const request = { ...options, root: root.path, apply: true }
    await expect(recoverStaleLocks(request, testWorld)).rejects.toMatchObject({ code: 'no_regular_file' })
    expect(await root.lockNames()).toContain('a.lock')
  })

  it('recover-stale-locks explains missing write permission', async () => {
    const root = await testRoot()
    await chmod(root.locks, 0o500)
    const refused = () => Promise.reject(Object.assign(new Error('EACCES'), { code: 'EACCES' }))
    // Root may write anywhere, so the system error is simulated.
    const disk = process.getuid?.() === 0 ? { ...systemDisk, createExclusive: refused } : systemDisk
    const board = await boardOf(root, { disk })
    await expect(board.write(() => [add('T-1')])).rejects.toMatchObject({
      name: 'Terminal',
      code: 'permission_denied',
      hint: expect.stringMatching(/sudo chown -R "\$\(id -un\)" \/\S*\/state\./),
    })
    await board.close()
    await chmod(root.locks, 0o700)
  })
})

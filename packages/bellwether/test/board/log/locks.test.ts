import { mkdir, readFile, rename, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Retryable } from '@bellwether/protocol'
import { describe, expect, it } from 'vitest'
import { acquire, generationName } from '../../../src/board/log/locks/locks.js'
import { recoverStaleLocks } from '../../../src/board/repair/recover-locks.js'
import { systemMachine } from '../../../src/ports/disk/machine.js'
import { systemDisk } from '../../../src/ports/disk/disk.js'
import { add, boardOf, testRoot, testWorld, dead, lockOf, slowWorld } from './test-root.js'

const terms = { owner: 'tester', ttlMs: 30_000, graceMs: 15_000, waitMs: 0 }

describe('the lock of the log', () => {
  it('[H2.1] a lock file names owner, creation, expiry, resource and token', async () => {
    const { locks } = await testRoot()
    const lock = await acquire(locks, 0, terms, testWorld)
    const record = JSON.parse(await readFile(join(locks, generationName(1, 'lock')), 'utf8')) as Record<string, unknown>
    expect(record).toMatchObject({
      owner: 'tester',
      pid: process.pid,
      resource: 'tasks.jsonl',
      host: systemMachine.host,
      token: 1,
    })
    expect(Date.parse(record['expiresAt'] as string) - Date.parse(record['createdAt'] as string)).toBe(30_000)
    expect((record['expiresAtTs'] as number) - (record['createdAtTs'] as number)).toBeCloseTo(30, 3)
    await lock.release()
  })

  it('[H2.1] every acquisition has a higher token', async () => {
    const { locks, lockNames } = await testRoot()
    const tokens: number[] = []
    for (let at = 0; at < 3; at += 1) {
      const lock = await acquire(locks, 0, terms, testWorld)
      tokens.push(lock.token)
      await lock.release()
    }
    expect(tokens).toEqual([1, 2, 3])
    expect(await lockNames()).toEqual([generationName(3, 'free')])
    // Also after the lock files were deleted: the log has the highest token.
    expect((await acquire(locks, 41, terms, testWorld)).token).toBe(42)
  })

  it('[H2.2] acquire waits for the lock, and fails with lock_contention if it is not free in time', async () => {
    const { locks } = await testRoot()
    const world = slowWorld()
    const lock = await acquire(locks, 0, terms, world)
    const waiting = { ...terms, waitMs: 3_000 }
    world.pass(2_000)
    const error = await acquire(locks, 0, waiting, world).catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(Retryable)
    expect(error).toMatchObject({
      code: 'lock_contention',
      message: `Cannot lock the board: waited 3.0 s, but tester (pid ${process.pid} on ${systemMachine.host}) has held it for 5.0 s: younger than its TTL.`,
    })
    await lock.release()
    expect((await acquire(locks, 0, waiting, world)).mustFence).toBe(false)
  })

  it('[H2.2] [H2.5] after expiry and grace period a lock is taken over as a new generation next to the old one', async () => {
    const { locks, lockNames } = await testRoot()
    const world = slowWorld()
    const first = await acquire(locks, 0, terms, world)
    world.pass(44_000)
    await expect(acquire(locks, 0, terms, world)).rejects.toMatchObject({ code: 'lock_contention' })
    expect(first.expired()).toBe(true)
    world.pass(2_000)
    const second = await acquire(locks, 0, terms, world)
    expect(second).toMatchObject({ token: 2, mustFence: true })
    // The old one stays until the fence is in the log; its release does no harm.
    expect(await lockNames()).toEqual([generationName(1, 'lock'), generationName(2, 'lock')])
    await first.release()
    expect(await lockNames()).toContain(generationName(2, 'lock'))
    await second.clearBelow()
  })

  it('[H2.2] [H2.5] the next writer takes over the lock of a process that died at once, with a fence', async () => {
    const { locks } = await testRoot()
    const world = slowWorld(dead)
    await acquire(locks, 0, terms, world)
    expect(await acquire(locks, 0, terms, world)).toMatchObject({ token: 2, mustFence: true })
  })

  it('[H2.2] the lock of a dead process in another container is taken over as soon as it has expired', async () => {
    const { locks } = await testRoot()
    const world = slowWorld(dead)
    await acquire(locks, 0, terms, { ...world, machine: { ...world.machine, pidNamespace: 'pid:[1]' } })
    world.pass(29_000)
    await expect(acquire(locks, 0, terms, world)).rejects.toMatchObject({ code: 'lock_contention' })
    world.pass(1_001)
    expect(await acquire(locks, 0, terms, world)).toMatchObject({ token: 2, mustFence: true })
  })

  it('[H2.6] every reclaimed lock leaves an audit line, by ordinary takeover and by the tool, with old owner, age and new token', async () => {
    const root = await testRoot()
    const audit = async () =>
      (await readFile(join(root.locks, 'recovery.audit.jsonl'), 'utf8'))
        .trimEnd()
        .split('\n')
        .map((text) => JSON.parse(text) as Record<string, unknown>)
    const world = slowWorld(dead)
    const board = await boardOf(root, { ...world, owner: 'survivor' })
    await acquire(root.locks, 0, { ...terms, owner: 'crashed' }, world)
    world.pass(40_000)
    await board.write(() => [add('T-1')])
    const taken = {
      action: 'taken_over',
      lock: join(root.locks, generationName(1, 'lock')),
      oldOwner: 'crashed',
      ageSec: 40,
      token: 1,
      newToken: 2,
      reason: 'owner-dead',
      at: expect.stringMatching(/^\d{4}-\d\d-\d\dT/) as string,
      by: { pid: process.pid, host: systemMachine.host },
    }
    expect(await audit()).toMatchObject([taken])

    await acquire(root.locks, 0, { ...terms, owner: 'crashed again' }, world)
    world.pass(40_000)
    await recoverStaleLocks({ root: root.path, apply: true, force: false, yes: false }, world)
    const reclaimed = { action: 'reclaimed', oldOwner: 'crashed again', ageSec: 40, token: 3, newToken: null }
    expect(await audit()).toMatchObject([taken, reclaimed])
    await board.write(() => [add('T-2')])
    const next = { action: 'taken_over', oldOwner: 'crashed again', token: 3, newToken: 4 }
    expect(await audit()).toMatchObject([taken, reclaimed, next])
    // A lock that its owner released was not reclaimed.
    await board.write(() => [add('T-3')])
    expect(await audit()).toHaveLength(3)
  })

  it('[H2.6] the audit of reclaimed locks keeps two files of bounded size', async () => {
    const root = await testRoot()
    const path = join(root.locks, 'recovery.audit.jsonl')
    await writeFile(path, `${'x'.repeat(1_100_000)}\n`)
    const world = slowWorld(dead)
    await acquire(root.locks, 0, terms, world)
    world.pass(40_000)
    await (await boardOf(root, world)).write(() => [add('T-1')])
    expect((await readFile(path, 'utf8')).split('\n')).toHaveLength(2)
    expect((await readFile(join(root.locks, 'recovery.audit.1.jsonl'), 'utf8')).length).toBe(1_100_001)
  })

  it('[H2.2] a lock neither expires nor lasts longer when the wall clock jumps by a day', async () => {
    const { locks } = await testRoot()
    const world = slowWorld()
    await acquire(locks, 0, terms, world)
    world.setWall(Date.now() + 86_400_000)
    await expect(acquire(locks, 0, terms, world)).rejects.toMatchObject({ code: 'lock_contention' })
    world.setWall(Date.now() - 86_400_000)
    world.pass(46_000)
    expect((await acquire(locks, 0, terms, world)).token).toBe(2)
  })

  it('[H2.5] concurrent acquisitions never get the same generation', async () => {
    const { locks } = await testRoot()
    let [inside, most] = [0, 0]
    const seen = new Set<number>()
    const turns = Array.from({ length: 40 }, async () => {
      const lock = await acquire(locks, 0, { ...terms, waitMs: 25_000 }, testWorld)
      inside += 1
      most = Math.max(most, inside)
      seen.add(lock.token)
      await systemDisk.stat(locks)
      inside -= 1
      await lock.release()
    })
    await Promise.all(turns)
    expect(most).toBe(1)
    expect(seen.size).toBe(40)
  })

  it('[H2.5] acquire gives up a generation if a higher one exists after creating it', async () => {
    const { locks, lockNames } = await testRoot()
    // Between listing and creating number 1, others acquire and release.
    const disk = {
      ...systemDisk,
      createExclusive: async (path: string, draft: string, bytes: Uint8Array) => {
        for (let at = 0; at < 2; at += 1) await (await acquire(locks, 0, terms, testWorld)).release()
        return systemDisk.createExclusive(path, draft, bytes)
      },
    }
    await expect(acquire(locks, 0, terms, { ...testWorld, disk })).rejects.toMatchObject({ code: 'lock_contention' })
    expect(await lockNames()).toEqual([generationName(2, 'free')])
  })

  it('acquire waits for a tool of the reference that holds its own lock', async () => {
    const { locks, writeLock } = await testRoot()
    const path = await writeLock('task-board.lock', lockOf(1, { pid: process.pid }))
    await expect(acquire(locks, 0, terms, testWorld)).rejects.toMatchObject({ code: 'lock_contention' })
    await writeFile(path, JSON.stringify(lockOf(100)))
    expect((await acquire(locks, 0, terms, testWorld)).token).toBe(1)
  })

  it('a lock file that is empty, broken, huge, a link or a folder expires by its age', async () => {
    const makers: Record<string, (path: string) => Promise<unknown>> = {
      empty: (path) => writeFile(path, ''),
      broken: (path) => writeFile(path, '{"owner":'),
      huge: (path) => writeFile(path, `{"owner":"${'x'.repeat(5_000_000)}"}`),
      link: (path) => symlink('/etc/passwd', path),
      folder: (path) => mkdir(path),
    }
    for (const [kind, make] of Object.entries(makers)) {
      const { locks } = await testRoot()
      const world = slowWorld()
      await make(join(locks, generationName(5, 'lock')))
      await expect(acquire(locks, 0, terms, world), kind).rejects.toMatchObject({ code: 'lock_contention' })
      world.pass(60_000)
      const lock = await acquire(locks, 0, terms, world)
      expect(lock, kind).toMatchObject({ token: 6, mustFence: true })
      await lock.clearBelow()
      await lock.release()
    }
  })
})

describe('a board whose lock was lost', () => {
  it('[H2.5] a board whose lock was taken over finds that its late lines do not count, decides again, and loses or duplicates nothing', async () => {
    const root = await testRoot()
    const fast = { lockTtlMs: 1_000_000 }
    const rival = await boardOf(root, fast)
    await rival.write(() => [add('counter', { count: 0 })])
    let slept = 0
    // It is stopped between its check and its append while the rival takes over (hazard 19).
    const disk = {
      ...systemDisk,
      openLog: async (path: string, access: 'read' | 'append') => {
        const file = await systemDisk.openLog(path, access)
        if (file === 'missing') return file
        return {
          ...file,
          append: async (bytes: Uint8Array) => {
            slept += 1
            if (slept === 1) {
              await rename(join(root.locks, generationName(2, 'lock')), join(root.locks, generationName(2, 'void')))
              await rival.write((state) => count(state.tasks.get('counter')!.fields['count']))
            }
            return file.append(bytes)
          },
        }
      },
    }
    const count = (before: unknown) =>
      [{ taskId: 'counter', type: 'task_noted', actor: 'x', payload: { count: (before as number) + 1 } }] as const
    const sleeper = await boardOf(root, { ...fast, disk })
    const seen: unknown[] = []
    const [event] = await sleeper.write((state) => {
      seen.push(state.tasks.get('counter')!.fields['count'])
      return count(seen.at(-1))
    })
    expect(seen).toEqual([0, 1])
    expect(event).toMatchObject({ token: 4, payload: { count: 2 } })
    const again = await boardOf(root)
    expect(again.state.tasks.get('counter')!.fields['count']).toBe(2)
    // The creation, the rival's fence and count, the late line, the second attempt.
    expect((await root.lines()).map((text) => (JSON.parse(text) as { token: number }).token)).toEqual([1, 3, 3, 2, 4])
    expect(again.state.eventCount).toBe(4)
    await Promise.all([rival, sleeper, again].map((board) => board.close()))
  })

  it('[H2.5] a board that knows that its lease expired does not append', async () => {
    const root = await testRoot()
    const world = slowWorld()
    const board = await boardOf(root, { clock: world.clock, machine: world.machine })
    let decided = 0
    await board.write(() => {
      decided += 1
      if (decided === 1) world.pass(60_000)
      return [add('T-1')]
    })
    expect(decided).toBe(2)
    expect(await root.lines()).toHaveLength(1)
    await board.close()
  })
})

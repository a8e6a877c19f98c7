import { describe, expect, it } from 'vitest'
import { lockStatus, parseLock, type LockRecord } from './lock-status.js'

const nowMs = Date.parse('2026-02-27T00:01:00Z')
const graceMs = 15_000
const upMs = 5_000_000

interface World {
  alive?: boolean
  startMark?: string
  startedAtMs?: number
  bootId?: string
}

function look(record: LockRecord, { alive = true, bootId = 'boot', ...process }: World = {}, atMs = nowMs) {
  const machine = {
    host: 'here',
    bootId,
    pidNamespace: 'pid:[1]',
    uptimeMs: () => upMs,
    process: () => ({ alive, ...process }),
  }
  return lockStatus({ record, changedAtMs: atMs - 7_000 }, { nowMs: atMs, graceMs, machine })
}

function lock(createdSec: number, ttlSec = 30, more: Partial<LockRecord> = {}): LockRecord {
  const createdAtTs = nowMs / 1_000 - createdSec
  return parseLock(
    JSON.stringify({
      owner: 'me',
      pid: 7,
      createdAtTs,
      expiresAtTs: createdAtTs + ttlSec,
      resource: 'r',
      host: 'here',
      ...more,
    }),
  )!
}

describe('a lock', () => {
  it('[H2.2] a lock is stale after expiry and grace period, even if its owner lives', () => {
    expect(look(lock(30 + 15.001))).toMatchObject({ stale: 'expired', ownerAlive: true })
    expect(look(lock(30 + 14.999))).toMatchObject({ stale: false, expired: true })
    expect(look(lock(29.999))).toMatchObject({ stale: false, expired: false })
  })

  it('[H2.2] a lock whose process is gone is stale right after its expiry, and not before', () => {
    expect(look(lock(30.001), { alive: false })).toMatchObject({ stale: 'owner-dead', ownerAlive: false })
    expect(look(lock(29.999), { alive: false })).toMatchObject({ stale: false, expired: false })
    expect(look(lock(45.001), { alive: false })).toMatchObject({ stale: 'expired' })
  })

  it('[H2.2] a lock is abandoned before its expiry only if its owner certainly died', () => {
    const here = { host: 'here', bootId: 'boot', pidNamespace: 'pid:[1]' }
    const fresh = (more: Partial<LockRecord>, world: World = { alive: false }) =>
      look(lock(5, 30, { ...here, ...more }), world)
    expect(fresh({})).toMatchObject({ abandoned: true, stale: false })
    expect(fresh({}, { alive: true })).toMatchObject({ abandoned: false })
    expect(fresh({ startMark: '1' }, { startMark: '2' })).toMatchObject({ abandoned: true })
    expect(fresh({ pidNamespace: 'pid:[2]' })).toMatchObject({ abandoned: false })
    expect(fresh({ host: 'there' })).toMatchObject({ abandoned: false })
    expect(look(lock(5), { alive: false })).toMatchObject({ abandoned: false })
    // No process survives a restart of its machine.
    expect(fresh({ pidNamespace: 'pid:[2]', bootId: 'earlier' })).toMatchObject({ abandoned: true })
  })

  it('a lock of another host that is dated ahead has the age of its file', () => {
    expect(look(lock(-86_400, 30, { host: 'there' }))).toMatchObject({
      stale: false,
      ageMs: 7_000,
      why: 'dated 86400 s ahead of this clock',
    })
  })

  it('[H2.2] the owner of a lock on another host is never considered dead', () => {
    expect(look(lock(31, 30, { host: 'there' }), { alive: false })).toMatchObject({
      stale: false,
      ownerAlive: undefined,
    })
    expect(look(lock(46, 30, { host: 'there' }), { alive: false })).toMatchObject({ stale: 'expired' })
    expect(look(lock(31, 30, { pid: 0 }), { alive: false })).toMatchObject({ stale: false, ownerAlive: undefined })
  })

  it('[H2.2] a lock whose pid belongs to another program has a dead owner', () => {
    const marked = lock(31, 30, { startMark: '100' })
    expect(look(marked, { startMark: '100' })).toMatchObject({ stale: false, ownerAlive: true })
    expect(look(marked, { startMark: '999' })).toMatchObject({ stale: 'owner-dead', ownerAlive: false })
    // Without a mark: a process that started after the lock was created did not create it.
    expect(look(lock(31), { startedAtMs: nowMs - 10_000 })).toMatchObject({ stale: 'owner-dead' })
    expect(look(lock(31), { startedAtMs: nowMs - 60_000 })).toMatchObject({ stale: false })
  })

  it('[H2.2] setting the wall clock makes a lock neither stale nor permanent', () => {
    const made = (agoMs: number) => lock(agoMs / 1_000, 30, { bootId: 'boot', upMs: upMs - agoMs, ttlMs: 30_000 })
    const day = 86_400_000
    expect(look(made(5_000), {}, nowMs + day)).toMatchObject({ stale: false, expired: false, ageMs: 5_000 })
    expect(look(made(50_000), {}, nowMs - day)).toMatchObject({ stale: 'expired', ageMs: 50_000 })
    expect(look(made(31_000), { alive: false }, nowMs - day)).toMatchObject({ stale: 'owner-dead' })
    // Created in an earlier boot, under a clock that ran a day ahead.
    expect(look(made(5_000), { bootId: 'next' }, nowMs - day)).toMatchObject({ stale: 'owner-dead' })
    // Edited by hand: the fields disagree, and the wall clock decides.
    expect(look({ ...made(5_000), expiresAtTs: nowMs / 1_000 - 60 })).toMatchObject({ stale: 'expired' })
  })

  it('[H2.1] a lock is parsed in the spellings of the reference: seconds, milliseconds or ISO', () => {
    const expiresAt = '2026-02-27T00:00:30.000Z'
    const seconds = Date.parse(expiresAt) / 1_000
    for (const expiry of [
      { expiresAt },
      { expiresAtTs: seconds },
      { expiresAtTs: seconds * 1_000 },
      { expiresAtTs: seconds, expiresAt: 'x' },
    ])
      expect(parseLock(JSON.stringify({ token: 'uuid', owner: 'apply', pid: 12, ...expiry }))).toMatchObject({
        expiresAt,
        expiresAtTs: seconds,
        owner: 'apply',
        pid: 12,
      })
    expect(parseLock(JSON.stringify({ token: 'uuid', expiresAtTs: seconds }))!.token).toBeUndefined()
  })

  it('[H2.2] a lock file that is empty or broken expires by the age of the file', () => {
    for (const text of ['', '{', 'null', '[]', '{"owner":"x"}', '{"expiresAtTs":"soon"}'])
      expect(parseLock(text)).toBeUndefined()
    const machine = {
      host: 'here',
      bootId: 'b',
      pidNamespace: undefined,
      uptimeMs: () => 0,
      process: () => ({ alive: false }),
    }
    const aged = (ageMs: number) =>
      lockStatus({ record: undefined, broken: 'empty', changedAtMs: nowMs - ageMs }, { nowMs, graceMs, machine })
    expect(aged(44_000).stale).toBe(false)
    expect(aged(46_000).stale).toBe('expired')
  })
})

describe('a lock without an expiry', () => {
  it('[H2.2] a lock without an expiry has the default TTL from its creation, and its dead owner counts', () => {
    const record = (createdSec: number) =>
      parseLock(JSON.stringify({ owner: 'old', pid: 7, createdAtTs: nowMs / 1_000 - createdSec }))!
    expect(look(record(10))).toMatchObject({ stale: false, expired: false })
    expect(look(record(31), { alive: false })).toMatchObject({ stale: 'owner-dead' })
    expect(look(record(46))).toMatchObject({ stale: 'expired' })
    expect(parseLock('{"owner":"old"}')).toBeUndefined()
  })
})

/** Tests tombstones, suspects and blind spots alone. */
import { describe, expect, it } from 'vitest'
import { BlindSpots } from './blind-spots.js'
import { Suspects } from './suspects.js'
import { Tombstones } from './tombstones.js'

const deletion = (at: number) => ({ logical: at, physicalAt: at * 1_000, seenAt: at * 1_000, agent: 'a' })

describe('tombstones', () => {
  it('[V6.3] the end of an audit drops tombstones past their time to live that are older than the audit', () => {
    const tombstones = new Tombstones()
    tombstones.put('/old', deletion(100))
    tombstones.put('/late', deletion(5_000))
    tombstones.put('/young', deletion(9_000))
    // Older than an hour, but the audit began before the deletion: rows of an older scan may still arrive.
    expect(tombstones.sweep(10_000_000, 3_600_000, 4_000_000)).toBe(1)
    expect([tombstones.get('/old'), tombstones.get('/late') !== undefined]).toEqual([undefined, true])
    expect(tombstones.sweep(10_000_000, 3_600_000, 9_500_000)).toBe(1)
    expect(tombstones.get('/young')).toBeDefined()
  })

  it('[V6.3] a tombstone covers everything below a deleted directory until that directory exists again', () => {
    const tombstones = new Tombstones()
    tombstones.put('/a/b', deletion(100))
    expect(tombstones.over('/a/b/c/d', () => true)?.logical).toBe(100)
    expect(tombstones.over('/a/bb', () => true)).toBeUndefined()
    expect(tombstones.over('/a/b/c/d', (path) => path !== '/a/b/c')).toBeUndefined()
    tombstones.lift('/a/b/c')
    expect(tombstones.size).toBe(0)
  })

  it('[V6.3] keeps the later of two deletions and drops the oldest tombstone when full', () => {
    const tombstones = new Tombstones(2)
    tombstones.put('/a', deletion(200))
    tombstones.put('/a', deletion(100))
    expect(tombstones.get('/a')?.logical).toBe(200)
    tombstones.put('/b', deletion(1))
    tombstones.put('/c', deletion(1))
    expect([tombstones.size, tombstones.forgotten, tombstones.get('/a')]).toEqual([2, 1, undefined])
  })
})

describe('suspects', () => {
  it('[V6.4] clears a suspect at expiry if its mtime is unchanged and renews it otherwise', () => {
    const suspects = new Suspects()
    const mtimes = new Map([
      [1, 10],
      [2, 99],
    ])
    suspects.mark(1, 10, 1_000)
    suspects.mark(2, 20, 1_000)
    const released: number[] = []
    const expire = (nowMs: number) =>
      suspects.expire(
        nowMs,
        60_000,
        10,
        (node) => mtimes.get(node)!,
        (node) => released.push(node),
      )
    expect(expire(999)).toMatchObject({ cleared: 0, renewed: 0 })
    expect(expire(1_000)).toMatchObject({ cleared: 1, renewed: 1 })
    expect([released, suspects.get(2)?.modifiedTime]).toEqual([[1], 99])
    expect(expire(60_999)).toMatchObject({ cleared: 0, renewed: 0 })
    expect(expire(61_000)).toMatchObject({ cleared: 1 })
    expect(suspects.size).toBe(0)
  })

  it('[V6.4] a suspect that is marked again expires at the later time, in any order of marks', () => {
    const suspects = new Suspects()
    for (let i = 0; i < 1_000; i += 1) suspects.mark((i * 7_919) % 1_000, 1, 1_000 + ((i * 31) % 500))
    suspects.mark(5, 2, 9_000)
    const released: number[] = []
    suspects.expire(
      2_000,
      1,
      5_000,
      () => 1,
      (node) => released.push(node),
    )
    expect([released.length, suspects.size, suspects.get(5) !== undefined]).toEqual([999, 1, true])
    expect(new Set(released).size).toBe(999)
  })
})

describe('blind spots', () => {
  it('[V6.5] seeing a deleted path again clears its blind spot, and a reset clears all', () => {
    const spots = new BlindSpots()
    spots.deleted('/a')
    spots.deleted('/a')
    spots.deleted('/b')
    spots.additions.add(3)
    expect([spots.deletionCount, spots.any]).toEqual([2, true])
    spots.seenAgain('/a')
    expect(spots.deletions(10)).toEqual(['/b'])
    for (let i = 0; spots.hasRoom; i += 1) spots.deleted(`/${i}`)
    spots.deleted('/one-more')
    spots.countDeleted(5)
    expect([spots.deletionCount, spots.deletions(1e9).length]).toEqual([100_006, 100_000])
    spots.reset()
    expect([spots.any, spots.deletionCount]).toEqual([false, 0])
  })
})

/** The world around the fibres: time, the bell, slow fibres, errors. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { run, type Scenario, type World } from './index.js'
import { toyWorld } from './toy.js'

let world: World
let close: () => Promise<void>
beforeAll(async () => {
  ;({ world, close } = await toyWorld())
})
afterAll(() => close())

// Simulated time: it passes as soon as no fibre can run.
const second = 1_000
const forever = 1e9 * second

describe('time', () => {
  it('time is the same in SQL and JavaScript and passes only when no fibre can run', async () => {
    const differences: number[] = []
    const scenario: Scenario = ({ spawn }) =>
      spawn('a', async ({ db, clock }) => {
        for (const ms of [0, 60_000]) {
          await clock.sleep(ms)
          const [row] = await db.query<{ at: Date }>({ text: 'select toy.now() as at' })
          differences.push(clock.wallMs() - row!.at.getTime())
        }
      })
    const { simulatedMs } = await run(world, scenario, { seed: 1 })
    expect(differences).toEqual([0, 0])
    expect(Math.floor(simulatedMs)).toBe(60_000)
  })

  it('jumps on the wall clock without ending a sleep', async () => {
    const seen: [number, number][] = []
    const scenario: Scenario = ({ spawn }) =>
      spawn('a', async ({ clock }) => {
        const [wall, mono] = [clock.wallMs(), clock.monotonicMs()]
        await clock.sleep(second)
        seen.push([clock.wallMs() - wall, clock.monotonicMs() - mono])
      })
    await run(world, scenario, {
      seed: 1,
      plan: { faults: [{ kind: 'clock-jump', at: { fibre: 'a', nth: 1 }, ms: 3_600_000 }] },
    })
    expect(seen).toEqual([[3_601_000, 1000]])
  })

  it('passes for the others while a fibre is slow', async () => {
    const order: string[] = []
    const scenario: Scenario = ({ spawn }) => {
      spawn('worker', async (fibre) => {
        await fibre.yield('work')
        order.push('worker')
      })
      spawn('guard', async ({ clock }) => {
        await clock.sleep(30 * second)
        order.push('guard')
      })
    }
    await run(world, scenario, { seed: 1 })
    expect(order).toEqual(['worker', 'guard'])
    const plan = { faults: [{ kind: 'slow', at: { fibre: 'worker', nth: 1 }, steps: 50 }] } as const
    await run(world, scenario, { seed: 1, plan })
    expect(order.slice(2)).toEqual(['guard', 'worker'])
  })
})

describe('the bell', () => {
  const heard: (string | undefined)[] = []
  const ringing: Scenario = ({ spawn }) => {
    spawn('listener', async ({ bell, clock }) => {
      const listening = await bell.listen('turn.*', (ring) => void heard.push(ring?.subject))
      await clock.sleep(10 * second)
      await listening.stop()
    })
    spawn('ringer', async ({ bell, clock }) => {
      await clock.sleep(1)
      await bell.ring([
        { subject: 'turn.one', payload: {} },
        { subject: 'other', payload: {} },
      ])
    })
  }
  const listenTo = async (bell?: {
    drop: number
    duplicate: number
    late: number
    lateMs: number
  }): Promise<typeof heard> => {
    heard.length = 0
    await run(world, ringing, { seed: 1, plan: { faults: [], ...(bell && { bell }) } })
    return [...heard]
  }

  it('reports the connection and matching rings to listeners', async () => {
    expect(await listenTo()).toEqual([undefined, 'turn.one'])
  })

  it('loses, repeats and delays rings by plan', async () => {
    const none = { drop: 0, duplicate: 0, late: 0, lateMs: 1 }
    expect(await listenTo({ ...none, drop: 1 })).toEqual([undefined])
    expect(await listenTo({ ...none, duplicate: 1 })).toEqual([undefined, 'turn.one', 'turn.one'])
    expect(await listenTo({ ...none, late: 1, lateMs: 20_000 })).toEqual([undefined])
  })
})

describe('the database', () => {
  it('gives a transaction no id before it writes, so that readers of events see what they would see in production', async () => {
    const ids: unknown[] = []
    const scenario: Scenario = ({ spawn }) =>
      spawn('a', async ({ db }) => {
        ids.push(...(await db.query({ text: 'select pg_current_xact_id_if_assigned()::text as id' })))
      })
    await run(world, scenario, { seed: 1 })
    expect(ids).toEqual([{ id: null }])
  })

  it('the database is clean again after a scenario that fails', async () => {
    const failing: Scenario = ({ spawn }) => {
      spawn('a', () => Promise.resolve())
      throw new Error('bad set-up')
    }
    await expect(run(world, failing, { seed: 1 })).rejects.toThrow('bad set-up')
    expect((await run(world, ({ spawn }) => spawn('a', () => Promise.resolve()), { seed: 1 })).finding).toBeUndefined()
  })
})

describe('endings', () => {
  it('reports the error of a fibre after its rollback', async () => {
    const scenario: Scenario = ({ spawn }) =>
      spawn('a', async ({ db }) => {
        await db.transaction(async (tx) => {
          await tx.query({ text: 'update toy.counter set n = 7' })
          await tx.query({ text: 'select 1 / 0' })
        })
      })
    const { finding, trace } = await run(world, scenario, { seed: 1 })
    expect(finding).toMatchObject({ kind: 'threw', fibre: 'a', error: { code: '22012' } })
    expect(trace.slice(-2)).toEqual(['a:rollback', 'a:rolled back'])
    expect(await world.db.query({ text: 'select n from toy.counter' })).toEqual([{ n: 0 }])
  })

  it('reports a wake-up that never comes, and a run that never ends', async () => {
    const asleep = await run(world, ({ spawn }) => spawn('a', () => new Promise(() => undefined)), { seed: 1 })
    expect(asleep.finding).toEqual({ kind: 'stuck', fibres: ['a'] })
    const scenario: Scenario = ({ spawn }) =>
      spawn('a', async ({ clock }) => {
        for (;;) await clock.sleep(10)
      })
    expect((await run(world, scenario, { seed: 1, maxSteps: 40 })).finding).toEqual({ kind: 'endless', steps: 40 })
  })

  it('does not wait for daemons, and checks invariants after each commit', async () => {
    const scenario: Scenario = ({ spawn }) => {
      const bump = { text: 'select toy.bump()' }
      spawn('guard', ({ clock }) => clock.sleep(forever), { daemon: true })
      spawn('a', async ({ db }) => {
        await db.query(bump)
        await db.query({ text: 'update toy.counter set n = 0' })
      })
    }
    const never = { name: 'never one', sql: 'select * from toy.counter where n = 1' }
    expect((await run(world, scenario, { seed: 1 })).finding).toBeUndefined()
    const { finding } = await run(world, scenario, { seed: 1, always: [never] })
    expect(finding).toEqual({ kind: 'broken', invariant: 'never one', offenders: [{ id: 1, n: 1 }] })
  })
})

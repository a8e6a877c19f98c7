/** Tests the engine with toy verbs: it finds the classic races, and finds nothing when the verbs follow the rules. */
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  arbitraryPlan,
  forEachCrashPoint,
  run,
  type Fibre,
  type Invariant,
  type Outcome,
  type Plan,
  type Scenario,
  type World,
} from './index.js'
import { toyWorld } from './toy.js'

let world: World
let close: () => Promise<void>
beforeAll(async () => {
  ;({ world, close } = await toyWorld())
})
afterAll(() => close())

const noLostUpdate: Invariant = { name: 'no lost update', sql: 'select * from toy.counter where n <> 2' }
const noLostDispatch: Invariant = {
  name: 'no lost dispatch',
  sql: `select * from toy.head h where h.status = 'idle' and exists (select 1 from toy.inbox where status = 'queued')`,
}

const bumping =
  (verb: string): Scenario =>
  ({ spawn }) => {
    for (const name of ['a', 'b'])
      spawn(name, async ({ db }) => void (await db.query({ text: `select toy.${verb}()` })))
  }

/** A turn is running; while its worker delivers, a client sends the next one. */
const dispatching =
  (verb: 'careless' | 'careful'): Scenario =>
  async ({ db, spawn }) => {
    await db.query({ text: `update toy.head set status = 'running'` })
    spawn('client', async (fibre) => void (await fibre.db.query({ text: `select toy.enqueue_${verb}()` })))
    spawn('worker', async (fibre) => void (await fibre.db.query({ text: `select toy.deliver_${verb}()` })))
  }

async function seeds(scenario: Scenario, count: number, atEnd: readonly Invariant[]): Promise<Outcome[]> {
  const outcomes: Outcome[] = []
  for (let seed = 0; seed < count; seed += 1) outcomes.push(await run(world, scenario, { seed, atEnd }))
  return outcomes
}
const found = (outcomes: readonly Outcome[], kind: string): Outcome[] =>
  outcomes.filter(({ finding }) => finding?.kind === kind)

describe('races', () => {
  it('finds a lost update, and none if the row is locked first', async () => {
    expect(found(await seeds(bumping('bump'), 40, [noLostUpdate]), 'broken').length).toBeGreaterThan(0)
    const locked = await seeds(bumping('bump_locked'), 40, [noLostUpdate])
    expect(locked.map(({ finding }) => finding)).toEqual(locked.map(() => undefined))
    expect(locked.some(({ trace }) => trace.some((line) => /^! \w waits for \w$/.test(line)))).toBe(true)
  })

  it('finds the lost dispatch of hazard 1, and none if the queue is read after the lock', async () => {
    expect(found(await seeds(dispatching('careless'), 60, [noLostDispatch]), 'broken').length).toBeGreaterThan(0)
    const careful = await seeds(dispatching('careful'), 60, [noLostDispatch])
    expect(careful.map(({ finding }) => finding)).toEqual(careful.map(() => undefined))
  })

  it('detects a deadlock before PostgreSQL does and names the fibres and statements', async () => {
    const crossing: Scenario = ({ spawn }) => {
      spawn('a', async ({ db }) => void (await db.query({ text: 'select toy.swap(1, 2)' })))
      spawn('b', async ({ db }) => void (await db.query({ text: 'select toy.swap(2, 1)' })))
    }
    const [first] = found(await seeds(crossing, 40, []), 'deadlock')
    expect(first?.finding).toMatchObject({
      fibres: expect.arrayContaining(['a at swap:2 update', 'b at swap:2 update']),
    })
  })
})

describe('determinism', () => {
  it('gives the same trace for the same seed and different traces for different seeds', async () => {
    const hashes = async (): Promise<string[]> => (await seeds(dispatching('careful'), 30, [])).map(({ hash }) => hash)
    const first = await hashes()
    expect(await hashes()).toEqual(first)
    expect(new Set(first).size).toBeGreaterThan(8)
  })

  it('the engine is deterministic under contention and crashes: the schedule decides which waiter gets the row', async () => {
    const crowd: Scenario = ({ spawn }) => {
      const body = async ({ db, clock, random }: Fibre): Promise<void> => {
        for (let round = 0; round < 2; round += 1) {
          await db.query({ text: 'select toy.enqueue_careful()' })
          await clock.sleep(Math.floor(random.next() * 100))
          await db.query({ text: 'select toy.deliver_careful()' })
        }
      }
      for (const name of ['a', 'b', 'c', 'd']) spawn(name, body, { restart: true })
    }
    for (let seed = 0; seed < 8; seed += 1) {
      const plan = {
        faults: [
          { kind: 'crash', at: 30 + seed },
          { kind: 'crash', at: { fibre: 'b', nth: 5 + seed } },
        ],
      } as const
      const [one, two] = [await run(world, crowd, { seed, plan }), await run(world, crowd, { seed, plan })]
      expect(two.trace).toEqual(one.trace)
      expect(one.finding).toBeUndefined()
    }
  })

  it('replays a list of choices', async () => {
    const schedule = [0, 1, 1, 0, 1, 0, 1, 1, 0]
    const [one, two] = [
      await run(world, bumping('bump'), { seed: 1, schedule }),
      await run(world, bumping('bump'), { seed: 2, schedule }),
    ]
    expect(one.trace).toEqual(two.trace)
  })
})

describe('plans', () => {
  it('finds nothing in verbs that follow the rules, whatever faults a plan injects', async () => {
    const plans = arbitraryPlan({ fibres: ['client', 'worker'], yields: 12 })
    const holds = async (seed: number, plan: Plan): Promise<void> => {
      const { finding } = await run(world, dispatching('careful'), { seed, plan, always: [noLostDispatch] })
      expect(finding).toBeUndefined()
    }
    await fc.assert(fc.asyncProperty(fc.nat(), plans, holds), { numRuns: 30, seed: 1 })
  })
})

describe('crashes', () => {
  it('crashes a fibre at every place: its effect exists exactly from the commit on', async () => {
    const cleanups: string[] = []
    const dying: Scenario = ({ spawn }) =>
      spawn('a', async ({ db, name }) => {
        try {
          await db.query({ text: 'select toy.bump()' })
        } finally {
          cleanups.push(name)
        }
      })
    const counts: number[] = []
    const places = await forEachCrashPoint(world, dying, { seed: 1, fibre: 'a' }, async ({ finding }) => {
      expect(finding).toBeUndefined()
      const [row] = await world.db.query<{ n: number }>({ text: 'select n from toy.counter' })
      counts.push(row!.n)
    })
    // start, the call, two gates, commit, committed
    expect(places).toBe(6)
    expect(counts).toEqual([1, 0, 0, 0, 0, 0, 1])
    expect(cleanups).toEqual(['a'])
  })

  it('releases the locks of a dead fibre and restarts it if requested', async () => {
    const scenario: Scenario = ({ spawn }) => {
      spawn('a', async ({ db }) => void (await db.query({ text: 'select toy.bump_locked()' })), { restart: true })
      spawn('b', async ({ db }) => void (await db.query({ text: 'select toy.bump_locked()' })))
    }
    const plan = { faults: [{ kind: 'crash', at: { fibre: 'a', nth: 4 } }] } as const
    // a runs to its commit, then b until it blocks; a dies at the commit.
    const outcome = await run(world, scenario, {
      seed: 1,
      schedule: [0, 0, 0, 1, 1, 1, 1, 0],
      plan,
      atEnd: [noLostUpdate],
    })
    expect(outcome.finding).toBeUndefined()
    expect(outcome.trace).toContain('! a crashes at commit')
    expect(outcome.trace).toContain('a~2:committed')
  })

  it('crashes a fibre after its commit and before the client knows', async () => {
    const clientKnows: string[] = []
    const scenario: Scenario = ({ spawn }) =>
      spawn('a', async ({ db }) => {
        await db.query({ text: 'select toy.bump()' })
        clientKnows.push('clientKnows')
      })
    const plan = { faults: [{ kind: 'crash-after-commit', at: 0 }] } as const
    await run(world, scenario, { seed: 1, plan })
    expect(clientKnows).toEqual([])
    expect(await world.db.query({ text: 'select n from toy.counter' })).toEqual([{ n: 1 }])
  })
})

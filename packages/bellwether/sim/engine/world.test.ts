import { describe, expect, it } from 'vitest'
import { openWorld, run, type Scenario } from './index.js'
import { toyDatabase } from './toy.js'

const bumping: Scenario = ({ spawn }) => {
  for (const name of ['a', 'b']) {
    spawn(name, async ({ db }) => void (await db.query({ text: 'select toy.bump_locked()' })))
  }
}

describe('a world', () => {
  it.each(['truncate', 'delete'] as const)('empties by %s, and keeps what was there at first', async (emptying) => {
    const fresh = await toyDatabase()
    const world = await openWorld({ url: fresh.url, schemas: ['toy'], emptying })
    for (let round = 0; round < 3; round += 1) {
      await run(world, bumping, { seed: 1 })
      await world.db.query({ text: `insert into toy.inbox (status) values ('queued')` })
      const sql = `select n, (select min(id) from toy.inbox) as first from toy.counter`
      expect(await world.db.query({ text: sql })).toEqual([{ n: 2, first: 1 }])
      await world.reset(0)
      expect(await world.db.query({ text: sql })).toEqual([{ n: 0, first: null }])
    }
    await world.close()
    await fresh.drop()
  })

  it('a world has its database to itself and inherits nothing from an earlier world', async () => {
    const fresh = await toyDatabase()
    const world = await openWorld({ url: fresh.url, schemas: ['toy'] })
    await expect(openWorld({ url: fresh.url, schemas: ['toy'] })).rejects.toThrow(
      'Another simulation world uses this database',
    )
    await run(world, bumping, { seed: 1 })
    await world.close()
    const next = await openWorld({ url: fresh.url, schemas: ['toy'] })
    expect(await next.db.query({ text: 'select n from toy.counter' })).toEqual([{ n: 0 }])
    await next.close()
    await fresh.drop()
  })
})

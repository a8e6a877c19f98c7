import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { startFleet } from '../support/processes/fleet.js'
import { doubledEffects, startLoad } from '../support/processes/load.js'
import { startNats, type NatsServer } from '../support/nats.js'
import { freshDatabase } from '../support/postgres.js'
import { thorough } from '../support/thorough.js'

let nats: NatsServer
beforeAll(async () => {
  nats = await startNats()
})
afterAll(() => nats.stop())

/** Starts two PMOs and three workers under load, on their own database. */
async function startLoadedFleet(bell: 'notify' | 'nats') {
  const database = await freshDatabase()
  onTestFinished(() => database.drop())
  const address = { url: database.url, ...(bell === 'nats' ? { natsUrl: nats.url } : {}) }
  const load = await startLoad(address)
  onTestFinished(() => load.stop())
  const fleet = await startFleet({ ...address, workers: 3, pmos: 2 })
  onTestFinished(() => fleet.stop())
  await load.progress(40)
  return { load, fleet }
}

// topology.test.ts kills processes with the nats bell, every fourth day.
describe.each(thorough ? (['notify', 'nats'] as const) : (['notify'] as const))('with the %s bell', (bell) => {
  it('[T1.6] [W2.1] ends every turn once while workers and PMOs are killed under load', async () => {
    const { load, fleet } = await startLoadedFleet(bell)

    const { worker: victim } = await fleet.holdSlowTurn(load)
    victim.signal('SIGKILL')
    await victim.ended
    await fleet.release()
    await fleet.add('worker')
    await load.progress(40)

    fleet.pmos[0]!.signal('SIGKILL')
    await load.progress(40)
    fleet.pmos[1]!.signal('SIGKILL')
    await fleet.pmos[1]!.ended
    // Without a PMO there is no guard and no relay; the next PMO resumes both.
    await fleet.add('pmo')
    await load.progress(40)

    const audit = await load.settle()
    expect(audit).toMatchObject({ stuck: [], lost: [], outcomes: { success: audit.turns }, taskEvents: audit.turns })
    expect(audit.takenOver).toBeGreaterThan(0)
    expect(await doubledEffects(load)).toEqual([])
  })
})

import { jetstream } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { expect, it, onTestFinished } from 'vitest'
import { eventStream } from '../../src/ports/stream/nats.js'
import { startFleet } from '../support/processes/fleet.js'
import { doubledEffects, startLoad } from '../support/processes/load.js'
import { startNats } from '../support/nats.js'
import { freshDatabase } from '../support/postgres.js'
import { isToday } from '../support/thorough.js'
import { until } from '../support/until.js'

/** The turns of the task events in the stream, in order. */
async function taskTurns(url: string): Promise<string[]> {
  const connection = await connect({ servers: url })
  try {
    const consumer = await jetstream(connection).consumers.get(eventStream, {
      filter_subjects: 'bw.v1.*.*.evt.agent.*.task',
    })
    const { num_pending: pending } = await consumer.info()
    const turns: string[] = []
    if (pending === 0) return turns
    for await (const message of await consumer.consume()) {
      turns.push(message.json<{ agent_turn_id: string }>().agent_turn_id)
      if (turns.length === pending) break
    }
    return turns
  } finally {
    await connection.close()
  }
}

it.runIf(isToday('servers'))(
  '[T1.4] [T1.6] ends and announces every turn once while nats-server is killed under load',
  async () => {
    const database = await freshDatabase()
    onTestFinished(() => database.drop())
    const nats = await startNats()
    onTestFinished(() => nats.stop())
    const address = { url: database.url, natsUrl: nats.url }
    const load = await startLoad(address)
    onTestFinished(() => load.stop())
    const fleet = await startFleet({ ...address, workers: 3, pmos: 2 })
    onTestFinished(() => fleet.stop())
    await load.progress(60)

    await nats.kill()
    // Without NATS, plain turns continue by polling and turns with tools end by a timeout receipt.
    await load.progress(20)
    await nats.restart()
    await load.progress(60)

    const audit = await load.settle()
    expect(audit).toMatchObject({ stuck: [], lost: [], outcomes: { success: audit.turns }, taskEvents: audit.turns })
    expect(await doubledEffects(load)).toEqual([])
    const announced = await until('the relay caught up', async () => {
      const turns = await taskTurns(nats.url)
      return turns.length >= audit.turns ? turns : undefined
    })
    expect(announced.toSorted()).toEqual(load.turnIds.toSorted())
  },
)
